/** What a changing statement does for a schema that keeps history: the old rows are locked, kept, and the oldest versions let go. */
import { identifier } from '../database/sql.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { literalOf } from '../schema/literal.ts';
import { historyTable } from '../schema/migrations.ts';
import { type Assigned, changedMapped, destroyedMapped } from './mapped/rows.ts';

/** What ended a version. */
export type HistoryOperation = 'update' | 'delete' | 'restore';

/** Further parts of a `with` that keep the rows `old`, or nothing. `$1` is the actor. */
export function historyRows({ name, history }: CompiledSchema, operation: HistoryOperation, old: string): string {
  if (!history) return '';
  const schema = literalOf(name, 'text');
  const kept =
    `insert into ${historyTable} (schema, record_id, version, operation, actor, data) ` +
    `select ${schema}, o."_id"::text, o."__v", '${operation}', $1::text, to_jsonb(o.*) from ${old} o`;
  const pruned =
    `delete from ${historyTable} d using ${old} o ` +
    `where d.schema = ${schema} and d.record_id = o."_id"::text and d.version <= o."__v" - ${history.max}`;
  return `, h as (${kept}), hp as (${pruned})`;
}

export interface RowChange {
  /** What stands behind `set`. */
  readonly set: string;
  /** Which rows `t0`; may also be about `source`. */
  readonly where: string;
  /** A further table `x` of the statement whose `_id` is that of the row: the new values of many rows. */
  readonly source?: string;
  readonly operation: HistoryOperation;
  /** Many rows are locked in the order of their ids, so that two statements do not wait for each other. */
  readonly many?: boolean;
  /** Columns of `r`; all of them unless set. */
  readonly returning?: string;
}

/** The head of a `with` that changes rows: `r` are the changed rows as they are now. */
export function changedRows(schema: CompiledSchema, change: RowChange): string {
  const { set, where, source, operation, many = false, returning = 't0.*' } = change;
  const { table, history } = schema;
  // The records of a list (`source`) come in the order of their ids by themselves.
  if (!history && (!many || source))
    return `r as (update ${table} t0 set ${set}${source ? ` from ${source}` : ''} where ${where} returning ${returning})`;
  const from = source ? `, ${source}` : '';
  const old = `select ${history ? 't0.*' : 't0."_id"'} from ${table} t0${from} where ${where}${many ? ' order by t0."_id"' : ''} for update of t0`;
  const link = `t0."_id" = o."_id"${source ? ' and x."_id" = o."_id"' : ''}`;
  const changed = `update ${table} t0 set ${set} from o${from} where ${link} returning ${returning}`;
  return `o as (${old}), r as (${changed})${historyRows(schema, operation, 'o')}`;
}

/** The same for new values of fields. `values`: each as SQL, over the rows `t0` as they are. */
export function updatedRows(schema: CompiledSchema, values: readonly Assigned[], change: Omit<RowChange, 'set'>): string {
  const { mapping } = schema;
  if (mapping) return changedMapped({ ...schema, mapping }, values, change.where);
  const set = [...values.map(([name, value]) => `${identifier(name)} = ${value ?? 'default'}`), touched].join(', ');
  return changedRows(schema, { ...change, set });
}

/** What every change of a record changes. */
export const touched = '"updatedAt" = now(), "__v" = t0."__v" + 1';

/** The same for rows that go for good; `r` has only their ids. `many`: they are locked in the order of their ids. */
export function destroyedRows(schema: CompiledSchema, where: string, many: boolean): string {
  const { table, history, mapping } = schema;
  if (mapping) return destroyedMapped({ ...schema, mapping }, where);
  if (!history && !many) return `r as (delete from ${table} t0 where ${where} returning t0."_id")`;
  const old = `select ${history ? 't0.*' : 't0."_id"'} from ${table} t0 where ${where} order by t0."_id" for update of t0`;
  const gone = `delete from ${table} t0 using o where t0."_id" = o."_id" returning t0."_id"`;
  return `o as (${old}), r as (${gone})${historyRows(schema, 'delete', 'o')}`;
}
