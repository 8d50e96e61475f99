/**
 * Lets pg-boss work over our `Database`. pg-boss sends some work as one text with its own
 * `begin; ...; commit`; on a shared connection a failure inside would leave that connection in a
 * broken transaction, so such texts run in a transaction of ours instead.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Db } from 'pg-boss';
import { keepTrying } from '../database/connection.ts';
import type { Database, Queryable } from '../database/database.ts';
import { PenstockError } from '../errors.ts';

/** What pg-boss calls. */
export type BossDatabase = Db;

const envelope = /^\s*begin;([\s\S]*?)commit;?\s*$/i;
/** Statements that pg-boss puts in front of the real one: settings and its advisory lock. */
const preamble = /^\s*(set local [^;]+|select pg_advisory_xact_lock\((?:[^;])+\));/i;

export interface BossLink {
  readonly db: BossDatabase;
  /** As if a job of this queue had been announced: its workers here look now. */
  wake(queue: string): void;
  /** When none of its statements run, or after a moment in which some always did. */
  rest(): Promise<unknown>;
}

const REST_MS = 50;

/** The database as pg-boss's own: outside of every ambient transaction. */
export function createBossLink(database: Database): BossLink {
  const outside = AsyncLocalStorage.snapshot();
  let announce: ((queue: string) => void) | undefined;
  let running = 0;
  let resting = Promise.withResolvers<void>();
  const counted = async <T>(work: () => Promise<T>): Promise<T> => {
    running += 1;
    try {
      return await work();
    } finally {
      running -= 1;
      if (running === 0) {
        resting.resolve();
        resting = Promise.withResolvers();
      }
    }
  };
  const db: BossDatabase = {
    executeSql(text, values) {
      const inner = envelope.exec(text)?.[1];
      return counted(() =>
        outside(() =>
          inner === undefined ? run(database, text, values) : runEnveloped(database, inner),
        ),
      );
    },
    async listen(channel, onNotification, onReconnect) {
      let open = true;
      announce = onNotification;
      const listen = (): Promise<void> =>
        database.listen(channel, (payload) => {
          if (open) onNotification(payload);
        });
      try {
        await listen();
      } catch (error) {
        if (!(error instanceof PenstockError) || error.code !== 'UNAVAILABLE') throw error;
        // pg-boss asks once, and would do without until the next start.
        void keepTrying(listen, () => !open).then(() => open && onReconnect());
      }
      database.onListening((connected) => {
        if (open && connected) onReconnect();
      });
      return {
        close: async () => {
          open = false;
          announce = undefined;
        },
      };
    },
  };
  return {
    db,
    wake: (queue) => announce?.(queue),
    async rest() {
      // Who has just begun to work asks in the next turn.
      await setImmediate();
      if (running > 0)
        await Promise.race([resting.promise, setTimeout(REST_MS, undefined, { ref: false })]);
    },
  };
}

/** The database of one call: the transaction of the caller, or what is ambient there. */
export const callerDatabase = (queryable: Queryable): BossDatabase => ({
  executeSql: (text, values) => run(queryable, text, values),
});

const run = async (
  queryable: Queryable,
  text: string,
  values?: unknown[],
): ReturnType<BossDatabase['executeSql']> => {
  const { rows } = await queryable.query({ text, ...(values?.length && { values }) });
  return { rows: rows ?? [] };
};

const runEnveloped = (database: Database, inner: string): ReturnType<BossDatabase['executeSql']> =>
  database.transaction(async (transaction) => {
    let rest = inner;
    for (let head = preamble.exec(rest); head; head = preamble.exec(rest)) {
      await transaction.query({ text: head[1] ?? '' });
      rest = rest.slice(head[0].length);
    }
    return run(transaction, rest);
  });
