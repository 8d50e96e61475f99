/** A table of tuples for tests of the engine, filled with one statement. */

import type { Database } from '../../src/kernel/database/database.ts';
import { newId } from '../../src/kernel/ids.ts';
import { migrations } from '../../src/modules/authorization/migrations.ts';
import type { Tuple } from '../../src/modules/authorization/model/tuple.ts';
import { openTestDatabase } from './database.ts';

export interface TupleTable {
  readonly database: Database;
  /** Takes everything away and writes these; answers their ids, in order. */
  replace(tuples: readonly Tuple[]): Promise<readonly string[]>;
  add(tuples: readonly Tuple[]): Promise<readonly string[]>;
  remove(ids: readonly string[]): Promise<void>;
  /** The same table over connections of their own, as another node has them. */
  another(): Promise<Database>;
  close(): Promise<void>;
}

export async function openTupleTable(): Promise<TupleTable> {
  const { database, openAgain, close } = await openTestDatabase({
    migrations: [{ owner: 'authorization', migrations }],
  });
  const add = async (tuples: readonly Tuple[]): Promise<readonly string[]> => {
    const ids = tuples.map(() => newId());
    await database.query({ text: insertText, values: columnsOf(tuples, ids) });
    return ids;
  };
  return {
    database,
    async replace(tuples) {
      await database.query({ text: 'truncate penstock.tuples' });
      return add(tuples);
    },
    add,
    another: openAgain,
    async remove(ids) {
      await database.query({
        text: 'delete from penstock.tuples where id = any($1::uuid[])',
        values: [ids],
      });
    },
    close,
  };
}

const insertText = `insert into penstock.tuples
  (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at)
  select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::jsonb[], $10::timestamptz[])`;

const columnsOf = (tuples: readonly Tuple[], ids: readonly string[]): readonly unknown[] => [
  ids,
  tuples.map((t) => t.subject.type),
  tuples.map((t) => t.subject.id),
  tuples.map((t) => t.subject.relation),
  tuples.map((t) => t.relation),
  tuples.map((t) => t.resource.type),
  tuples.map((t) => t.resource.id),
  tuples.map((t) => t.condition ?? null),
  tuples.map((t) => (t.attributes ? JSON.stringify(t.attributes) : null)),
  tuples.map((t) => expiryOf(t)),
];

/** Far away: what a test says about time must not hang on when it runs. */
const expiryOf = ({ expired }: Tuple): string | null =>
  expired === undefined ? null : expired ? '2001-01-01' : '2999-01-01';
