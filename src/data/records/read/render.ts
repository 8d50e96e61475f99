/**
 * The select list that turns a row into its wire form (spec/database.md 1.1):
 * ISO dates with milliseconds, hidden fields left out, relations as ids or, when
 * populated, as records. PostgreSQL makes the JSON; identifiers come from the schema only.
 */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { SelectedFields } from '../../../kernel/operations/operation-input.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import {
  type ColumnType,
  columnType,
  type Field,
  type ObjectField,
} from '../../schema/language/field.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { ReadOptions } from '../store.ts';
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

/** Every session of the platform has the time zone UTC (kernel/database/connection.ts). */
export const instant = (column: string): string => `to_char(${column}, 'YYYY${withinYear}')`;

const withinYear = '-MM-DD"T"HH24:MI:SS.MS"Z"';

/**
 * An instant of any year, as ISO 8601 has it: our own tables hold the years 1 to 9999, those of others also `+010000-…` and
 * `-000043-…`. PostgreSQL has no year 0: 44 BC is -44 there, and -43 in ISO 8601.
 */
export function anyInstant(column: string): string {
  // What is finer than a millisecond is shown where there is something.
  const digits = `case when date_trunc('milliseconds', ${column}) = ${column} then`;
  const within = `${digits} '${withinYear}' else '${withinYear.replace('MS', 'US')}' end`;
  const year = `extract(year from ${column})`;
  const expanded = `to_char(${year} + case when ${year} < 0 then 1 else 0 end, 'SG000000') || to_char(${column}, ${within})`;
  const usual = `to_char(${column}, 'YYYY' || ${within})`;
  return `case when ${year} between 1 and 9999 then ${usual} when isfinite(${column}) then ${expanded} end`;
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
  const records = `select coalesce(json_agg(${record(`${list}.id`)} order by ${list}.n), '[]'::json)`;
  return `case when ${column} is not null then (${records} from unnest(${column}) with ordinality ${list}(id, n)) end`;
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

/** Paths of dropped nested fields, below their top-level field. */
function nestedDrops(paths: readonly string[]): Map<string, string[][]> {
  const found = new Map<string, string[][]>();
  for (const path of paths) {
    const [top = '', ...rest] = path.split('.');
    if (rest.length === 0) continue;
    found.set(top, [...(found.get(top) ?? []), rest]);
  }
  return found;
}

/** Ids that are no UUIDs are text on the wire, whatever they are stored as. */
const isMappedId = (field: Field): boolean =>
  (field.kind === 'relation' || field.kind === 'objectId') && field.idType !== undefined;

const instantOf = ({ mapping }: CompiledSchema, column: string): string =>
  mapping ? anyInstant(column) : instant(column);

function columnView(
  schema: CompiledSchema,
  field: Field,
  column: string,
  dropped: readonly string[][],
): string {
  if (isMappedId(field)) return `${column}::text`;
  switch (columnType(field)) {
    case 'timestamptz(3)':
    case 'timestamptz':
      return instantOf(schema, column);
    case 'bigint':
    case 'numeric':
      return exactNumber(columnType(field), column);
    case 'jsonb':
      return stripped(column, field, dropped);
    default:
      return column;
  }
}

/** A number beyond what doubles hold exactly is text on the wire. */
export function exactNumber(type: ColumnType, value: string): string {
  const exact =
    type === 'bigint'
      ? `${value} between -9007199254740991 and 9007199254740991`
      : `${value} = ${value}::double precision::numeric`;
  return `case when ${exact} then to_json(${value}) else to_json(${value}::text) end`;
}

/** A jsonb value without the nested fields that are hidden or were dropped. */
function stripped(value: string, field: Field, dropped: readonly string[][]): string {
  if (field.kind === 'array') return strippedElements(value, field.items, dropped);
  if (field.kind !== 'object') return value;
  const out = new Set([
    ...hiddenNames(field),
    ...dropped.filter((path) => path.length === 1).map((path) => path[0] ?? ''),
  ]);
  let expression = out.size === 0 ? value : `(${value} - ${literalOf([...out], 'text[]')})`;
  for (const [name, child] of field.fields) {
    if (out.has(name)) continue;
    const key = literalOf(name, 'text');
    const inner = stripped(
      `(${value} -> ${key})`,
      child,
      dropped.filter((path) => path.length > 1 && path[0] === name).map((path) => path.slice(1)),
    );
    if (inner === `(${value} -> ${key})`) continue;
    expression = `case when jsonb_typeof(${value} -> ${key}) in ('object', 'array') then jsonb_set(${expression}, ${literalOf([name], 'text[]')}, ${inner}) else ${expression} end`;
  }
  return expression === value
    ? value
    : `case when jsonb_typeof(${value}) = 'object' then ${expression} else ${value} end`;
}

function strippedElements(value: string, items: Field, dropped: readonly string[][]): string {
  const inner = stripped('e.value', items, dropped);
  if (inner === 'e.value') return value;
  const elements = `select coalesce(jsonb_agg(${inner} order by e.n), '[]'::jsonb) from jsonb_array_elements(${value}) with ordinality e(value, n)`;
  return `case when jsonb_typeof(${value}) = 'array' then (${elements}) else ${value} end`;
}

const hiddenNames = (field: ObjectField): string[] =>
  [...field.fields].filter(([, child]) => child.hidden).map(([name]) => name);

type Branch = NonNullable<ReturnType<PopulateTree['get']>>;

/** The related record or records; an id that leads to nothing readable stays an id. */
function populated(column: string, branch: Branch, context: RenderContext): string {
  if (!branch.many)
    return `coalesce(${relatedRecord(column, branch, context)}, to_json(${column}::text))`;
  const list = context.nextAlias();
  const record = relatedRecord(`${list}.id`, branch, context);
  const records = `select coalesce(json_agg(coalesce(${record}, to_json(${list}.id)) order by ${list}.n), '[]'::json)`;
  return `case when ${column} is not null then (${records} from unnest(${column}) with ordinality ${list}(id, n)) end`;
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
