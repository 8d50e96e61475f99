/** Statements of the import that the record engine has no word for. */

import { idsTest } from '../../data/records/sql/row-id.ts';
import type { CompiledSchema } from '../../data/schema/compile/compiled.ts';
import type { Database, Queryable } from '../../kernel/database/database.ts';

/** Those of the ids that records have. */
export async function storedIds(database: Queryable, schema: CompiledSchema, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const text = `select t0."_id"::text as id from ${schema.rows} t0 where ${idsTest(schema, 't0', '$1')}`;
  const { rows } = await database.query<{ id: string }>({ text, values: [ids] });
  return new Set(rows.map(({ id }) => id));
}

/** Relations are looked at when `settleRelations` says so: a row may refer to one that comes later. */
export const postponeRelations = (database: Queryable): Promise<unknown> => database.query({ text: 'set constraints all deferred' });

/** Throws PostgreSQL's error 23503 when a relation leads nowhere. The transaction lives on. */
export const settleRelations = (database: Database): Promise<unknown> =>
  database.part((part) => part.query({ text: 'set constraints all immediate' }));
