/** Adding, changing, hiding and destroying columns. */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import {
  type ColumnLayout,
  type IndexLayout,
  indexName,
  type TableLayout,
  tableName,
} from '../compile/layout.ts';
import type { Field } from '../language/field.ts';
import { derivedName } from '../language/names.ts';
import { historyTable, indexBuildTable } from '../migrations.ts';
import { alterTable, type ChangeStep, dataConflict, type Obstacle } from './schema-plan.ts';

/* New names for fields: the column, its indexes and its keys get them too, and keep their data. */

/** Old name to new name. */
export type Renames = ReadonlyMap<string, string>;

export interface Renamed {
  readonly layout: TableLayout;
  readonly steps: readonly ChangeStep[];
}

const step = (schema: string, statement: string, summary: string): ChangeStep => ({
  schema,
  phase: 0,
  statement,
  summary,
  lock: 'ACCESS EXCLUSIVE',
  destructive: false,
});

/** The layout of a table under the new names, and how it gets there. */
export function renameLayout(schema: string, layout: TableLayout, renames: Renames): Renamed {
  if (renames.size === 0) return { layout, steps: [] };
  const steps = [...renames].flatMap(([from, to]) => columnSteps(schema, from, to));
  const now = (name: string): string => renames.get(name) ?? name;
  const columns = Object.fromEntries(
    Object.entries(layout.columns).map(([name, column]) => [now(name), column]),
  );
  const indexes = Object.entries(layout.indexes).map(([name, index]): [string, IndexLayout] => {
    const renamed = renameIndex(index, renames);
    if (!renamed) return [name, index];
    const next = indexName(schema, renamed);
    if (next !== name) steps.push(...indexSteps(schema, name, next));
    return [next, renamed];
  });
  const foreignKeys = Object.entries(layout.foreignKeys).map(([name, key]) => {
    const next = renames.has(key.column)
      ? derivedName('fk', schema, now(key.column), key.target)
      : name;
    if (next !== name) {
      const text = alterTable(
        schema,
        `rename constraint ${identifier(name)} to ${identifier(next)}`,
      );
      steps.push(step(schema, text, `The key of ${key.column} gets its new name`));
    }
    return [next, { ...key, column: now(key.column) }] as const;
  });
  return {
    layout: {
      columns,
      indexes: Object.fromEntries(indexes),
      foreignKeys: Object.fromEntries(foreignKeys),
    },
    steps,
  };
}

function columnSteps(schema: string, from: string, to: string): ChangeStep[] {
  const [old, next] = [literalOf(from, 'text'), literalOf(to, 'text')];
  const history =
    `update ${historyTable} set data = (data - ${old}) || jsonb_build_object(${next}, data -> ${old}) ` +
    `where schema = ${literalOf(schema, 'text')} and data ? ${old}`;
  return [
    step(
      schema,
      alterTable(schema, `rename column ${identifier(from)} to ${identifier(to)}`),
      `The field ${from} becomes ${to}; its data is kept`,
    ),
    { ...step(schema, history, `Earlier versions of records know ${from} as ${to}`), lock: 'none' },
  ];
}

/** `undefined` for an index that has to be made anew, because the name stands in its condition. */
function renameIndex(index: IndexLayout, renames: Renames): IndexLayout | undefined {
  const { columns, descending, where } = index;
  if (where !== undefined && [...renames.keys()].some((name) => where.includes(identifier(name))))
    return undefined;
  const now = (name: string): string => renames.get(name) ?? name;
  return {
    ...index,
    columns: columns.map(now),
    ...(descending && { descending: descending.map(now) }),
  };
}

/** An index that is still to be made has its name only in the list of those. */
function indexSteps(schema: string, from: string, to: string): ChangeStep[] {
  const summary = `The index ${from} gets its new name`;
  const waiting = `update ${indexBuildTable} set name = ${literalOf(to, 'text')} where name = ${literalOf(from, 'text')}`;
  return [
    step(
      schema,
      `alter index if exists "app".${identifier(from)} rename to ${identifier(to)}`,
      summary,
    ),
    { ...step(schema, waiting, summary), lock: 'none' },
  ];
}

export interface ColumnContext {
  readonly table: string;
  readonly column: string;
  readonly requested: ColumnLayout;
  /** `undefined`: it was taken out. */
  readonly field: Field | undefined;
  /** Value for records that have none. */
  readonly backfill: unknown;
}

const exclusive = { phase: 2, lock: 'ACCESS EXCLUSIVE', destructive: false } as const;

/** What records without a value get: what the change gives them, else the default. */
const filling = ({ field, backfill }: ColumnContext): unknown =>
  backfill === undefined ? field?.default : backfill;

