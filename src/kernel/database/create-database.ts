/** Puts the connections to one PostgreSQL database together into the contract of database.ts. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { currentAccount, offAccount } from '../request-account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  type ClientOptions,
  type ConnectionModes,
  type ConnectionTarget,
  clientConfig,
  GuardedClient,
  prepareSession,
} from './connection.ts';
import type { Database, DatabaseInfo } from './database.ts';
import { unavailable } from './failures.ts';
import { boundsOf } from './fair-turns.ts';
import { Listener } from './listener.ts';
import { endSessions, OwnedConnections } from './owned-connections.ts';
import { isRead } from './owned-statements.ts';
import { createLocks, createSessions } from './sessions.ts';
import { createStatementNames } from './sql.ts';
import { openStatementClasses, type StatementClasses } from './statement-classes.ts';
import type { StatementTimings } from './statement-timings.ts';
import { createTransactionHooks, createTransactions, type Transactions } from './transactions.ts';

/** Statements of unknown length that run at a time; more of them would share the same processor cores. */
const POOL_SIZE = 8;
const TRANSACTION_CONNECTIONS = 10;
/** What a node holds beside its two pools: short statements, lists, sessions, health, locks, the listener, maintenance. */
const OTHER_CONNECTIONS = 23;

/** The most connections that a node of these sizes opens. */
export const connectionsOf = ({
  poolSize = POOL_SIZE,
  transactionConnections = TRANSACTION_CONNECTIONS,
}: PoolSizes): number => poolSize + transactionConnections + OTHER_CONNECTIONS;

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

function figuresOf({
  classes,
  connections,
  lockPool,
  listener,
}: Parts): Pick<DatabaseInfo, 'connections' | 'classes' | 'moved'> {
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

/** Everything that holds connections, by what it is for. */
async function openConnections({
  target,
  log,
  timings,
  modes: given,
  poolSize = POOL_SIZE,
  transactionConnections = TRANSACTION_CONNECTIONS,
}: CreateDatabaseOptions) {
  const modes = { ...given, instance: randomBytes(INSTANCE_BYTES).toString('hex') };
  const names = createStatementNames(modes.preparedStatements);
  const classes = await openStatementClasses({ target, modes, poolSize, names, timings, log });
  const connections = new OwnedConnections({
    connection: { target, modes, role: 'transactions' },
    bounds: boundsOf(transactionConnections),
    log,
  });
  const lockPool = openPool(
    { target, modes, role: 'locks', statementTimeoutMs: LOCK_TIMEOUT_MS },
    LOCK_CLIENTS,
    log,
  );
  const sessions = createSessions(
    { target, modes, role: 'maintenance', statementTimeoutMs: 0 },
    log,
  );
  const listener = new Listener({ target, modes, role: 'listener' }, log);
  return { modes, names, classes, connections, lockPool, sessions, listener };
}

/** Connects. Rejects with the driver's error when that fails; see external.ts for readable ones. */
export async function createDatabase(options: CreateDatabaseOptions): Promise<Database> {
  const { target, log, timings } = options;
  const opened = await openConnections(options);
  const { modes, names, classes, connections, lockPool, sessions, listener } = opened;
  const transactionHooks = createTransactionHooks();
  const transactions = createTransactions({ connections, names, transactionHooks, timings, log });
  const locks = createLocks(lockPool, log);

  const version = await serverVersion(classes);
  const runLater = laterRunner(transactions, log);
  let ended = false;
  let closing: Promise<void> | undefined;

  return {
    query(statement) {
      const ambient = transactions.current();
      if (ambient) return ambient.query(statement);
      const refusal = ended ? unavailable() : currentAccount()?.take('statements');
      if (refusal) return Promise.reject(refusal);
      if (transactionHooks.waiting() && !isRead(statement.text))
        return transactions.run((transaction) => transaction.query(statement));
      return classes.query(statement);
    },
    withTransactionHook: transactionHooks.run,
    outside: transactions.outside,
    transaction: (work, how) =>
      ended ? Promise.reject(unavailable()) : transactions.run(work, how),
    inTransaction: () => transactions.current() !== undefined,
    standsAlone: () => !transactions.current() && !transactionHooks.waiting(),
    part: transactions.part,
    afterCommit(work, how) {
      const ambient = transactions.current();
      if (ambient) ambient.afterCommit(work, how);
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
      closing ??= closeAll(opened).then(options.onClose);
      return closing;
    },
  };
}

type Opened = Awaited<ReturnType<typeof openConnections>>;

async function serverVersion(classes: Opened['classes']): Promise<string> {
  const { rows } = await classes.query<{ server_version: string }>({ text: 'show server_version' });
  return rows[0]?.server_version.split(' ', 1)[0] ?? 'unknown';
}

async function closeAll(opened: Opened): Promise<void> {
  const { listener, sessions, connections, lockPool, classes } = opened;
  for (const each of [listener, sessions]) await each.close();
  await Promise.all([connections.close(), lockPool.end()]);
  await classes.close();
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
function endAll(
  options: ClientOptions,
  waiting: readonly { close(): Promise<void> }[],
): Promise<void> {
  for (const each of waiting) void each.close().catch(() => undefined);
  return endSessions(options);
}
