/** What a change of schemas means for all tables. Pure: nothing is read or written here. */
import { type Declaration, declaredIndexes, treeOf } from './declaration.ts';
import { diffTable, dropTable } from './diff.ts';
import { type Draft, plainDraft } from './draft.ts';
import { purgeNested, purgeNestedHistory } from './dropped.ts';
import type { Field } from './field.ts';
import { emptyLayout, layoutOf, type TableLayout } from './layout.ts';
import { literalOf } from './literal.ts';
import { requireUuids } from './mapping/rules.ts';
import { historyTable } from './migrations.ts';
import { softDeleteOf } from './record-options.ts';
import { type Renamed, type Renames, renameLayout } from './rename.ts';
import type { ChangeStep } from './step.ts';

/** Every declaration by lower-case name: names are unique whatever their case. */
export type World = ReadonlyMap<string, Declaration>;

export const worldOf = (declarations: readonly Declaration[]): World => new Map(declarations.map((d) => [d.name.toLowerCase(), d]));

export interface Intent {
  /** New and changed declarations, removed ones included; one per schema. */
  readonly drafts: readonly Draft[];
  /** Names whose declaration and table go. */
  readonly destroy: readonly string[];
}

/** What an intent means for one table. */
export interface TableWork {
  readonly declaration: Declaration;
  readonly steps: readonly ChangeStep[];
  /** It was asked for, and not only touched because a schema that it points to came or went. */
  readonly intended: boolean;
}

/** The work of an intent, also on schemas that refer to those it names. */
export function workOf(world: World, intent: Intent): readonly TableWork[] {
  const next = new Map([...world].map(([key, declaration]) => [key, plainDraft(declaration)]));
  for (const name of intent.destroy) next.delete(name.toLowerCase());
  for (const draft of intent.drafts) next.set(draft.declaration.name.toLowerCase(), draft);
  const layoutOf = (name: string): TableLayout | undefined => {
    const found = next.get(name.toLowerCase())?.declaration;
    return found !== undefined && found.name === name && !found.removed ? found.layout : undefined;
  };
  const intended = new Set(intent.drafts);
  return [...next.values()].flatMap((draft) => {
    const work = tableWork(draft, world.get(draft.declaration.name.toLowerCase()), layoutOf);
    return work.steps.length > 0 || intended.has(draft) ? [{ ...work, intended: intended.has(draft) }] : [];
  });
}

const noFields: ReadonlyMap<string, Field> = new Map();
const untouched: Renamed = { layout: emptyLayout, steps: [] };

function tableWork(draft: Draft, before: Declaration | undefined, target: (name: string) => TableLayout | undefined) {
  const { declaration, renames, backfill, purge } = draft;
  const { name } = declaration;
  // A table of others stays as it is.
  if (declaration.layout.mapping) return { declaration, steps: [] };
  const tree = treeOf(declaration);
  if (!declaration.removed) requireUuids(declaration, tree, target);
  const wanted = declaration.removed ? { ...tree, fields: noFields } : tree;
  const renamed = before ? renameAll(name, before.layout, renames) : untouched;
  const layout = layoutOf({
    name,
    tree: wanted,
    // A key to a table of others would put triggers on it.
    exists: (schema) => target(schema) !== undefined && target(schema)?.mapping === undefined,
    keep: withoutColumns(renamed.layout, purge),
    softDelete: softDeleteOf(declaration.modelOptions.conduit) !== undefined,
    indexes: declaration.removed ? [] : declaredIndexes(declaration, tree),
  });
  const change = { name, from: before && renamed.layout, to: layout, fields: wanted.fields, backfill };
  const steps = [...renamed.steps, ...diffTable(change), ...purge.flatMap((path) => purgeSteps(name, path, tree.fields))];
  return { declaration: { ...declaration, layout }, steps };
}

function renameAll(schema: string, layout: TableLayout, sets: readonly Renames[]): Renamed {
  let all: Renamed = { layout, steps: [] };
  for (const renames of sets) {
    const next = renameLayout(schema, all.layout, renames);
    all = { layout: next.layout, steps: [...all.steps, ...next.steps] };
  }
  return all;
}

const withoutColumns = (layout: TableLayout, names: readonly string[]): TableLayout => ({
  ...layout,
  columns: Object.fromEntries(Object.entries(layout.columns).filter(([column]) => !names.includes(column))),
});

/** Beyond the column itself: a nested value, and what earlier versions of records know. */
function purgeSteps(schema: string, path: string, fields: ReadonlyMap<string, Field>): readonly ChangeStep[] {
  const [column = '', ...rest] = path.split('.');
  const top = fields.get(column);
  if (rest.length > 0) return top ? [purgeNested(schema, path, top), purgeNestedHistory(schema, path, top)] : [];
  const key = literalOf(column, 'text');
  return [
    {
      schema,
      phase: 2,
      statement: `update ${historyTable} set data = data - ${key} where schema = ${literalOf(schema, 'text')} and data ? ${key}`,
      summary: `Earlier versions of records lose ${path}`,
      lock: 'none',
      destructive: true,
    },
  ];
}

/** What is done to a table that is destroyed. */
export function dropSteps(world: World, name: string): readonly ChangeStep[] {
  const layout = world.get(name.toLowerCase())?.layout ?? emptyLayout;
  return layout.mapping ? [] : dropTable(name, layout);
}

/** Steps of all tables in the order in which they can run. */
export function orderedSteps(world: World, work: readonly TableWork[], destroy: readonly string[]): readonly ChangeStep[] {
  const steps = [...work.flatMap((table) => table.steps), ...destroy.flatMap((name) => dropSteps(world, name))];
  return steps.sort((a, b) => a.phase - b.phase);
}
