/** What a changing statement does for a schema that keeps history: the old rows are locked, kept, and the oldest versions let go. */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Field } from '../../schema/language/field.ts';
import {
  hasTimestamps,
  identityColumns,
  keyColumns,
  relationName,
  rowView,
  type TableMapping,
  writtenValue,
} from '../../schema/mapping/table-mapping.ts';
import { historyTable } from '../../schema/migrations.ts';

/*
 * Changes of rows in tables of others. What the record engine knows of such a table is a sub-select, which
 * cannot be written to: the rows are found and locked through it, and changed by their key. So every condition
 * has been true of the row as it is now, and expressions over `t0` mean its values of now.
 */

/** Stands for the default of a column, which only the table knows. */
export const tableDefault: unique symbol = Symbol('the default of the table');

/** A field and its new value, as SQL of the type that the record engine uses; `undefined`: the default of the table. */
export type Assigned = readonly [field: string, value: string | undefined];

type Mapped = Pick<CompiledSchema, 'rows' | 'key'> & { readonly mapping: TableMapping };

function columnValue(
  { columns }: TableMapping,
  [field, value]: Assigned,
): readonly [string, string][] {
  const column = columns[field];
  if (!column) return [];
  return [
    [identifier(column.column), value === undefined ? 'default' : writtenValue(column, value)],
  ];
}

/** Times that the platform keeps where the table has columns for them, and does not fill them in by itself. */
function kept(mapping: TableMapping, fields: readonly string[]): readonly Assigned[] {
  if (!hasTimestamps(mapping)) return [];
  return fields.map((field): Assigned => [field, 'now()']);
}

/** The head of a `with`: `r` is the new row. */
export function insertedRow({ mapping }: Mapped, values: readonly Assigned[]): string {
  const times = ['createdAt', 'updatedAt'].filter(
    (field) => mapping.columns[field]?.filled === 'never',
  );
  const pairs = [...values, ...kept(mapping, times)].flatMap((one) => columnValue(mapping, one));
  const columns = pairs.map(([name]) => name).join(', ');
  const given =
    pairs.length > 0
      ? `(${columns}) values (${pairs.map(([, value]) => value).join(', ')})`
      : 'default values';
  return `r as (insert into ${relationName(mapping.source)} as c ${given} returning ${rowView(mapping, 'c', true)})`;
}

/** `o`: the rows that fit, locked. */
const lockedRows = ({ rows }: Mapped, where: string): string =>
  `o as materialized (select t0.* from ${rows} t0 where ${where} for update of t0)`;

/** The row `c` of the table is the locked row `t0`. */
function isSame({ mapping, key }: Mapped): string {
  const identity = identityColumns(key);
  return keyColumns(mapping, 'c')
    .map((column, i) => `${column} = t0.${identifier(identity[i] ?? '')}`)
    .join(' and ');
}

/** The head of a `with` that changes rows: `r` are the rows as they are then. */
export function changedExternalRow(
  schema: Mapped,
  values: readonly Assigned[],
  where: string,
): string {
  const { mapping } = schema;
  const pairs = [...values, ...kept(mapping, ['updatedAt'])].flatMap((one) =>
    columnValue(mapping, one),
  );
  if (pairs.length === 0) return `${lockedRows(schema, where)}, r as (select t0.* from o t0)`;
  const sets = pairs.map(([name, value]) => `${name} = ${value}`).join(', ');
  const change = `update ${relationName(mapping.source)} c set ${sets} from o t0 where ${isSame(schema)} returning ${rowView(mapping, 'c', true)}`;
  return `${lockedRows(schema, where)}, r as (${change})`;
}

/** The same for rows that go; `r` has only their ids. */
function destroyedExternalRow(schema: Mapped, where: string): string {
  const { source } = schema.mapping;
  const gone = `delete from ${relationName(source)} c using o t0 where ${isSame(schema)} returning t0."_id"`;
  return `${lockedRows(schema, where)}, r as (${gone})`;
}

/** What ended a version. */
type HistoryOperation = 'update' | 'delete' | 'restore';

