/** The difference between two layouts of a table, as statements in an order that works for many tables at once. */

import { identifier } from '../database/sql.ts';
import type { PenstockError } from '../errors.ts';
import { schemaErrors } from './errors.ts';
import type { Field } from './field.ts';
import type { ColumnLayout, ForeignKeyLayout, IndexLayout, TableLayout } from './layout.ts';
import { literalOf } from './literal.ts';
import { derivedName } from './names.ts';
import type { PlanStep } from './plan.ts';

/** A step with what must hold before it may run. */
export interface ChangeStep extends PlanStep {
  /** Steps of all tables run by phase: keys away, tables and columns, indexes, keys. */
  readonly phase: 0 | 1 | 2 | 3 | 4;
  /** A query that answers a row when the stored records do not allow the step. */
  readonly obstacle?: { readonly query: string; readonly error: () => PenstockError };
}

export interface TableChange {
  readonly name: string;
  readonly from: TableLayout | undefined;
  readonly to: TableLayout;
  readonly fields: ReadonlyMap<string, Field>;
}

export const tableName = (schema: string): string => `"app".${identifier(schema)}`;

const entries = <V>(record: Readonly<Record<string, V>>): [string, V][] => Object.entries(record);
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** All steps of one table; none when it is as it should be. */
export function diffTable(change: TableChange): readonly ChangeStep[] {
  const { from, to } = change;
  const gone = <V>(before: Readonly<Record<string, V>> | undefined, after: Readonly<Record<string, V>>): [string, V][] =>
    entries(before ?? {}).filter(([key, value]) => !same(after[key], value));
  const fresh = <V>(before: Readonly<Record<string, V>> | undefined, after: Readonly<Record<string, V>>): [string, V][] =>
    entries(after).filter(([key, value]) => !same(before?.[key], value));
  return [
    ...gone(from?.foreignKeys, to.foreignKeys).map(([key, value]) => dropKey(change.name, key, value)),
    ...gone(from?.indexes, to.indexes).map(([key, value]) => dropIndex(change.name, key, value)),
    ...(from ? columnSteps(change, from) : [createTable(change)]),
    ...fresh(from?.indexes, to.indexes).map(([key, value]) => addIndex(change.name, key, value)),
    ...fresh(from?.foreignKeys, to.foreignKeys).map(([key, value]) => addKey(change.name, key, value)),
  ];
}

/** Its keys go first: tables that point to each other can then be dropped in any order. */
export const dropTable = (name: string, layout: TableLayout): readonly ChangeStep[] => [
  ...entries(layout.foreignKeys).map(([key, value]) => dropKey(name, key, value)),
  {
    phase: 1,
    statement: `drop table if exists ${tableName(name)}`,
    summary: `The table ${name} and all its records are destroyed`,
    lock: 'ACCESS EXCLUSIVE',
    destructive: true,
  },
];

function createTable({ name, to }: TableChange): ChangeStep {
  const columns = entries(to.columns).map(([column, { type, notNull }]) => `${identifier(column)} ${type}${notNull ? ' not null' : ''}`);
  const parts = [
    `"_id" uuid constraint ${identifier(derivedName('pk', name))} primary key`,
    ...columns,
    '"createdAt" timestamptz(3) not null default now()',
    '"updatedAt" timestamptz(3) not null default now()',
    '"__v" integer not null default 0',
  ];
  return {
    phase: 2,
    statement: `create table ${tableName(name)} (${parts.join(', ')})`,
    summary: `The table ${name} is made`,
    lock: 'none',
    destructive: false,
  };
}

function columnSteps({ name, to, fields }: TableChange, from: TableLayout): ChangeStep[] {
  return entries(to.columns).flatMap(([column, wanted]) => {
    const stored = from.columns[column];
    const context: ColumnContext = { table: name, column, wanted, field: fields.get(column) };
    if (!stored) return addColumn(context);
    if (stored.notNull === wanted.notNull) return [];
    return wanted.notNull ? requireColumn(context) : [releaseColumn(context)];
  });
}

interface ColumnContext {
  readonly table: string;
  readonly column: string;
  readonly wanted: ColumnLayout;
  readonly field: Field | undefined;
}

const alter = (table: string, action: string): string => `alter table ${tableName(table)} ${action}`;

/** What the records must not do; the message names the field. */
const conflict = (column: string, rule: string, message: string) => () =>
  schemaErrors.SCHEMA_DATA_CONFLICT({ message: `${column}: ${message}`, errors: [{ path: `fields.${column}`, rule, message }] });

