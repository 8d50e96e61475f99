/** Puts the connections to one PostgreSQL database together into the contract of database.ts. */
import pg from 'pg';
import { currentAccount, offAccount } from '../account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createCompanions } from './companions.ts';
import { type ClientOptions, type ConnectionModes, type ConnectionTarget, clientConfig, prepareSession } from './connection.ts';
import type { Database, DatabaseInfo } from './database.ts';
import { GuardedClient } from './guarded-client.ts';
import { Listener } from './listener.ts';
import { createLocks } from './locks.ts';
import { createSessions } from './sessions.ts';
import { isRead, openSharedClients, type SharedClients } from './shared-clients.ts';
import { createStatementNames, type StatementNames } from './statement-names.ts';
import type { StatementTimings } from './timings.ts';
import { createTransactions } from './transactions.ts';

export interface CreateDatabaseOptions {
  readonly target: ConnectionTarget;
  readonly modes: ConnectionModes;
  readonly log: Logger;
  readonly kind: DatabaseInfo['kind'];
  /** Shown to operators: a folder, or host and database without credentials. */
  readonly location: string;
  /** Told how long each statement took. */
  readonly timings?: StatementTimings | undefined;
  /** Runs after all connections are closed. */
  readonly onClose?: () => Promise<void>;
}

const READ_CLIENTS = 3;
/** A write holds its connection until the disk has it; more of them wait for the disk together (group commit). */
const WRITE_CLIENTS = 6;
const TRANSACTION_CLIENTS = 10;
/** Locks are few and short; more of them than this at a time wait for each other. */
const LOCK_CLIENTS = 6;
const IDLE_MS = 30_000;
/** Long enough for another node's migrations. */
const LOCK_TIMEOUT_MS = 300_000;

/** A pool whose idle connections may die without anybody noticing more than a log line. */
function openPool(connection: ClientOptions, max: number, log: Logger): pg.Pool {
  const pool = new pg.Pool({
    ...clientConfig(connection),
    Client: GuardedClient,
    max,
    idleTimeoutMillis: IDLE_MS,
    onConnect: (client) => prepareSession(client, connection),
  });
  pool.on('error', (error) => log.warn({ err: error }, 'An idle database connection was lost'));
  return pool;
}

/** Connections for single statements: reads have their own, so that they never wait behind a write. */
async function openStatementClients(
  connection: ClientOptions,
  names: StatementNames,
  options: CreateDatabaseOptions,
): Promise<SharedClients> {
  const parts = { connection, names, timings: options.timings, log: options.log };
  const [reads, writes] = await Promise.all([
    openSharedClients({ ...parts, size: READ_CLIENTS }),
    openSharedClients({ ...parts, size: WRITE_CLIENTS }),
  ]);
  return {
    query: (statement) => (isRead(statement.text) ? reads : writes).query(statement),
    counts() {
      const [a, b] = [reads.counts(), writes.counts()];
      return { total: a.total + b.total, idle: a.idle + b.idle, waiting: a.waiting + b.waiting };
    },
    close: async () => void (await Promise.all([reads.close(), writes.close()])),
  };
}

/** Connects. Rejects with the driver's error when that fails; see external.ts for readable ones. */
export async function createDatabase(options: CreateDatabaseOptions): Promise<Database> {
  const { target, modes, log } = options;
  const names = createStatementNames(modes.preparedStatements);
  const shared = await openStatementClients({ target, modes, role: 'statements' }, names, options);
  const pool = openPool({ target, modes, role: 'transactions', pipeline: true }, TRANSACTION_CLIENTS, log);
  const lockPool = openPool({ target, modes, role: 'locks', statementTimeoutMs: LOCK_TIMEOUT_MS }, LOCK_CLIENTS, log);
  const companions = createCompanions();
  const transactions = createTransactions({ pool, names, companions, timings: options.timings, log });
  const locks = createLocks(lockPool, log);
  const sessions = createSessions({ target, modes, role: 'maintenance', statementTimeoutMs: 0 }, log);
  const listener = new Listener({ target, modes, role: 'listener' }, log);

  const { rows } = await shared.query<{ server_version: string }>({ text: 'show server_version' });
  const version = rows[0]?.server_version.split(' ', 1)[0] ?? 'unknown';

  const runLater = (work: () => void | Promise<void>): void => {
    process.nextTick(async () => {
      try {
        await offAccount(() => transactions.outside(work));
      } catch (error) {
        log.error({ err: error }, 'Work after a commit failed');
      }
    });
  };

  let closing: Promise<void> | undefined;
  async function closeAll(): Promise<void> {
    await listener.close();
    await sessions.close();
    await Promise.all([pool.end(), lockPool.end()]);
    await shared.close();
    await options.onClose?.();
  }

  return {
    query(statement) {
      const ambient = transactions.current();
      if (ambient) return ambient.query(statement);
      const refusal = currentAccount()?.take('statements');
      if (refusal) return Promise.reject(refusal);
      if (companions.waiting() && !isRead(statement.text)) return transactions.run((transaction) => transaction.query(statement));
      return shared.query(statement);
    },
    alongside: companions.run,
    outside: transactions.outside,
    transaction: transactions.run,
    inTransaction: () => transactions.current() !== undefined,
    part: transactions.part,
    afterCommit(work) {
      const ambient = transactions.current();
      if (ambient) ambient.afterCommit(work);
      else runLater(work);
    },
    session: sessions.run,
    withLock: locks.withLock,
    tryLock: locks.tryLock,
    listen: (channel, onMessage) => listener.listen(channel, onMessage),
    onListening: (watcher) => listener.onListening(watcher),
    info() {
      const { total, idle, waiting } = shared.counts();
      return {
        kind: options.kind,
        version,
        location: options.location,
        connections: {
          total: total + pool.totalCount + lockPool.totalCount + (listener.connected ? 1 : 0),
          idle: idle + pool.idleCount + lockPool.idleCount,
          waiting: waiting + pool.waitingCount + lockPool.waitingCount,
        },
      };
    },
    close() {
      closing ??= closeAll();
      return closing;
    },
  };
}
