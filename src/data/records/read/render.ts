/**
 * The select list that turns a row into its wire form (spec/database.md 1.1):
 * ISO dates with milliseconds, hidden fields left out, relations as ids or, when
 * populated, as records. PostgreSQL makes the JSON; identifiers come from the schema only.
 */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { SelectedFields } from '../../../kernel/operations/operation-input.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { boundedList } from '../answer-bytes.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { ReadOptions } from '../store.ts';
import { columnView, instantOf, nestedDrops } from './column-view.ts';
import {
  type PopulateTree,
  projectedSchema,
  projectedTree,
  type RowConditions,
  requestedKey,
} from './projection.ts';

export interface RenderContext {
  readonly parameters: Parameters;
  /** For fields that are shown in some records only. */
  readonly conditions: RowConditions | undefined;
  /** Makes table aliases unique within the statement. */
  nextAlias(): string;
}

export function createRenderContext(
  parameters: Parameters,
  conditions?: RowConditions,
): RenderContext {
  let count = 0;
  return { parameters, conditions, nextAlias: () => `t${++count}` };
}

/** The columns of a record, named as on the wire. */
export function selectList(
  schema: CompiledSchema,
  alias: string,
  populate: PopulateTree,
  context: RenderContext,
): string {
  const dropped = nestedDrops(schema.droppedFields);
  const items = [`${alias}."_id"`];
  for (const [name, field] of schema.tree.fields) {
    const rule = field.hidden ? schema.fieldVisibility?.conditional.get(name) : undefined;
    if (field.hidden && !rule) continue;
    const column = `${alias}.${identifier(name)}`;
    const branch = populate.get(name);
    const value = branch
      ? populated(column, branch, context)
      : columnView(schema, field, column, dropped.get(name) ?? []);
    items.push(`${value} as ${identifier(name)}`);
    if (rule)
      items.push(
        `${context.conditions?.test(schema, rule, { alias, parameters: context.parameters }) ?? 'false'} as ${visibilityColumn(name)}`,
      );
  }
  return [...items, ...automaticColumns(schema, alias)].join(', ');
}

/** The columns of `only` alone, each once and in that order (`ReadOptions.exactly`). */
export function requestedList(
  schema: CompiledSchema,
  { alias, only }: { readonly alias: string; readonly only: SelectedFields },
  populate: PopulateTree,
  context: RenderContext,
): string {
  const columns = [...only].map(([name, inner]) => {
    const value =
      name === '__typename'
        ? literalOf(only.typeName ?? '', 'text')
        : requestedColumn(schema, { alias, name, inner }, populate.get(name), context);
    return `${value} as ${identifier(name)}`;
  });
  return columns.join(', ');
}

interface RequestedColumn {
  readonly alias: string;
  readonly name: string;
  /** What is requested of the record that a relation leads to. */
  readonly inner: SelectedFields;
}

function requestedColumn(
  schema: CompiledSchema,
  { alias, name, inner }: RequestedColumn,
  branch: Branch | undefined,
  context: RenderContext,
): string {
  const column = `${alias}.${identifier(name)}`;
  if (name === '_id') return column;
  const field = schema.tree.fields.get(name);
  if (!field) return isTime(schema, name) ? instantOf(schema, column) : 'null';
  const relation = inner.size > 0 ? schema.relations.get(name) : undefined;
  const value = relation
    ? requestedRelation(column, { inner, many: relation.many }, branch, context)
    : columnView(schema, field, column, nestedDrops(schema.droppedFields).get(name) ?? []);
  if (!field.hidden) return value;
  const rule = schema.fieldVisibility?.conditional.get(name);
  const row = { alias, parameters: context.parameters };
  const test = rule && context.conditions?.test(schema, rule, row);
  return test ? `case when ${test} then ${value} end` : 'null';
}

const isTime = ({ modelOptions }: CompiledSchema, name: string): boolean =>
  modelOptions.timestamps && (name === 'createdAt' || name === 'updatedAt');

/** The related record or records; of one that cannot be read, the id, and null for what else is requested. */
function requestedRelation(
  column: string,
  { inner, many }: { readonly inner: SelectedFields; readonly many: boolean },
  branch: Branch | undefined,
  context: RenderContext,
): string {
  const record = (id: string): string => {
    const known = new Map([
      ['_id', `${id}::text`],
      ['__typename', literalOf(inner.typeName ?? '', 'text')],
    ]);
    const alone = [...inner.keys()].map(
      (name) => `${known.get(name) ?? 'null'} as ${identifier(name)}`,
    );
    const unread = `(select row_to_json(u.*) from (select ${alone.join(', ')}) u)`;
    if (!branch) return unread;
    const read = relatedRows(id, branch, context, (alias) =>
      requestedList(branch.target, { alias, only: inner }, branch.children, context),
    );
    return `coalesce((select row_to_json(${read.row}.*) from ${read.rows}), ${unread})`;
  };
  if (!many) return `case when ${column} is not null then ${record(column)} end`;
  const list = context.nextAlias();
  return relatedList(column, list, record(`${list}.id`));
}

