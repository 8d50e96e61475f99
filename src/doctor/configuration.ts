/** Settings that are weaker than they should be, of the environment and of the stored configuration. */
import { connect, isIP } from 'node:net';
import type pg from 'pg';
import { wrappedKey } from '../backup/keys.ts';
import { readSecrets } from '../kernel/data-folder/secrets-file.ts';
import { opensDataKey } from '../kernel/security/secret-box.ts';
import { isLoopback, masterKeyWeakness } from '../kernel/settings/default-environment.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import { type Finding, note, ok, problem, warning } from './finding.ts';

/* The stored configuration, past the platform. */

/** Parts that are looked at. Absent keys have their default. */
interface Stored {
  readonly core?: { readonly env?: string };
  readonly admin?: {
    readonly hostUrl?: string;
    readonly cors?: { readonly enabled?: boolean; readonly origin?: string };
    readonly docs?: { readonly public?: boolean | string };
  };
  readonly authentication?: {
    readonly passkeys?: { readonly enabled?: boolean; readonly rpId?: string };
    readonly phoneAuthentication?: { readonly enabled?: boolean };
    readonly twoFa?: { readonly enabled?: boolean; readonly methods?: { readonly sms?: boolean } };
  };
  readonly router?: {
    readonly hostUrl?: string;
    readonly cors?: { readonly origin?: string };
    readonly docs?: { readonly public?: boolean };
    readonly graphql?: {
      readonly introspection?: boolean | string;
      readonly explorer?: boolean | string;
    };
  };
  readonly communications?: {
    readonly sms?: { readonly active?: boolean; readonly providerName?: string };
    readonly email?: {
      readonly active?: boolean;
      readonly transport?: string;
      readonly transportSettings?: {
        readonly smtp?: {
          readonly host?: string;
          readonly port?: number;
          readonly secure?: boolean;
        };
      };
    };
  };
}

async function readStored(client: pg.Client): Promise<Stored> {
  const there = await client.query<{ there: boolean }>(
    `select to_regclass('penstock.config') is not null as there`,
  );
  if (!there.rows[0]?.there) return {};
  const { rows } = await client.query<{ name: string; config: unknown }>(
    'select name, config from penstock.config',
  );
  return Object.fromEntries(rows.map(({ name, config }) => [name, config])) as Stored;
}

/* The mail server of the stored configuration: whether somebody answers there. Nobody logs in, and nothing is sent. */

const PATIENCE_MS = 5_000;

export async function checkMailServer(client: pg.Client): Promise<Finding[]> {
  const { communications } = await readStored(client);
  const {
    active = true,
    transport = 'smtp',
    transportSettings: { smtp = {} } = {},
  } = communications?.email ?? {};
  if (!active) return [];
  const { host = '', port = -1, secure = false } = smtp;
  if (transport !== 'smtp' && transport !== 'mock')
    return [ok('Mail', `Mails go out by ${transport}`)];
  if (transport === 'mock' || host === '') {
    return [
      note(
        'Mail',
        'No mail server is set: messages are captured for operators to read',
        'See docs/guides/messages.md before users need mail',
      ),
    ];
  }
  const address = { host, port: port > 0 ? port : secure ? 465 : 587 };
  const failure = await answers(address);
  if (failure === undefined) return [ok('Mail', `${host}:${address.port} answers`)];
  return [
    problem(
      'Mail',
      `The mail server ${host}:${address.port} does not answer (${failure})`,
      'Correct email.transportSettings.smtp (PATCH /config/communications), or let this machine reach it; messages wait meanwhile',
    ),
  ];
}

/** So many failures since the last message that went out are no accident any more. */
const failingAfter = 3;

/** Providers of messages that took none of the last ones, by the timelines of a day. */
export async function checkProviders(client: pg.Client): Promise<Finding[]> {
  const there = await client.query<{ there: boolean }>(
    `select to_regclass('penstock.message_events') is not null as there`,
  );
  if (!there.rows[0]?.there) return [];
  const { rows } = await client.query<{ channel: string; provider: string; failures: number }>(
    `with attempts as (
       select m.channel, e.provider, e.at, e.kind = 'accepted' as taken
       from penstock.messages m join penstock.message_events e on e.message_id = m.id
       where m.created_at > now() - interval '1 day' and e.kind in ('accepted', 'tried', 'failed') and e.provider is not null),
     successes as (select channel, provider, max(at) as at from attempts where taken group by 1, 2)
     select a.channel, a.provider, count(*)::integer as failures from attempts a left join successes s using (channel, provider)
     where not a.taken and a.at > coalesce(s.at, '-infinity') group by 1, 2 having count(*) >= $1 order by 1, 2`,
    [failingAfter],
  );
  return rows.map(({ channel, provider, failures }) =>
    warning(
      'Messages',
      `The last ${failures} attempts to send by ${provider} (${channel}) failed`,
      'GET /communications/health says why; see GET /communications/messages?status=failed for what has to be sent again',
    ),
  );
}

