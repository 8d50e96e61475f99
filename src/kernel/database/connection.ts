/** How connections of this process to PostgreSQL are set up, whoever runs the server. */

import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

/*
 * A connection that ends when an answer cannot be read. The driver reads in the event of the socket, where whatever
 * it throws (a text longer than any string, a broken message) would be nobody's error and the end of the process.
 */

/** What the driver listens with; called again when the connection is encrypted. */
interface Wire {
  attachListeners(stream: Duplex): void;
}

export class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    guard((this as unknown as { readonly connection: Wire }).connection);
  }
}

function guard(wire: Wire): void {
  const attach = wire.attachListeners.bind(wire);
  wire.attachListeners = (stream) => {
    const before = new Set(stream.listeners('data'));
    attach(stream);
    for (const read of stream.listeners('data')) {
      if (before.has(read)) continue;
      stream.off('data', read as (chunk: Buffer) => void);
      stream.on('data', (chunk: Buffer) => {
        try {
          read(chunk);
        } catch (error) {
          stream.destroy(error as Error);
        }
      });
    }
  };
}

/*
 * A socket that reads into the same memory each time. Otherwise Node takes 64 kB for each read and gives them back, and
 * every answer is an object of its own for the garbage collector.
 */

const READ_BYTES = 65_536;

/**
 * The driver may keep the end of a message until its rest comes: it gets a copy. Whoever listens to `bytes` reads them
 * before the next ones come, and keeps none of them.
 */
function openSocket(): Socket {
  const socket: Socket = new Socket({
    onread: {
      buffer: Buffer.allocUnsafeSlow(READ_BYTES),
      callback(length, memory) {
        const bytes = Buffer.from(memory.buffer, memory.byteOffset, length);
        if (!socket.emit('bytes', bytes)) socket.emit('data', Buffer.from(bytes));
        return true;
      },
    },
  });
  return socket;
}

/* How connections that were lost come back. */

const FIRST_DELAY_MS = 20;
const LONGEST_DELAY_MS = 2_000;

/** Tries until it works or `givenUp` answers true, waiting longer each time. */
export async function keepTrying(
  attempt: () => Promise<void>,
  givenUp: () => boolean,
): Promise<void> {
  for (let delay = FIRST_DELAY_MS; !givenUp(); delay = Math.min(delay * 2, LONGEST_DELAY_MS)) {
    try {
      return await attempt();
    } catch {
      // The loss itself was logged; each further attempt would only repeat it.
      await sleep(delay, undefined, { ref: false });
    }
  }
}

/** Where a server is and how to log in. `host` may be the folder of a unix socket. */
export interface ConnectionTarget {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
  readonly password?: string;
  readonly ssl?: pg.ClientConfig['ssl'];
}

/** How statements are sent. */
export interface ConnectionModes {
  /** Off for poolers (PgBouncer) that cannot keep prepared statements or session settings. */
  readonly preparedStatements: boolean;
  /** Off falls back to one statement at a time on each connection. */
  readonly pipelining: boolean;
  /** Tells the sessions of one open database from those of another; in their names. */
  readonly instance?: string;
}

/**
 * Settings of every session. Our statements are short: compiling one (`jit`, on by default) takes a hundred times
 * longer than running it, and the planner's estimates for recursive ones make it do so each time. Workers beside a scan
 * take 5 ms to begin, which reading 10 MB takes in all: they are for tables where it pays. Instants are rendered by
 * PostgreSQL as it writes them: whatever a server, a database or a role is set to, they are the same here.
 */
const sessionSettings = {
  TimeZone: 'UTC',
  DateStyle: 'ISO',
  jit: 'off',
  min_parallel_table_scan_size: '64MB',
};

/** A statement is given up after this many ms. */
const STATEMENT_TIMEOUT_MS = 15_000;
const CONNECT_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_DELAY_MS = 30_000;

const INT8 = pg.types.builtins.INT8;
/** `_int8`; the driver's list of type ids has no arrays. */
const INT8_ARRAY: number = 1016;

/** int8 as a number while that is exact, else as text. */
function parseInt8(text: string): number | string {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : text;
}

const readInt8Array = pg.types.getTypeParser(INT8_ARRAY as typeof INT8) as (
  text: string,
) => unknown;

const parseInt8Array = (text: string): (number | string | null)[] =>
  (readInt8Array(text) as (string | null)[]).map((item) =>
    item === null ? null : parseInt8(item),
  );

const getTypeParser = ((oid: number, format?: 'text' | 'binary') => {
  if (oid === INT8 && format !== 'binary') return parseInt8;
  if (oid === INT8_ARRAY && format !== 'binary') return parseInt8Array;
  return pg.types.getTypeParser(oid, format);
}) as typeof pg.types.getTypeParser;

export interface ClientOptions {
  readonly target: ConnectionTarget;
  readonly modes: ConnectionModes;
  /** Ends up in `pg_stat_activity.application_name`. */
  readonly role: string;
  /** 0 switches the timeout off. */
  readonly statementTimeoutMs?: number;
  /** Longest wait for one lock; none unless set. */
  readonly lockTimeoutMs?: number;
  readonly pipeline?: boolean;
  /** Rows are read as a stream (COPY), at the pace of the reader: that needs a socket that can be paused and read from. */
  readonly streams?: boolean;
}

const startOptions = Object.entries(sessionSettings)
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ');

/** The end of the name of every session of that instance. */
export const sessionMark = ({ instance }: ConnectionModes): string =>
  instance === undefined ? '' : ` [${instance}]`;

/** The driver's configuration for one connection. Session settings travel in the start-up message and cost nothing. */
export function clientConfig({
  target,
  modes,
  role,
  statementTimeoutMs = STATEMENT_TIMEOUT_MS,
  lockTimeoutMs,
  pipeline = false,
  streams = false,
}: ClientOptions): pg.ClientConfig {
  return {
    ...target,
    application_name: `penstock ${role}${sessionMark(modes)}`,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types: { getTypeParser },
    pipeline: pipeline && modes.pipelining,
    // An encrypted connection reads by itself.
    ...(!(target.ssl || streams) && { stream: openSocket }),
    ...(modes.preparedStatements && {
      options: startOptions,
      statement_timeout: statementTimeoutMs,
    }),
    ...(modes.preparedStatements && lockTimeoutMs !== undefined && { lock_timeout: lockTimeoutMs }),
  };
}

/** Sets up a session behind a pooler, which refuses settings in the start-up message. */
export async function prepareSession(client: pg.ClientBase, options: ClientOptions): Promise<void> {
  if (options.modes.preparedStatements) return;
  const settings = {
    ...sessionSettings,
    statement_timeout: Number(options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS),
  };
  await client.query(
    Object.entries(settings)
      .map(([name, value]) => `set ${name} = '${value}'`)
      .join('; '),
  );
}
