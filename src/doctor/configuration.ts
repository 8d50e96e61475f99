/** Settings that are weaker than they should be, of the environment and of the stored configuration. */
import { isIP } from 'node:net';
import type pg from 'pg';
import { wrappedKey } from '../backup/keys.ts';
import { readSecrets } from '../kernel/data-folder/secrets-file.ts';
import { opensDataKey } from '../kernel/security/secret-box.ts';
import { isLoopback, masterKeyWeakness } from '../kernel/settings/default-environment.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import { type Finding, note, ok, problem, warning } from './finding.ts';
import { readStored, type Stored } from './stored-configuration.ts';

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