/** Why nobody answers; `undefined` when somebody does. */
const answers = (address: { host: string; port: number }): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ ...address, timeout: PATIENCE_MS });
    const end = (reason: string | undefined): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end('no answer in time'));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });

export async function checkConfiguration(
  settings: Settings,
  client: pg.Client | undefined,
): Promise<Finding[]> {
  const stored = client ? await readStored(client) : {};
  const production = (stored.core?.env ?? settings.defaultEnvironment.env) === 'production';
  const found = [
    checkMasterKey(settings),
    await checkSeal(settings, client),
    production ? undefined : checkEnvironment(settings),
    checkPlainAdmin(settings, stored),
    checkMetrics(settings),
    production ? checkAddresses(stored) : undefined,
    production ? checkTextCodes(stored) : undefined,
    checkPasskeys(stored),
    ...(production ? checkDocuments(stored) : []),
    production &&
    (stored.admin?.cors?.origin ?? '*') === '*' &&
    stored.admin?.cors?.enabled !== false
      ? note(
          'CORS',
          'Any web page may call the admin surface (without cookies)',
          'Set admin.cors.origin to the address of your panel',
        )
      : undefined,
    production && settings.databaseUrl === undefined
      ? note(
          'Database',
          'The embedded PostgreSQL serves production: fine for one machine',
          'Make backups (penstock backup), and set DATABASE_URL before you add a second node',
        )
      : undefined,
    settings.redisUrl === undefined && settings.databaseUrl !== undefined
      ? note(
          'Redis',
          'REDIS_URL is not set: several nodes find each other through PostgreSQL, and count rate limits one by one',
        )
      : undefined,
  ].filter((finding) => finding !== undefined);
  return found.some(({ severity }) => severity === 'warning' || severity === 'problem')
    ? found
    : [...found, ok('Settings', 'None is weak')];
}

const checkEnvironment = ({ host }: Settings): Finding | undefined =>
  isLoopback(host)
    ? undefined
    : warning(
        'Environment',
        `The platform listens on ${host}, and core.env is not "production"`,
        'Set it to production where others can reach the platform (PATCH /config/core): API documents close, and first passwords must be changed. It is by default, unless NODE_ENV is development',
      );

/** The platform itself speaks plain HTTP: past loopback, somebody else has to encrypt what operators send. */
function checkPlainAdmin(
  { host, adminHttpPort }: Settings,
  { admin }: Stored,
): Finding | undefined {
  if (isLoopback(host) || admin?.hostUrl?.startsWith('https://')) return undefined;
  return warning(
    'Admin surface',
    `It answers plain HTTP on ${host}, port ${adminHttpPort}: whoever sees the traffic reads the master key and passwords of admins`,
    'Let nobody but a proxy with TLS reach that port (a firewall, or a port that the container does not publish), and set admin.hostUrl to its https:// address',
  );
}

/** Names of routes and schemas are among the figures. */
function checkMetrics({ metricsPort, metricsHost, metricsToken }: Settings): Finding | undefined {
  if (metricsPort === undefined || metricsToken !== undefined || isLoopback(metricsHost))
    return undefined;
  return warning(
    'Metrics',
    `Everybody who reaches ${metricsHost}, port ${metricsPort}, may read them`,
    'Set METRICS_TOKEN, or METRICS_HOST to an address that only your monitoring reaches',
  );
}

/** Without a provider, codes by text message are captured: whoever waits for one cannot sign in. */
function checkTextCodes({ communications, authentication = {} }: Stored): Finding | undefined {
  const { active = true, providerName = 'mock' } = communications?.sms ?? {};
  const { phoneAuthentication, twoFa } = authentication;
  const asked = phoneAuthentication?.enabled || (twoFa?.enabled && twoFa.methods?.sms);
  if (!asked || !active || providerName !== 'mock') return undefined;
  return warning(
    'Text messages',
    'Users are asked for codes by text message, and no provider is set: operators can read the codes, and nobody gets them',
    'Choose a provider in sms.providerName (PATCH /config/communications), or switch off phoneAuthentication and twoFa.methods.sms',
  );
}

