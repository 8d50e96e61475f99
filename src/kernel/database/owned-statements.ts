/** Statements of unknown length: each has its connection for itself, and no table takes all of them. */
import pg from 'pg';
import type { QueryResult, Statement } from './database.ts';
import {
  codeOf,
  isConnectionLoss,
  isStalePlan,
  replacesConnection,
  toPublicError,
} from './failures.ts';
import { outOfTime, type Waiting } from './fair-turns.ts';
import type { OwnedConnection, OwnedConnections } from './owned-connections.ts';
import { tableOf } from './slow-tables.ts';
import type { StatementNames } from './sql.ts';
import type { StatementTimings } from './statement-timings.ts';

/** A statement and how long it may take. */
export interface StatementRun {
  readonly statement: Statement;
  readonly waiting: Waiting;
  /** Told the ms of the statement itself, without its queue. */
  readonly ran?: (ms: number) => void;
}

/** What runs single statements in one way. */
export interface Lane {
  run<R>(request: StatementRun): Promise<QueryResult<R>>;
}

interface OwnedStatementsOptions {
  readonly connections: OwnedConnections;
  readonly names: StatementNames;
  readonly timings?: StatementTimings | undefined;
}

/** A statement that changes nothing, as far as its first word tells; it may be sent twice. */
export const isRead = (text: string): boolean => /^\s*select\b/i.test(text);

export function createOwnedStatements({
  connections,
  names,
  timings,
}: OwnedStatementsOptions): Lane {
  async function once<R>({ statement, waiting, ran }: StatementRun): Promise<QueryResult<R>> {
    const connection = await connections.acquire(tableOf(statement), waiting);
    const query = names.toQuery(statement);
    const begin = performance.now();
    let broken = false;
    try {
      // Making a connection takes time, too.
      if (begin >= waiting.deadlineAt) throw outOfTime();
      connection.stopAt(waiting, begin + (statement.limitMs ?? Number.POSITIVE_INFINITY));
      return await send<R>(connection, query);
    } catch (error) {
      broken = replacesConnection(error);
      if (isStalePlan(error)) names.renew(statement, query.name);
      throw error;
    } finally {
      connection.release(broken);
      ran?.(performance.now() - begin);
    }
  }

  /** A read whose connection died (others may be dead as well, unnoticed so far), or what has to be prepared anew. */
  const again = (error: unknown, { text }: Statement): boolean =>
    isStalePlan(error) || (isConnectionLoss(error) && isRead(text));

  return {
    async run<R>(request: StatementRun): Promise<QueryResult<R>> {
      const { statement, waiting } = request;
      try {
        for (let left = connections.size; ; left -= 1) {
          try {
            return await once<R>(request);
          } catch (error) {
            if (left === 0 || !again(error, statement)) throw toPublicError(error);
          }
        }
      } finally {
        timings?.note(statement, performance.now() - waiting.since);
      }
    },
  };
}

/** Sends one statement on a connection that nobody else uses. */
export function send<R>(
  { client }: OwnedConnection,
  { text, values, name }: pg.QueryConfig<unknown[]>,
): Promise<QueryResult<R>> {
  return new Promise((resolve, reject) => {
    // Handed over ready-made: the driver copies a configuration object property by property, on each statement.
    const submitted: pg.Query & { name?: string | undefined } = new pg.Query(
      text,
      values,
      (error: Error | undefined | null, result) => {
        if (error) return reject(error);
        const { rows, rowCount } = result as pg.QueryResult;
        resolve({ rows: rows as R[], count: rowCount ?? 0 });
      },
    );
    submitted.name = name;
    writeTogether(client);
    client.query(submitted);
  });
}

/** The driver's socket, which its types leave out. */
interface Connected {
  readonly connection: { readonly stream: { cork(): void; uncork(): void } };
}

/** What is asked of a connection before the loop goes on is written at once: each write is a system call. */
function writeTogether(client: pg.Client): void {
  const { stream } = (client as unknown as Connected).connection;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

/** lock_not_available and query_canceled: nothing was executed for good, and its time was over. */
export const isTimeOver = (error: unknown): boolean =>
  codeOf(error) === '55P03' || codeOf(error) === '57014';
