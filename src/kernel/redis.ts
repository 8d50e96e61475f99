/**
 * Connections to Redis, by role. Redis is optional: it carries the bus, the
 * limits and the realtime traffic between nodes, never the truth. When it is
 * away, commands fail at once instead of queueing, and every user of it has a
 * way to go on without.
 */
import type { Redis as Client, RedisOptions } from 'ioredis';
import type { Database } from './database/database.ts';
import type { Settings } from './settings/settings.ts';
import { StartError } from './start-error.ts';
import type { Logger } from './telemetry/logger.ts';

export type RedisClient = Client;

export interface Redis {
  /** For commands. Fails fast while the server is away. */
  readonly commands: RedisClient;
  /** For subscriptions only; subscribes again by itself after a loss. */
  readonly subscriber: RedisClient;
  /** The name of something of ours on a server that we may share: `penstock:<installation>:a:b`. */
  key(...parts: readonly string[]): string;
  /** Throws unless the server answers within `timeoutMs`. */
  ping(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

const notAnAddress =
  'REDIS_URL is not a valid address: write it as redis://host:6379 or rediss://user:password@host:6380/0.';
/** How long the first connection may take, in ms. */
const connectTimeoutMs = 5_000;
/** A command that takes longer than this, in ms, counts as failed. */
const commandTimeoutMs = 2_000;

/**
 * Connects to `REDIS_URL`; `undefined` when there is none. `installation` keeps two installations
 * on one server apart (see `installationId`). Throws `StartError` when the server cannot be used.
 */
export async function openRedis(
  settings: Pick<Settings, 'redisUrl'>,
  log: Logger,
  installation: string,
): Promise<Redis | undefined> {
  if (settings.redisUrl === undefined) return undefined;
  const target = describeTarget(settings.redisUrl);
  // Loaded only when it is used: it takes time and memory.
  const { Redis: Driver } = await import('ioredis');
  const troubles: Error[] = [];
  const open = (role: string, options: RedisOptions): RedisClient => {
    const client = new Driver(settings.redisUrl ?? '', {
      ...options,
      ...commonOptions(role),
      lazyConnect: true,
    });
    watch(client, log.child({ role }), (trouble) => troubles.push(trouble));
    return client;
  };
  const commands = open('commands', {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: commandTimeoutMs,
  });
  const subscriber = open('subscriber', { maxRetriesPerRequest: null, autoResubscribe: false });
  try {
    await Promise.all([commands.connect(), subscriber.connect()]);
    await commands.ping();
    // A refused password or database number does not fail the connection.
    if (troubles[0]) throw troubles[0];
  } catch (error) {
    commands.disconnect();
    subscriber.disconnect();
    // Without the cause: the driver's errors carry the command that failed, and with it the password.
    throw new StartError(
      `Redis at ${target} (REDIS_URL) cannot be used (${reasonOf(troubles[0] ?? error)}): start it, correct REDIS_URL, or unset it to run without Redis`,
    );
  }
  return {
    commands,
    subscriber,
    key: (...parts) => ['penstock', installation, ...parts].join(':'),
    ping: (timeoutMs) => withTimeout(commands.ping(), timeoutMs),
    async close() {
      await Promise.all([commands, subscriber].map(leave));
    },
  };
}

/** Says goodbye to a server that is there; waits for none that is away. */
async function leave(client: RedisClient): Promise<void> {
  if (client.status === 'ready')
    await withTimeout(client.quit(), commandTimeoutMs).catch(() => undefined);
  client.disconnect();
}

/** The id of this installation, made with its database: the namespace on a shared Redis. */
export async function installationId(database: Database): Promise<string> {
  const { rows } = await database.query<{ id: string }>({
    text: 'select id::text as id from penstock.installation',
  });
  return rows[0]?.id ?? 'unknown';
}

const commonOptions = (role: string): RedisOptions => ({
  connectTimeout: connectTimeoutMs,
  connectionName: `penstock-${role}`,
  retryStrategy: (attempt) => Math.min(attempt * 100, 2_000),
  // A primary that became a replica takes no changes; behind its name may be another one by now.
  reconnectOnError: ({ message }) => message.startsWith('READONLY'),
});

/** Logs losses and returns, once each. Errors before the first success go to `onTrouble`. */
function watch(client: RedisClient, log: Logger, onTrouble: (error: Error) => void): void {
  let everConnected = false;
  let lost = false;
  client.on('ready', () => {
    everConnected = true;
    if (lost) log.info({}, 'Redis is back');
    lost = false;
  });
  client.on('error', (error: Error) => {
    if (!everConnected) return onTrouble(error);
    if (!lost) log.warn({ reason: reasonOf(error) }, 'Redis is away; going on without it');
    lost = true;
  });
}

/** Host, port and database number, without credentials. */
function describeTarget(url: string): string {
  try {
    const { protocol, hostname, port, pathname } = new URL(url);
    if (protocol !== 'redis:' && protocol !== 'rediss:') throw new Error(protocol);
    return `${hostname}:${port || '6379'}${pathname.length > 1 ? pathname : ''}`;
  } catch (cause) {
    throw new StartError(notAnAddress, { cause });
  }
}

/** What went wrong without addresses or credentials. */
const reasonOf = (error: unknown): string => {
  const { code, message } = error as { code?: string; message?: string };
  return (code ?? message ?? 'unknown error').split('\n', 1)[0] ?? '';
};

async function withTimeout(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