/** Documents and GraphQL that stay open although this is production. */
function checkDocuments({ admin, router }: Stored): Finding[] {
  const open = [
    ['admin.docs.public', admin?.docs?.public],
    ['router.graphql.introspection', router?.graphql?.introspection],
    ['router.graphql.explorer', router?.graphql?.explorer],
  ].flatMap(([key, value]) => (value === true ? [String(key)] : []));
  return [
    ...(open.length > 0
      ? [
          warning(
            'API documents',
            `They are open to everybody in production: ${open.join(', ')}`,
            'Set each to "auto" or false',
          ),
        ]
      : []),
    ...(router?.docs?.public === false
      ? []
      : [
          note(
            'API documents',
            'Everybody may read the description of the client surface, which names schemas and fields',
            'Set router.docs.public to false where only signed-in users should',
          ),
        ]),
  ];
}

/** Without the right key the platform does not start: the secrets in its database cannot be opened. */
async function checkSeal(
  settings: Settings,
  client: pg.Client | undefined,
): Promise<Finding | undefined> {
  const wrapped = client ? await wrappedKey(client) : null;
  if (wrapped === null) return undefined;
  // What is wrong with the file is a finding of its own.
  const kept = await readSecrets(settings.dataDir).catch(() => undefined);
  const { masterKey = kept?.masterKey, masterKeyPrevious, configEncryptionKey } = settings;
  if (masterKey === undefined && configEncryptionKey === undefined)
    return problem(
      'Sealed secrets',
      'The key that opens the secrets in the database is missing: it is neither in MASTER_KEY nor in the data folder',
      'Put secrets.json back from your backup, or set MASTER_KEY (or CONFIG_ENCRYPTION_KEY) to the key of this installation',
    );
  if (
    opensDataKey(wrapped, {
      ...(masterKey === undefined ? {} : { masterKey }),
      masterKeyPrevious,
      configEncryptionKey,
    })
  )
    return ok('Sealed secrets', 'The key of this installation opens them');
  return problem(
    'Sealed secrets',
    'The secrets in the database were sealed with another key: the platform does not start with this one',
    'Set MASTER_KEY (or CONFIG_ENCRYPTION_KEY) to the key of this installation; after a change on purpose set the earlier one in MASTER_KEY_PREVIOUS',
  );
}

function checkMasterKey({ masterKey }: Settings): Finding | undefined {
  const weakness = masterKeyWeakness(masterKey);
  if (weakness === undefined) return undefined;
  return problem(
    'Master key',
    `MASTER_KEY ${weakness}`,
    'Set another one and the earlier one in MASTER_KEY_PREVIOUS, start once, then remove that',
  );
}

function checkAddresses({ admin, router }: Stored): Finding | undefined {
  const plain = [
    ['admin.hostUrl', admin?.hostUrl],
    ['router.hostUrl', router?.hostUrl],
  ].filter(([, url]) => url === undefined || url === '' || url.startsWith('http://'));
  if (plain.length === 0) return undefined;
  return warning(
    'Public address',
    `${plain.map(([key]) => key).join(' and ')} should be an https:// address in production`,
    'Put a proxy with TLS before the platform, set TRUSTED_PROXIES, and set these keys: links in mails are made from them',
  );
}

/** Browsers take no IP address for the domain of a passkey, so nobody could add one. */
function checkPasskeys({ authentication, router }: Stored): Finding | undefined {
  const { enabled = false, rpId = '' } = authentication?.passkeys ?? {};
  const host = URL.canParse(router?.hostUrl ?? '') ? new URL(router?.hostUrl ?? '').hostname : '';
  // IPv6 stands in brackets.
  if (!enabled || rpId !== '' || isIP(host.replace(/^\[|\]$/g, '')) === 0) return undefined;
  return warning(
    'Passkeys',
    `They are on, and would belong to the IP address ${host} of router.hostUrl: browsers take a name only`,
    'Set authentication.passkeys.rpId to the domain of your app and passkeys.origins to its pages, or router.hostUrl to an address with a name',
  );
}
