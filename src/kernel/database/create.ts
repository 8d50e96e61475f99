/** Puts the connections to one PostgreSQL database together into the contract of database.ts. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { currentAccount, offAccount } from '../account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import { openStatementClasses, type StatementClasses } from './classes.ts';
import { createCompanions } from './companions.ts';
import { type ClientOptions, type ConnectionModes, type ConnectionTarget, clientConfig, prepareSession } from './connection.ts';
import type { Database, DatabaseInfo } from './database.ts';
import { endSessions } from './end-sessions.ts';
import { unavailable } from './failures.ts';
import { boundsOf } from './fair-turns.ts';
import { GuardedClient } from './guarded-client.ts';
import { Listener } from './listener.ts';
import { createLocks } from './locks.ts';
import { OwnedConnections } from './owned-connections.ts';
import { isRead } from './owned-statements.ts';
import { createSessions } from './sessions.ts';
import { createStatementNames } from './statement-names.ts';
import type { StatementTimings } from './timings.ts';
import { createTransactions, type Transactions } from './transactions.ts';

/** Statements of unknown length that run at a time; more of them would share the same processor cores. */
const POOL_SIZE = 8;
const TRANSACTION_CONNECTIONS = 10;
/** What a node holds beside its two pools: short statements, sessions, health, locks, the listener, maintenance. */
const OTHER_CONNECTIONS = 21;

/** The most connections that a node of these sizes opens. */
export const connectionsOf = ({ poolSize = POOL_SIZE, transactionConnections = TRANSACTION_CONNECTIONS }: PoolSizes): number =>
  poolSize + transactionConnections + OTHER_CONNECTIONS;

export interface PoolSizes {
  /** Connections for statements of unknown length, and for transactions. */
  readonly poolSize?: number | undefined;
  readonly transactionConnections?: number | undefined;
}

export interface CreateDatabaseOptions extends PoolSizes {
  readonly target: ConnectionTarget;
  readonly modes: ConnectionModes;
  readonly log: Logger;
  readonly kind: DatabaseInfo['kind'];
  /** Shown to operators: a folder, or host and database without credentials. */
  readonly location: string;
  /** Told how long each statement took. */
  readonly timings?: StatementTimings | undefined;
  /** What the owner of the server knows about an outage. */
  readonly trouble?: () => string | undefined;
  /** Runs after all connections are closed. */
  readonly onClose?: () => Promise<void>;
}

/** Locks are few and short; more of them than this at a time wait for each other. */
const LOCK_CLIENTS = 6;
const INSTANCE_BYTES = 4;
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

interface Parts {
  readonly classes: StatementClasses;
  readonly connections: OwnedConnections;
  readonly lockPool: pg.Pool;
  readonly listener: Listener;
}

function figuresOf({ classes, connections, lockPool, listener }: Parts): Pick<DatabaseInfo, 'connections' | 'classes' | 'moved'> {
  const { total, idle, moved } = classes.counts();
  const own = connections.figures();
  const all = { ...classes.figures(), transactions: own };
  return {
    connections: {
      total: total + own.running + own.idle + lockPool.totalCount + (listener.connected ? 1 : 0),
      idle: idle + own.idle + lockPool.idleCount,
      waiting: Object.values(all).reduce((sum, each) => sum + each.waiting, lockPool.waitingCount),
    },
    classes: all,
    moved,
  };
}

/** Connects. Rejects with the driver's error when that fails; see external.ts for readable ones. */
export async function createDatabase(options: CreateDatabaseOptions): Promise<Database> {
  const { target, log } = options;
  const modes = { ...options.modes, instance: randomBytes(INSTANCE_BYTES).toString('hex') };
  const names = createStatementNames(modes.preparedStatements);
  const { poolSize = POOL_SIZE, transactionConnections = TRANSACTION_CONNECTIONS, timings } = options;
  const classes = await openStatementClasses({ target, modes, poolSize, names, timings, log });
  const connections = new OwnedConnections({
    connection: { target, modes, role: 'transactions' },
    bounds: boundsOf(transactionConnections),
    log,
  });
  const lockPool = openPool({ target, modes, role: 'locks', statementTimeoutMs: LOCK_TIMEOUT_MS }, LOCK_CLIENTS, log);
  const companions = createCompanions();
  const transactions = createTransactions({ connections, names, companions, timings, log });
  const locks = createLocks(lockPool, log);
  const sessions = createSessions({ target, modes, role: 'maintenance', statementTimeoutMs: 0 }, log);
  const listener = new Listener({ target, modes, role: 'listener' }, log);

  const { rows } = await classes.query<{ server_version: string }>({ text: 'show server_version' });
  const version = rows[0]?.server_version.split(' ', 1)[0] ?? 'unknown';

  const runLater = laterRunner(transactions, log);
  let ended = false;
  let closing: Promise<void> | undefined;
  const closeAll = async (): Promise<void> => {
    for (const each of [listener, sessions]) await each.close();
    await Promise.all([connections.close(), lockPool.end()]);
    await classes.close();
    await options.onClose?.();
  };

  return {
    query(statement) {
      const ambient = transactions.current();
      if (ambient) return ambient.query(statement);
      const refusal = ended ? unavailable() : currentAccount()?.take('statements');
      if (refusal) return Promise.reject(refusal);
      if (companions.waiting() && !isRead(statement.text)) return transactions.run((transaction) => transaction.query(statement));
      return classes.query(statement);
    },
    alongside: companions.run,
    outside: transactions.outside,
    transaction: (work, how) => (ended ? Promise.reject(unavailable()) : transactions.run(work, how)),
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
    info: () => ({
      kind: options.kind,
      version,
      location: options.location,
      trouble: options.trouble?.(),
      ended,
      ...figuresOf({ classes, connections, lockPool, listener }),
    }),
    endSessions() {
      ended = true;
      return endAll({ target, modes, role: 'stop' }, [classes, connections]);
    },
    close() {
      closing ??= closeAll();
      return closing;
    },
  };
}

/** For what must not hold up the caller: its failure is logged. */
const laterRunner =
  (transactions: Transactions, log: Logger) =>
  (work: () => void | Promise<void>): void => {
    process.nextTick(async () => {
      try {
        // The caller's request may be over by then: this is the platform's own work.
        await offAccount(() => transactions.outside(work));
      } catch (error) {
        log.error({ err: error }, 'Work after a commit failed');
      }
    });
  };

/** Nothing connects anew and what waits for a connection is refused; then what runs is ended at the server. */
function endAll(options: ClientOptions, waiting: readonly { close(): Promise<void> }[]): Promise<void> {
  for (const each of waiting) void each.close().catch(() => undefined);
  return endSessions(options);
}