/** Further parts of a `with` that keep the rows `old`, or nothing. `$1` is the actor. */
export function historyRows(
  { name, history }: CompiledSchema,
  operation: HistoryOperation,
  old: string,
): string {
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

interface RowChange {
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
  /** Fields whose old values `o` has, by `_id`, for who wants to know what changed. */
  readonly compare?: readonly string[] | undefined;
}

/** The head of a `with` that changes rows: `r` are the changed rows as they are now. */
export function changedRows(schema: CompiledSchema, change: RowChange): string {
  const { set, where, source, operation, many = false, returning = 't0.*', compare = [] } = change;
  const { table, history } = schema;
  // The records of a list (`source`) come in the order of their ids by themselves.
  if (!history && compare.length === 0 && (!many || source))
    return `r as (update ${table} t0 set ${set}${source ? ` from ${source}` : ''} where ${where} returning ${returning})`;
  const from = source ? `, ${source}` : '';
  const kept = ['_id', ...compare].map((name) => `t0.${identifier(name)}`).join(', ');
  const old = `select ${history ? 't0.*' : kept} from ${table} t0${from} where ${where}${many ? ' order by t0."_id"' : ''} for update of t0`;
  const link = `t0."_id" = o."_id"${source ? ' and x."_id" = o."_id"' : ''}`;
  const changed = `update ${table} t0 set ${set} from o${from} where ${link} returning ${returning}`;
  return `o as (${old}), r as (${changed})${historyRows(schema, operation, 'o')}`;
}

/** The same for new values of fields. `values`: each as SQL, over the rows `t0` as they are. */
export function updatedRows(
  schema: CompiledSchema,
  values: readonly Assigned[],
  change: Omit<RowChange, 'set'>,
): string {
  const { mapping } = schema;
  if (mapping) return changedExternalRow({ ...schema, mapping }, values, change.where);
  const set = [
    ...values.map(([name, value]) => `${identifier(name)} = ${value ?? 'default'}`),
    touched,
  ].join(', ');
  return changedRows(schema, { ...change, set });
}

/** What every change of a record changes. */
export const touched = '"updatedAt" = now(), "__v" = t0."__v" + 1';

/** The same for rows that go for good; `r` has only their ids. `many`: they are locked in the order of their ids. */
export function destroyedRows(schema: CompiledSchema, where: string, many: boolean): string {
  const { table, history, mapping } = schema;
  if (mapping) return destroyedExternalRow({ ...schema, mapping }, where);
  if (!history && !many) return `r as (delete from ${table} t0 where ${where} returning t0."_id")`;
  const old = `select ${history ? 't0.*' : 't0."_id"'} from ${table} t0 where ${where} order by t0."_id" for update of t0`;
  const gone = `delete from ${table} t0 using o where t0."_id" = o."_id" returning t0."_id"`;
  return `o as (${old}), r as (${gone})${historyRows(schema, 'delete', 'o')}`;
}

/* Parts of nested objects that were taken out of the schema: what is written over such an object keeps them, so that they can come back. */

/**
 * A new value of a column of the rows `t0`, with the dropped parts of the stored one. An object that becomes null loses
 * them, and so do elements of lists, which have no identity.
 */
export function withKeptParts(
  { tree, droppedFields }: CompiledSchema,
  column: string,
  value: string,
): string {
  const top = tree.fields.get(column);
  if (top?.kind !== 'object') return value;
  const stored = `t0.${identifier(column)}`;
  return droppedFields
    .map((path) => path.split('.'))
    .filter(([name, ...rest]) => name === column && leadsThroughObjects(top, rest))
    .reduce((whole, [, ...rest]) => {
      const part = literalOf(rest, 'text[]');
      return `jsonb_set_lax(${whole}, ${part}, ${stored} #> ${part}, true, 'return_target')`;
    }, value);
}

/** True for a path to something that is missing in an object that is there. */
function leadsThroughObjects(
  field: Field | undefined,
  [name, ...rest]: readonly string[],
): boolean {
  if (field?.kind !== 'object' || name === undefined) return false;
  return rest.length === 0 || leadsThroughObjects(field.fields.get(name), rest);
}
