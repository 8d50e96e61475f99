/** Connections for long maintenance, each opened for its work and closed after it. */

import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import { type ClientOptions, clientConfig, prepareSession } from './connection.ts';
import type { Queryable } from './database.ts';
import { isFull, toPublicError } from './failures.ts';
import { waitedTooLong, waitingNow } from './fair-turns.ts';

/*
 * Cluster-wide locks by name: session-level advisory locks, each on a
 * connection of its own for as long as it is held. Not re-entrant.
 */

interface Locks {
  withLock<T>(name: string, work: () => Promise<T>): Promise<T>;
  tryLock<T>(name: string, work: () => Promise<T>): Promise<T | undefined>;
}

/** Key of an advisory lock: 64 bits of the name's digest, as the signed integer that PostgreSQL wants. */
const keyOf = (name: string): string =>
  createHash('sha256').update(`penstock:${name}`).digest().readBigInt64BE().toString();

export function createLocks(pool: pg.Pool, log: Logger): Locks {
  /** The last one of this process to hold or await each name: connections are not spent on waiting for ourselves. */
  const queues = new Map<string, Promise<unknown>>();

  function enqueue<T>(name: string, task: () => Promise<T>): Promise<T> {
    const turn = (queues.get(name) ?? Promise.resolve()).then(task, task);
    const done = turn.catch(() => undefined);
    queues.set(name, done);
    void done.then(() => {
      if (queues.get(name) === done) queues.delete(name);
    });
    return turn;
  }

  return {
    withLock: <T>(name: string, work: () => Promise<T>) =>
      enqueue(
        name,
        () =>
          onConnection(
            { pool, log },
            name,
            'select true as taken from pg_advisory_lock($1::bigint)',
            work,
          ) as Promise<T>,
      ),
    tryLock: <T>(name: string, work: () => Promise<T>) =>
      queues.has(name)
        ? Promise.resolve(undefined)
        : enqueue(name, () =>
            onConnection(
              { pool, log },
              name,
              'select pg_try_advisory_lock($1::bigint) as taken',
              work,
            ),
          ),
  };
}

interface LockConnections {
  readonly pool: pg.Pool;
  readonly log: Logger;
}

/** How soon a server that takes no further connection is asked again. */
const REFUSED_MS = 100;

/** A connection, as soon as the server takes one: as long as whatever else works for a request waits for its turn. */
async function whenThereIsRoom<T>(connect: () => Promise<T>): Promise<T> {
  const waiting = waitingNow();
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      if (!isFull(error)) throw toPublicError(error);
      const now = performance.now();
      if (now >= waiting.deadlineAt || now >= waiting.patientUntil)
        throw waitedTooLong(waiting, now);
      await sleep(REFUSED_MS);
    }
  }
}

/** Runs the work while a connection of its own holds the lock; `undefined` when `acquire` did not get it. */
async function onConnection<T>(
  { pool, log }: LockConnections,
  name: string,
  acquire: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const client = await whenThereIsRoom(() => pool.connect());
  let broken = false;
  const onError = (error: Error): void => {
    broken = true;
    log.error(
      { err: error, lock: name },
      'The connection that holds a lock was lost: another node may take the lock now',
    );
  };
  client.on('error', onError);
  const key = keyOf(name);
  try {
    const { rows } = await client
      .query<{ taken: boolean }>(acquire, [key])
      .catch((error: unknown) => {
        broken = true;
        throw toPublicError(error);
      });
    if (rows[0]?.taken === false) return undefined;
    try {
      return await work();
    } finally {
      await client.query('select pg_advisory_unlock($1::bigint)', [key]).catch(() => {
        broken = true;
      });
    }
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

interface Sessions {
  run<T>(work: (session: Queryable) => Promise<T>): Promise<T>;
  /** Cuts off what still runs. */
  close(): Promise<void>;
}

export function createSessions(connection: ClientOptions, log: Logger): Sessions {
  const open = new Set<pg.Client>();
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client(clientConfig(connection));
    client.on('error', (error) =>
      log.warn({ err: error }, 'A connection for maintenance was lost'),
    );
    open.add(client);
    try {
      await client.connect();
      return client;
    } catch (error) {
      open.delete(client);
      void client.end().catch(() => undefined);
      throw error;
    }
  };

  return {
    async run(work) {
      const client = await whenThereIsRoom(connect);
      try {
        await prepareSession(client, connection);
        // Whatever the server or the role has as its default.
        await client.query('set statement_timeout = 0');
        return await work({ query: (statement) => runOn(client, statement) });
      } catch (error) {
        throw toPublicError(error);
      } finally {
        open.delete(client);
        await client.end().catch(() => undefined);
      }
    },
    // Ending a client in the middle of a statement cuts its connection.
    close: async () =>
      void (await Promise.all([...open].map((client) => client.end().catch(() => undefined)))),
  };
}

const runOn: <R>(
  client: pg.Client,
  statement: Parameters<Queryable['query']>[0],
) => Promise<{ rows: R[]; count: number }> = async (client, { text, values }) => {
  const { rows, rowCount } = await client.query(text, values ? [...values] : []);
  return { rows, count: rowCount ?? 0 };
};
