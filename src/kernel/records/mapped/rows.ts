/**
 * Changes of rows in tables of others. What the record engine knows of such a table is a sub-select, which
 * cannot be written to: the rows are found and locked through it, and changed by their key. So every condition
 * has been true of the row as it is now, and expressions over `t0` mean its values of now.
 */
import { identifier } from '../../database/sql.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import {
  hasTimestamps,
  identityColumns,
  keyColumns,
  relationName,
  shownRow,
  type TableMapping,
  writtenValue,
} from '../../schema/mapping/mapping.ts';

/** Stands for the default of a column, which only the table knows. */
export const tableDefault: unique symbol = Symbol('the default of the table');

/** A field and its new value, as SQL of the type that the record engine uses; `undefined`: the default of the table. */
export type Assigned = readonly [field: string, value: string | undefined];

type Mapped = Pick<CompiledSchema, 'rows' | 'key'> & { readonly mapping: TableMapping };

function columnValue({ columns }: TableMapping, [field, value]: Assigned): readonly [string, string][] {
  const column = columns[field];
  if (!column) return [];
  return [[identifier(column.column), value === undefined ? 'default' : writtenValue(column, value)]];
}

/** Times that the platform keeps where the table has columns for them, and does not fill them in by itself. */
function kept(mapping: TableMapping, fields: readonly string[]): readonly Assigned[] {
  if (!hasTimestamps(mapping)) return [];
  return fields.map((field): Assigned => [field, 'now()']);
}

/** The head of a `with`: `r` is the new row. */
export function insertedRow({ mapping }: Mapped, values: readonly Assigned[]): string {
  const times = ['createdAt', 'updatedAt'].filter((field) => mapping.columns[field]?.filled === 'never');
  const pairs = [...values, ...kept(mapping, times)].flatMap((one) => columnValue(mapping, one));
  const columns = pairs.map(([name]) => name).join(', ');
  const given = pairs.length > 0 ? `(${columns}) values (${pairs.map(([, value]) => value).join(', ')})` : 'default values';
  return `r as (insert into ${relationName(mapping.source)} as c ${given} returning ${shownRow(mapping, 'c', true)})`;
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
export function changedMapped(schema: Mapped, values: readonly Assigned[], where: string): string {
  const { mapping } = schema;
  const pairs = [...values, ...kept(mapping, ['updatedAt'])].flatMap((one) => columnValue(mapping, one));
  if (pairs.length === 0) return `${lockedRows(schema, where)}, r as (select t0.* from o t0)`;
  const sets = pairs.map(([name, value]) => `${name} = ${value}`).join(', ');
  const change = `update ${relationName(mapping.source)} c set ${sets} from o t0 where ${isSame(schema)} returning ${shownRow(mapping, 'c', true)}`;
  return `${lockedRows(schema, where)}, r as (${change})`;
}

/** The same for rows that go; `r` has only their ids. */
export function destroyedMapped(schema: Mapped, where: string): string {
  const { source } = schema.mapping;
  const gone = `delete from ${relationName(source)} c using o t0 where ${isSame(schema)} returning t0."_id"`;
  return `${lockedRows(schema, where)}, r as (${gone})`;
}
