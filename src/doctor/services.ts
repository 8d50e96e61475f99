/** Servers outside that the stored configuration names, and what the last messages say of their providers. */
import { connect } from 'node:net';
import type pg from 'pg';
import { type Finding, note, ok, problem, warning } from './finding.ts';
import { readStored, type Stored } from './stored-configuration.ts';

const PATIENCE_MS = 5_000;

/** The mail server of the stored configuration: whether somebody answers there. Nobody logs in, and nothing is sent. */
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

/** Where the bytes of files lie, when that is not this machine: whether somebody answers there. Nobody logs in. */
export async function checkFileStore(client: pg.Client): Promise<Finding[]> {
  const { storage = {} } = await readStored(client);
  const base = storeAddress(storage);
  if (base === undefined) return [];
  const { hostname, port, protocol } = base;
  const failure = await answers({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port) || (protocol === 'http:' ? 80 : 443),
  });
  if (failure === undefined) return [ok('Files', `${base.host} answers`)];
  return [
    problem(
      'Files',
      `The store of files ${base.host} (${storage.provider}) does not answer (${failure})`,
      'Correct storage.provider and its settings (PATCH /config/storage), or let this machine reach it; files cannot be read or stored meanwhile',
    ),
  ];
}

/** Nothing for this machine, and for Azure, whose address is in a sealed text. As `addressesOf` of the providers. */
function storeAddress(storage: NonNullable<Stored['storage']>): URL | undefined {
  const { provider = 'local', aws = {}, aliyun = {}, google = {} } = storage;
  const known: Readonly<Record<string, string>> = {
    aws: aws.endpoint || `https://s3.${aws.region ?? ''}.amazonaws.com`,
    aliyun: `https://s3.oss-${aliyun.region ?? ''}.aliyuncs.com`,
    google: google.endpoint || 'https://storage.googleapis.com',
  };
  const address = known[provider] ?? '';
  return URL.canParse(address) ? new URL(address) : undefined;
}
