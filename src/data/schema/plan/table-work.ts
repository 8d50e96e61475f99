/** What a change of schemas means for all tables. Pure: nothing is read or written here. */

import { literalOf } from '../../../kernel/database/literal.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import { unknownFields } from '../compile/damaged-declaration.ts';
import { type Declaration, declaredIndexes, treeOf } from '../compile/declaration.ts';
import { emptyLayout, layoutOf, type TableLayout } from '../compile/layout.ts';
import type { Field } from '../language/field.ts';
import { softDeleteOf } from '../language/record-options.ts';
import { historyTable } from '../migrations.ts';
import { type Renamed, type Renames, renameLayout } from './column-steps.ts';
import { type DeclarationChange, unchangedDeclaration } from './declaration-change.ts';
import { diffTable, dropTable } from './diff.ts';
import { purgeNested, purgeNestedHistory } from './dropped.ts';
import { requireUuids } from './option-rules.ts';
import type { ChangeStep } from './schema-plan.ts';

/** Every declaration by lower-case name: names are unique whatever their case. */
export type SchemaSnapshot = ReadonlyMap<string, Declaration>;

export const schemaSnapshotOf = (declarations: readonly Declaration[]): SchemaSnapshot =>
  new Map(declarations.map((d) => [d.name.toLowerCase(), d]));

export interface ChangePlan {
  /** New and changed declarations, removed ones included; one per schema. */
  readonly drafts: readonly DeclarationChange[];
  /** Names whose declaration and table go. */
  readonly destroy: readonly string[];
}

/** What a change plan means for one table. */
export interface TableWork {
  readonly declaration: Declaration;
  readonly steps: readonly ChangeStep[];
  /** It was asked for, and not only touched because a schema that it points to came or went. */
  readonly intended: boolean;
}

/** The work of a change plan, also on schemas that refer to those it names; in slices, for there may be thousands. */
export async function workOf(
  snapshot: SchemaSnapshot,
  changePlan: ChangePlan,
): Promise<readonly TableWork[]> {
  const next = new Map(
    [...snapshot].map(([key, declaration]) => [key, unchangedDeclaration(declaration)]),
  );
  for (const name of changePlan.destroy) next.delete(name.toLowerCase());
  for (const draft of changePlan.drafts) next.set(draft.declaration.name.toLowerCase(), draft);
  const layoutOf = layoutsOf((key) => next.get(key)?.declaration);
  const layoutBefore = layoutsOf((key) => snapshot.get(key));
  const intended = new Set(changePlan.drafts);
  const changed = new Set(
    [...changePlan.destroy, ...changePlan.drafts.map(({ declaration }) => declaration.name)].map(
      (name) => name.toLowerCase(),
    ),
  );
  const pause = createTimeSlices();
  const all: TableWork[] = [];
  for (const draft of next.values()) {
    await pause();
    const isIntended = intended.has(draft);
    // Reading its fields is what costs most where there are many schemas.
    if (!isIntended && !mentions(draft.declaration, changed)) continue;
    if (!isIntended && isDamaged(draft.declaration)) continue;
    const before = snapshot.get(draft.declaration.name.toLowerCase());
    const work = tableWork(draft, before, layoutOf);
    if (work.steps.length === 0 && !isIntended) continue;
    // What is not as it should be without this change is none of its business.
    if (!isIntended && tableWork(draft, before, layoutBefore).steps.length > 0) continue;
    all.push({ ...work, intended: isIntended });
  }
  return all;
}

/** Whether a field may point to one of these schemas: each text counts, for files are fields of the type `File`. */
const mentions = ({ fields, extensions }: Declaration, names: ReadonlySet<string>): boolean =>
  hasText([fields, extensions], names);

const hasText = (value: unknown, texts: ReadonlySet<string>): boolean =>
  typeof value === 'string'
    ? texts.has(value.toLowerCase())
    : typeof value === 'object' &&
      value !== null &&
      Object.values(value).some((one) => hasText(one, texts));

/** Layouts of the schemas that are there. */
const layoutsOf =
  (find: (key: string) => Declaration | undefined) =>
  (name: string): TableLayout | undefined => {
    const found = find(name.toLowerCase());
    return found !== undefined && found.name === name && !found.removed ? found.layout : undefined;
  };

/**
 * What cannot be read, or only in part, is left as it is until somebody changes it: its table would lose the columns,
 * constraints and indexes of fields that this version does not know.
 */
const isDamaged = (declaration: Declaration): boolean =>
  declaration.problem !== undefined || unknownFields(declaration).length > 0;

const noFields: ReadonlyMap<string, Field> = new Map();
const untouched: Renamed = { layout: emptyLayout, steps: [] };

function tableWork(
  draft: DeclarationChange,
  before: Declaration | undefined,
  target: (name: string) => TableLayout | undefined,
) {
  const { declaration, renames, backfill, purge } = draft;
  const { name } = declaration;
  // A table of others stays as it is.
  if (declaration.layout.mapping) return { declaration, steps: [] };
  const tree = treeOf(declaration);
  if (!declaration.removed) requireUuids(declaration, tree, target);
  const requested = declaration.removed ? { ...tree, fields: noFields } : tree;
  const renamed = before ? renameAll(name, before.layout, renames) : untouched;
  const layout = layoutOf({
    name,
    tree: requested,
    // A key to a table of others would put triggers on it.
    exists: (schema) => target(schema) !== undefined && target(schema)?.mapping === undefined,
    keep: withoutColumns(renamed.layout, purge),
    softDelete: softDeleteOf(declaration.modelOptions.conduit) !== undefined,
    indexes: declaration.removed ? [] : declaredIndexes(declaration, tree),
  });
  const change = {
    name,
    from: before && renamed.layout,
    to: layout,
    fields: requested.fields,
    backfill,
  };
  const steps = [
    ...renamed.steps,
    ...diffTable(change),
    ...purge.flatMap((path) => purgeSteps(name, path, tree.fields)),
  ];
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
  columns: Object.fromEntries(
    Object.entries(layout.columns).filter(([column]) => !names.includes(column)),
  ),
});

/** Beyond the column itself: a nested value, and what earlier versions of records know. */
function purgeSteps(
  schema: string,
  path: string,
  fields: ReadonlyMap<string, Field>,
): readonly ChangeStep[] {
  const [column = '', ...rest] = path.split('.');
  const top = fields.get(column);
  if (rest.length > 0)
    return top ? [purgeNested(schema, path, top), purgeNestedHistory(schema, path, top)] : [];
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
export function dropSteps(snapshot: SchemaSnapshot, name: string): readonly ChangeStep[] {
  const layout = snapshot.get(name.toLowerCase())?.layout ?? emptyLayout;
  return layout.mapping ? [] : dropTable(name, layout);
}

/** Steps of all tables in the order in which they can run. */
export function orderedSteps(
  snapshot: SchemaSnapshot,
  work: readonly TableWork[],
  destroy: readonly string[],
): readonly ChangeStep[] {
  const steps = [
    ...work.flatMap((table) => table.steps),
    ...destroy.flatMap((name) => dropSteps(snapshot, name)),
  ];
  return steps.sort((a, b) => a.phase - b.phase);
}
