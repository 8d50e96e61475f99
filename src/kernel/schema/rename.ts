/** New names for fields: the column, its indexes and its keys get them too, and keep their data. */
import { identifier } from '../database/sql.ts';
import { type IndexLayout, indexName, type TableLayout } from './layout.ts';
import { literalOf } from './literal.ts';
import { historyTable, indexBuildTable } from './migrations.ts';
import { derivedName } from './names.ts';
import { alterTable, type ChangeStep } from './step.ts';

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
  const columns = Object.fromEntries(Object.entries(layout.columns).map(([name, column]) => [now(name), column]));
  const indexes = Object.entries(layout.indexes).map(([name, index]): [string, IndexLayout] => {
    const renamed = renameIndex(index, renames);
    if (!renamed) return [name, index];
    const next = indexName(schema, renamed);
    if (next !== name) steps.push(...indexSteps(schema, name, next));
    return [next, renamed];
  });
  const foreignKeys = Object.entries(layout.foreignKeys).map(([name, key]) => {
    const next = renames.has(key.column) ? derivedName('fk', schema, now(key.column), key.target) : name;
    if (next !== name) {
      const text = alterTable(schema, `rename constraint ${identifier(name)} to ${identifier(next)}`);
      steps.push(step(schema, text, `The key of ${key.column} gets its new name`));
    }
    return [next, { ...key, column: now(key.column) }] as const;
  });
  return { layout: { columns, indexes: Object.fromEntries(indexes), foreignKeys: Object.fromEntries(foreignKeys) }, steps };
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
  if (where !== undefined && [...renames.keys()].some((name) => where.includes(identifier(name)))) return undefined;
  const now = (name: string): string => renames.get(name) ?? name;
  return { ...index, columns: columns.map(now), ...(descending && { descending: descending.map(now) }) };
}

/** An index that is still to be made has its name only in the list of those. */
function indexSteps(schema: string, from: string, to: string): ChangeStep[] {
  const summary = `The index ${from} gets its new name`;
  const waiting = `update ${indexBuildTable} set name = ${literalOf(to, 'text')} where name = ${literalOf(from, 'text')}`;
  return [
    step(schema, `alter index if exists "app".${identifier(from)} rename to ${identifier(to)}`, summary),
    { ...step(schema, waiting, summary), lock: 'none' },
  ];
}
