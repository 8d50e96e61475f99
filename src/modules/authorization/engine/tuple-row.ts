/** How a tuple is read from its table. */
import type { Tuple } from './tuple.ts';

/** Columns of a tuple, without a table in front. */
export const tupleColumns =
  'subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at';

/** A tuple counts until its time is over, by the clock of the database. `alias` is the table's. */
export const liveTuple = (alias: string): string => `(${alias}.expires_at is null or ${alias}.expires_at > now())`;

export interface TupleRow {
  readonly subject_type: string;
  readonly subject_id: string;
  readonly subject_relation: string;
  readonly relation: string;
  readonly resource_type: string;
  readonly resource_id: string;
  readonly condition: string | null;
  readonly attributes: Record<string, unknown> | null;
  readonly expired: boolean;
}

export const tupleOf = (row: TupleRow): Tuple => ({
  subject: { type: row.subject_type, id: row.subject_id, relation: row.subject_relation },
  relation: row.relation,
  resource: { type: row.resource_type, id: row.resource_id },
  condition: row.condition ?? undefined,
  attributes: row.attributes ?? undefined,
  expired: row.expired,
});