export function addColumn(context: ColumnContext): ChangeStep[] {
  const { table, column, requested } = context;
  const value = filling(context);
  const name = identifier(column);
  const step = { ...exclusive, schema: table };
  const add = `add column ${name} ${requested.type}${requested.notNull ? ' not null' : ''}`;
  if (value === undefined) {
    const obstacle = requested.notNull && lacking(table, column, '');
    return [
      {
        ...step,
        statement: alterTable(table, add),
        summary: `The field ${column} is added`,
        ...(obstacle && { obstacle }),
      },
    ];
  }
  const added: ChangeStep = {
    ...step,
    statement: alterTable(table, `${add} default ${literalOf(value, requested.type)}`),
    summary: `The field ${column} is added; records get ${context.backfill === undefined ? 'its default' : 'the value of the backfill'}`,
  };
  const fallback = requested.notNull ? context.field?.default : undefined;
  if (fallback !== undefined && context.backfill === undefined) return [added];
  return [added, { ...step, ...leftDefault(context, fallback) }];
}

/**
 * New records get the default from us: it may change without touching the table. In the table it is for writers who
 * have not heard of a required field yet, which are those of the moment of the change.
 */
function leftDefault(
  { table, column, requested }: ColumnContext,
  fallback: unknown,
): Pick<ChangeStep, 'statement' | 'summary'> {
  const name = identifier(column);
  const change =
    fallback === undefined ? 'drop default' : `set default ${literalOf(fallback, requested.type)}`;
  return {
    statement: alterTable(table, `alter column ${name} ${change}`),
    summary: `The default of ${column} is left to the platform`,
  };
}

/** Records without a value, where every record must have one. `condition`: which ones those are; empty: all. */
function lacking(table: string, column: string, condition: string): Obstacle {
  return {
    query: `select count(*)::integer as records from ${tableName(table)} ${condition} having count(*) > 0`,
    error: ([row]) =>
      dataConflict(
        column,
        'required',
        `${row?.records} records have no value, so that it cannot be required. Give them one with backfill.${column}, or give the field a default`,
      ),
  };
}

/** A column that stays, from what it is to what it shall be. */
export function changeColumn(context: ColumnContext, stored: ColumnLayout): ChangeStep[] {
  const { requested, backfill } = context;
  const widened = stored.type === requested.type ? [] : [widenColumn(context, stored)];
  if (stored.notNull === requested.notNull)
    return backfill === undefined ? widened : [...widened, fillColumn(context, backfill)];
  return [...widened, ...(requested.notNull ? requireColumn(context) : [releaseColumn(context)])];
}

const widenColumn = (
  { table, column, requested }: ColumnContext,
  stored: ColumnLayout,
): ChangeStep => ({
  ...exclusive,
  schema: table,
  statement: alterTable(
    table,
    `alter column ${identifier(column)} type ${requested.type} using ${identifier(column)}::${requested.type}`,
  ),
  summary: `The field ${column} becomes wider: from ${stored.type} to ${requested.type}`,
  touchesRows: true,
});

const fillColumn = ({ table, column, requested }: ColumnContext, value: unknown): ChangeStep => ({
  ...exclusive,
  schema: table,
  statement: `update ${tableName(table)} set ${identifier(column)} = ${literalOf(value, requested.type)} where ${identifier(column)} is null`,
  summary: `Records without ${column} get a value`,
  lock: 'ROW EXCLUSIVE',
  touchesRows: true,
});

function requireColumn(context: ColumnContext): ChangeStep[] {
  const { table, column } = context;
  const name = identifier(column);
  const step: ChangeStep = {
    ...exclusive,
    schema: table,
    statement: alterTable(table, `alter column ${name} set not null`),
    summary: `The field ${column} becomes required`,
    touchesRows: true,
  };
  const value = filling(context);
  if (value !== undefined) return [fillColumn(context, value), step];
  return [{ ...step, obstacle: lacking(table, column, `where ${name} is null`) }];
}

const releaseColumn = ({ table, column, field }: ColumnContext): ChangeStep => ({
  ...exclusive,
  schema: table,
  statement: alterTable(
    table,
    `alter column ${identifier(column)} drop not null, alter column ${identifier(column)} drop default`,
  ),
  summary: field
    ? `The field ${column} becomes optional`
    : `The field ${column} is hidden; its data is kept`,
});

export const dropColumn = (table: string, column: string): ChangeStep => ({
  ...exclusive,
  schema: table,
  statement: alterTable(table, `drop column if exists ${identifier(column)}`),
  summary: `The data of ${column} is destroyed`,
  destructive: true,
});