/** What `json` is for each id `list.id` of a column, in their order. */
function relatedList(column: string, list: string, json: string): string {
  const records = `select ${json} as t from unnest(${column}) with ordinality ${list}(id, n) order by ${list}.n`;
  return `case when ${column} is not null then (${boundedList(records)}) end`;
}

function automaticColumns(schema: CompiledSchema, alias: string): readonly string[] {
  const times = schema.modelOptions.timestamps ? ['createdAt', 'updatedAt'] : [];
  const columns = times.map((name) => `${instantOf(schema, `${alias}."${name}"`)} as "${name}"`);
  // How often somebody else's record changed is nobody's business.
  return schema.isPublicView ? columns : [...columns, `${alias}."__v"`];
}

/** The column that says whether a conditional field is shown; no field has such a name. */
const visibilityColumn = (name: string): string => identifier(`${name}?`);

/**
 * The row `x` of a select list as JSON. `row_to_json` is the fastest of five ways that were measured
 * (docs/decisions/011-record-statements.md); it cannot leave a field out of some records, so where that is asked for the text is put together.
 */
export function recordJson(
  { tree, fieldVisibility, modelOptions }: CompiledSchema,
  x: string,
): string {
  // With a star: a field may have the name of the row.
  if (!fieldVisibility?.conditional.size) return `row_to_json(${x}.*)`;
  const member = (name: string): string =>
    `${literalOf(`"${name}":`, 'text')} || coalesce(to_json(${x}.${identifier(name)})::text, 'null')`;
  const fields = [...tree.fields].flatMap(([name, { hidden }]) => {
    if (fieldVisibility.conditional.has(name))
      return [`case when ${x}.${visibilityColumn(name)} then ${member(name)} end`];
    return hidden ? [] : [member(name)];
  });
  const times = modelOptions.timestamps ? ['createdAt', 'updatedAt'].map(member) : [];
  return `('{' || concat_ws(',', ${[member('_id'), ...fields, ...times, member('__v')].join(', ')}) || '}')::json`;
}

type Branch = NonNullable<ReturnType<PopulateTree['get']>>;

/** The related record or records; an id that leads to nothing readable stays an id. */
function populated(column: string, branch: Branch, context: RenderContext): string {
  if (!branch.many)
    return `coalesce(${relatedRecord(column, branch, context)}, to_json(${column}::text))`;
  const list = context.nextAlias();
  const record = relatedRecord(`${list}.id`, branch, context);
  return relatedList(column, list, `coalesce(${record}, to_json(${list}.id))`);
}

function relatedRecord(id: string, branch: Branch, context: RenderContext): string {
  const { target, children } = branch;
  const { row, rows } = relatedRows(id, branch, context, (alias) =>
    selectList(target, alias, children, context),
  );
  return `(select ${recordJson(target, row)} from ${rows})`;
}

/** The columns `list` of the related record, if it may be read, as the row `row` of `rows`. */
function relatedRows(
  id: string,
  { target, predicate }: Branch,
  context: RenderContext,
  list: (alias: string) => string,
): { readonly row: string; readonly rows: string } {
  const alias = context.nextAlias();
  const columns = list(alias);
  const where = `${idTest(target, alias, id)}${restriction(predicate, alias, context.parameters, 'row')}`;
  const row = `${alias}_r`;
  return { row, rows: `(select ${columns} from ${target.rows} ${alias} where ${where}) ${row}` };
}

export interface Rendering {
  /** What of it decides the text of a statement. */
  readonly key: string;
  /** The row `x` of these columns as JSON. */
  readonly json: string;
  columns(alias: string, context: RenderContext): string;
}

/** How the records of a list are rendered: whole, without fields that nobody looks at, or exactly as requested. */
export function renderingOf(
  schema: CompiledSchema,
  { only, exactly }: ReadOptions,
  populate: PopulateTree,
): Rendering {
  if (only && exactly)
    return {
      key: `{${requestedKey(only)}}`,
      json: 'row_to_json(x.*)',
      columns: (alias, context) => requestedList(schema, { alias, only }, populate, context),
    };
  const { viewSchema, key } = projectedSchema(schema, only);
  const tree = projectedTree(populate, only);
  return {
    key: `${key}|${tree.key}`,
    json: recordJson(viewSchema, 'x'),
    columns: (alias, context) => selectList(viewSchema, alias, tree.viewSchema, context),
  };
}
