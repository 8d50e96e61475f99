/** The classes of statements (database.ts), each with its connections. */
import type { Logger } from '../telemetry/logger.ts';
import type { ConnectionModes, ConnectionTarget } from './connection.ts';
import type { ClassFigures, QueryResult, Statement, StatementClass } from './database.ts';
import { boundsOf, waitingNow } from './fair-turns.ts';
import { OwnedConnections } from './owned-connections.ts';
import { createOwnedStatements, isRead, type Lane } from './owned-statements.ts';
import { openSharedClients, type SharedClients } from './shared-clients.ts';
import type { StatementNames } from './sql.ts';
import type { StatementTimings } from './statement-timings.ts';
import type { Together } from './together.ts';

export interface StatementClassesOptions {
  readonly target: ConnectionTarget;
  readonly modes: ConnectionModes;
  /** Connections for statements of unknown length. */
  readonly poolSize: number;
  readonly names: StatementNames;
  readonly timings?: StatementTimings | undefined;
  readonly log: Logger;
}

export interface StatementClasses {
  query<R>(statement: Statement): Promise<QueryResult<R>>;
  figures(): Readonly<Record<StatementClass, ClassFigures>>;
  counts(): { readonly total: number; readonly idle: number; readonly moved: number };
  close(): Promise<void>;
}

/** What short statements share: how many connections, statements on each, and what PostgreSQL stops them at (ms). */
interface SharedSize {
  readonly size: number;
  readonly depth: number;
  /** Which statements of one turn are one transaction: it costs about half, and a statement waits for microseconds in it. */
  readonly together?: Together;
  /** Connections that are there all the time; 1 unless set. */
  readonly kept?: 0 | 1;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
}

/**
 * Reads have their own connections, so that they never wait behind a write. Of locks they want only
 * those that changes of the table itself take away. What waits behind a stopped statement waits for at most `depth` of them.
 */
const shortReads: SharedSize = {
  size: 3,
  depth: 16,
  together: 'all',
  statementTimeoutMs: 150,
  lockTimeoutMs: 10,
};
/** A write holds its connection until the disk has it; more of them wait for the disk together (group commit). */
const shortWrites: SharedSize = {
  size: 8,
  depth: 4,
  together: 'declared',
  statementTimeoutMs: 150,
  lockTimeoutMs: 50,
};
/** Opened when the first one comes; whoever comes before that has one of the pool. */
const lists: SharedSize = {
  size: 2,
  depth: 8,
  together: 'all',
  kept: 0,
  statementTimeoutMs: 150,
  lockTimeoutMs: 10,
};
const identity: SharedSize = { size: 2, depth: 8, statementTimeoutMs: 150, lockTimeoutMs: 25 };
/** Where connections cannot be shared, so many do the work of each of the classes above. */
const UNSHARED_SIZE = 4;

/** Opens what is always there: one connection of each kind that is shared. Rejects with the driver's error when that fails. */
export async function openStatementClasses(
  options: StatementClassesOptions,
): Promise<StatementClasses> {
  const { target, modes, poolSize, names, timings, log } = options;
  const owned = (role: string, size: number) => {
    const connections = new OwnedConnections({
      connection: { target, modes, role },
      bounds: boundsOf(size),
      log,
    });
    return { connections, lane: createOwnedStatements({ connections, names, timings }) };
  };
  const pooled = owned('statements', poolSize);
  const health = owned('health', 1);
  const shared = await openShared(options, pooled.lane);
  // Session limits of its own cannot be given to a connection behind a pooler, and without pipelining there is no use in sharing.
  const apart = shared
    ? undefined
    : { short: owned('short', UNSHARED_SIZE), identity: owned('identity', UNSHARED_SIZE) };

  const lanes: Readonly<Record<StatementClass, (text: string) => Lane>> = {
    pooled: () => pooled.lane,
    health: () => health.lane,
    short: (text) =>
      shared ? (isRead(text) ? shared.reads : shared.writes) : (apart?.short.lane ?? pooled.lane),
    list: () => shared?.lists ?? pooled.lane,
    identity: () => shared?.identity ?? apart?.identity.lane ?? pooled.lane,
  };
  const laneOf = ({ class: kind = 'pooled', text }: Statement): Lane => lanes[kind](text);
  const pools = [pooled, health, ...(apart ? [apart.short, apart.identity] : [])].map(
    ({ connections }) => connections,
  );
  const clients: readonly SharedClients[] = shared
    ? [shared.reads, shared.writes, shared.lists, shared.identity]
    : [];

  return {
    query: (statement) => laneOf(statement).run({ statement, waiting: waitingNow() }),
    figures: () => ({
      pooled: pooled.connections.figures(),
      health: health.connections.figures(),
      short: apart?.short.connections.figures() ?? together(clients.slice(0, 2)),
      list: together(clients.slice(2, 3)),
      identity: apart?.identity.connections.figures() ?? together(clients.slice(3)),
    }),
    counts: () => countsOf(clients, pools),
    close: async () => {
      await Promise.all(clients.map((each) => each.close()));
      await Promise.all(pools.map((each) => each.close()));
    },
  };
}

/** What all connections amount to: open ones, those without work, and statements that were moved to a pooled one. */
function countsOf(
  clients: readonly SharedClients[],
  pools: readonly OwnedConnections[],
): ReturnType<StatementClasses['counts']> {
  const shares = clients.map((each) => each.figures());
  const owns = pools.map((each) => each.figures());
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);
  return {
    total:
      sum(shares.map(({ total }) => total)) + sum(owns.map(({ running, idle }) => running + idle)),
    idle: sum([...shares, ...owns].map((each) => each.idle)),
    moved: sum(shares.map(({ moved }) => moved)),
  };
}

interface Shared {
  readonly reads: SharedClients;
  readonly writes: SharedClients;
  readonly lists: SharedClients;
  readonly identity: SharedClients;
}

async function openShared(
  options: StatementClassesOptions,
  elsewhere: Lane,
): Promise<Shared | undefined> {
  const { target, modes, names, timings, log } = options;
  if (!modes.pipelining || !modes.preparedStatements) return undefined;
  const open = (
    role: string,
    { size, depth, together = 'none', kept = 1, ...limits }: SharedSize,
  ): Promise<SharedClients> =>
    openSharedClients({
      connection: { target, modes, role, ...limits },
      size,
      depth,
      together,
      kept,
      names,
      elsewhere,
      timings,
      log,
    });
  const [reads, writes, list, own] = await Promise.all([
    open('short', shortReads),
    open('short', shortWrites),
    open('list', lists),
    open('identity', identity),
  ]);
  return { reads, writes, lists: list, identity: own };
}

function together(all: readonly SharedClients[]): ClassFigures {
  const each = all.map((clients) => clients.figures());
  const sum = (name: keyof ClassFigures): number =>
    each.reduce((total, figures) => total + figures[name], 0);
  return {
    running: sum('running'),
    waiting: sum('waiting'),
    oldestMs: Math.max(0, ...each.map(({ oldestMs }) => oldestMs)),
    waits: sum('waits'),
    waitedMs: sum('waitedMs'),
    refused: sum('refused'),
  };
}
