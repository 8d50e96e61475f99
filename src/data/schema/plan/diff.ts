/** The difference between two layouts of a table, as statements in an order that works for many tables at once. */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import {
  type ForeignKeyLayout,
  type IndexLayout,
  type TableLayout,
  tableName,
} from '../compile/layout.ts';
import type { Field } from '../language/field.ts';
import { derivedName } from '../language/names.ts';
import { historyTable } from '../migrations.ts';
import { addColumn, type ColumnContext, changeColumn, dropColumn } from './column-steps.ts';
import { addIndex, dropIndex } from './index-steps.ts';
import { alterTable, type ChangeStep, dataConflict } from './schema-plan.ts';

export interface TableChange {
  readonly name: string;
  readonly from: TableLayout | undefined;
  readonly to: TableLayout;
  readonly fields: ReadonlyMap<string, Field>;
  /** Values for records that have none, by field. */
  readonly backfill: ReadonlyMap<string, unknown>;
}

const entries = <V>(record: Readonly<Record<string, V>>): [string, V][] => Object.entries(record);
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** All steps of one table; none when it is as it should be. */
export function diffTable(change: TableChange): readonly ChangeStep[] {
  const { name, from, to, fields } = change;
  const gone = <V>(
    before: Readonly<Record<string, V>> | undefined,
    after: Readonly<Record<string, V>>,
  ): [string, V][] => entries(before ?? {}).filter(([key, value]) => !same(after[key], value));
  const fresh = <V>(
    before: Readonly<Record<string, V>> | undefined,
    after: Readonly<Record<string, V>>,
  ): [string, V][] => entries(after).filter(([key, value]) => !same(before?.[key], value));
  return [
    ...gone(from?.foreignKeys, to.foreignKeys).map(([key, value]) => dropKey(name, key, value)),
    ...gone(from?.indexes, to.indexes).map(([key, value]) => dropIndex(name, key, value)),
    ...(from ? columnSteps(change, from) : [createTable(change)]),
    ...fresh(from?.indexes, to.indexes).map(([key, layout]) => {
      const step = addIndex(name, key, { layout, fields });
      return from && isUniqueAlready(from, layout) ? withinChange(step) : step;
    }),
    ...fresh(from?.foreignKeys, to.foreignKeys).map(([key, value]) => addKey(name, key, value)),
  ];
}

/** Another index keeps these values unique until now: there must be no moment in which none does. */
const isUniqueAlready = ({ indexes }: TableLayout, { unique, columns }: IndexLayout): boolean =>
  unique && Object.values(indexes).some((other) => other.unique && same(other.columns, columns));

/** Made with the change, however large the table is. */
function withinChange({ index: _, ...step }: ChangeStep): ChangeStep {
  return step;
}

/** Its keys go first: tables that point to each other can then be dropped in any order. */
export const dropTable = (name: string, layout: TableLayout): readonly ChangeStep[] => [
  ...entries(layout.foreignKeys).map(([key, value]) => dropKey(name, key, value)),
  {
    schema: name,
    phase: 1,
    statement: `drop table if exists ${tableName(name)}`,
    summary: `The table ${name} and all its records are destroyed`,
    lock: 'ACCESS EXCLUSIVE',
    destructive: true,
    touchesRows: true,
  },
  {
    schema: name,
    phase: 1,
    statement: `delete from ${historyTable} where schema = ${literalOf(name, 'text')}`,
    summary: `Earlier versions of the records of ${name} are destroyed`,
    lock: 'none',
    destructive: true,
  },
];

function createTable({ name, to }: TableChange): ChangeStep {
  const columns = entries(to.columns).map(
    ([column, { type, notNull }]) => `${identifier(column)} ${type}${notNull ? ' not null' : ''}`,
  );
  const parts = [
    `"_id" uuid constraint ${identifier(derivedName('pk', name))} primary key`,
    ...columns,
    '"createdAt" timestamptz(3) not null default now()',
    '"updatedAt" timestamptz(3) not null default now()',
    '"__v" integer not null default 0',
  ];
  return {
    schema: name,
    phase: 2,
    statement: `create table ${tableName(name)} (${parts.join(', ')})`,
    summary: `The table ${name} is made`,
    lock: 'none',
    destructive: false,
  };
}

function columnSteps({ name, to, fields, backfill }: TableChange, from: TableLayout): ChangeStep[] {
  const purged = Object.keys(from.columns).filter((column) => !to.columns[column]);
  const changed = entries(to.columns).flatMap(([column, requested]) => {
    const stored = from.columns[column];
    const context: ColumnContext = {
      table: name,
      column,
      requested,
      field: fields.get(column),
      backfill: backfill.get(column),
    };
    return stored ? changeColumn(context, stored) : addColumn(context);
  });
  return [...purged.map((column) => dropColumn(name, column)), ...changed];
}

const dropKey = (table: string, key: string, { column, target }: ForeignKeyLayout): ChangeStep => ({
  schema: table,
  phase: 0,
  statement: alterTable(table, `drop constraint if exists ${identifier(key)}`),
  summary: `The link from ${column} to ${target} is no longer enforced`,
  lock: 'ACCESS EXCLUSIVE',
  destructive: false,
});

const deleteRules = { restrict: 'no action', cascade: 'cascade', setNull: 'set null' } as const;

function addKey(
  table: string,
  key: string,
  { column, target, onDelete }: ForeignKeyLayout,
): ChangeStep {
  const name = identifier(column);
  const link = `foreign key (${name}) references ${tableName(target)} ("_id") on delete ${deleteRules[onDelete]} deferrable`;
  const query =
    `select count(*)::integer as records from ${tableName(table)} s where s.${name} is not null ` +
    `and not exists (select 1 from ${tableName(target)} t where t."_id" = s.${name}) having count(*) > 0`;
  return {
    schema: table,
    phase: 4,
    statement: alterTable(table, `add constraint ${identifier(key)} ${link}`),
    summary: `${column} must point to a record of ${target}`,
    lock: 'SHARE ROW EXCLUSIVE',
    destructive: false,
    touchesRows: true,
    obstacle: {
      query,
      error: ([row]) =>
        dataConflict(
          column,
          'relation',
          `${row?.records} records point to a ${target} that does not exist`,
        ),
    },
  };
}
