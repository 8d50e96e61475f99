/**
 * Lets pg-boss work over our `Database`. pg-boss sends some work as one text with its own
 * `begin; ...; commit`; on a shared connection a failure inside would leave that connection in a
 * broken transaction, so such texts run in a transaction of ours instead.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Db } from 'pg-boss';
import type { Database, Queryable } from '../database/database.ts';

/** What pg-boss calls. */
export type BossDatabase = Db;

const envelope = /^\s*begin;([\s\S]*?)commit;?\s*$/i;
/** Statements that pg-boss puts in front of the real one: settings and its advisory lock. */
const preamble = /^\s*(set local [^;]+|select pg_advisory_xact_lock\((?:[^;])+\));/i;

export interface BossLink {
  readonly db: BossDatabase;
  /** As if a job of this queue had been announced: its workers here look now. */
  wake(queue: string): void;
}

/** The database as pg-boss's own: outside of every ambient transaction. */
export function createBossLink(database: Database): BossLink {
  const outside = AsyncLocalStorage.snapshot();
  let announce: ((queue: string) => void) | undefined;
  const db: BossDatabase = {
    executeSql(text, values) {
      const inner = envelope.exec(text)?.[1];
      return outside(() =>
        inner === undefined ? run(database, text, values) : runEnveloped(database, inner),
      );
    },
    async listen(channel, onNotification, onReconnect) {
      let open = true;
      announce = onNotification;
      await database.listen(channel, (payload) => {
        if (open) onNotification(payload);
      });
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
  return { db, wake: (queue) => announce?.(queue) };
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