function addColumn({ table, column, wanted, field }: ColumnContext): ChangeStep[] {
  const literal = field?.default === undefined ? undefined : literalOf(field.default, wanted.type);
  const name = identifier(column);
  const step = { phase: 2, lock: 'ACCESS EXCLUSIVE', destructive: false } as const;
  const add = `add column ${name} ${wanted.type}${wanted.notNull ? ' not null' : ''}`;
  if (literal === undefined) {
    const message = 'a new required field needs a default while there are records';
    const obstacle = { query: `select 1 from ${tableName(table)} limit 1`, error: conflict(column, 'required', message) };
    return [{ ...step, statement: alter(table, add), summary: `The field ${column} is added`, ...(wanted.notNull && { obstacle }) }];
  }
  return [
    { ...step, statement: alter(table, `${add} default ${literal}`), summary: `The field ${column} is added; records get its default` },
    // New records get the default from us: it may change without touching the table.
    { ...step, statement: alter(table, `alter column ${name} drop default`), summary: `The default of ${column} is left to the platform` },
  ];
}

function requireColumn({ table, column, wanted, field }: ColumnContext): ChangeStep[] {
  const name = identifier(column);
  const step = { phase: 2, lock: 'ACCESS EXCLUSIVE', destructive: false } as const;
  const require = {
    ...step,
    statement: alter(table, `alter column ${name} set not null`),
    summary: `The field ${column} becomes required`,
  };
  if (field?.default !== undefined) {
    const statement = `update ${tableName(table)} set ${name} = ${literalOf(field.default, wanted.type)} where ${name} is null`;
    return [{ ...step, statement, summary: `Records without ${column} get its default`, lock: 'ROW EXCLUSIVE' }, require];
  }
  const message = 'some records have no value, so that it cannot be required';
  const query = `select 1 from ${tableName(table)} where ${name} is null limit 1`;
  return [{ ...require, obstacle: { query, error: conflict(column, 'required', message) } }];
}

const releaseColumn = ({ table, column, field }: ColumnContext): ChangeStep => ({
  phase: 2,
  statement: alter(table, `alter column ${identifier(column)} drop not null`),
  summary: field ? `The field ${column} becomes optional` : `The field ${column} is hidden; its data is kept`,
  lock: 'ACCESS EXCLUSIVE',
  destructive: false,
});

const dropIndex = (table: string, index: string, { columns }: IndexLayout): ChangeStep => ({
  phase: 0,
  statement: `drop index if exists "app".${identifier(index)}`,
  summary: `The index of ${table} over ${columns.join(', ')} is removed`,
  lock: 'ACCESS EXCLUSIVE',
  destructive: false,
});

function addIndex(table: string, index: string, { columns, unique, method }: IndexLayout): ChangeStep {
  const list = columns.map(identifier).join(', ');
  const step = {
    phase: 3,
    statement: `create ${unique ? 'unique ' : ''}index ${identifier(index)} on ${tableName(table)} using ${method} (${list})`,
    summary: `${unique ? 'Uniqueness' : 'An index'} of ${columns.join(', ')}`,
    lock: 'SHARE',
    destructive: false,
  } as const;
  if (!unique) return step;
  const present = columns.map((c) => `${identifier(c)} is not null`).join(' and ');
  const query = `select 1 from ${tableName(table)} where ${present} group by ${list} having count(*) > 1 limit 1`;
  return { ...step, obstacle: { query, error: conflict(columns.join(', '), 'unique', 'several records have the same value') } };
}

const dropKey = (table: string, key: string, { column, target }: ForeignKeyLayout): ChangeStep => ({
  phase: 0,
  statement: alter(table, `drop constraint if exists ${identifier(key)}`),
  summary: `The link from ${column} to ${target} is no longer enforced`,
  lock: 'ACCESS EXCLUSIVE',
  destructive: false,
});

const deleteRules = { restrict: 'no action', cascade: 'cascade', setNull: 'set null' } as const;

function addKey(table: string, key: string, { column, target, onDelete }: ForeignKeyLayout): ChangeStep {
  const name = identifier(column);
  const link = `foreign key (${name}) references ${tableName(target)} ("_id") on delete ${deleteRules[onDelete]} deferrable`;
  const query =
    `select 1 from ${tableName(table)} s where s.${name} is not null ` +
    `and not exists (select 1 from ${tableName(target)} t where t."_id" = s.${name}) limit 1`;
  return {
    phase: 4,
    statement: alter(table, `add constraint ${identifier(key)} ${link}`),
    summary: `${column} must point to a record of ${target}`,
    lock: 'SHARE ROW EXCLUSIVE',
    destructive: false,
    obstacle: { query, error: conflict(column, 'relation', `some records point to a ${target} that does not exist`) },
  };
}
