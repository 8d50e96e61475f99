/**
 * The select list that turns a row into its wire form (spec/database.md 1.1):
 * ISO dates with milliseconds, hidden fields left out, relations as ids or, when
 * populated, as records. PostgreSQL makes the JSON; identifiers come from the schema only.
 */
import { identifier } from '../database/sql.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { columnType, type Field, type ObjectField } from '../schema/field.ts';
import { literalOf } from '../schema/literal.ts';
import { type Parameters, restriction } from './parameters.ts';
import type { PopulateTree } from './populate.ts';

export interface RenderContext {
  readonly parameters: Parameters;
  /** Makes table aliases unique within the statement. */
  nextAlias(): string;
}

export function createRenderContext(parameters: Parameters): RenderContext {
  let count = 0;
  return { parameters, nextAlias: () => `t${++count}` };
}

/** Every session of the platform has the time zone UTC (kernel/database/connection.ts). */
const instant = (column: string): string => `to_char(${column}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The columns of a record, named as on the wire. */
export function selectList(schema: CompiledSchema, alias: string, populate: PopulateTree, context: RenderContext): string {
  const dropped = nestedDrops(schema.droppedFields);
  const items = [`${alias}."_id"`];
  for (const [name, field] of schema.tree.fields) {
    if (field.hidden) continue;
    const column = `${alias}.${identifier(name)}`;
    const branch = populate.get(name);
    const value = branch ? populated(column, branch, context) : plainValue(field, column, dropped.get(name) ?? []);
    items.push(`${value} as ${identifier(name)}`);
  }
  if (schema.modelOptions.timestamps) {
    for (const name of ['createdAt', 'updatedAt']) items.push(`${instant(`${alias}."${name}"`)} as "${name}"`);
  }
  items.push(`${alias}."__v"`);
  return items.join(', ');
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

function plainValue(field: Field, column: string, dropped: readonly string[][]): string {
  switch (columnType(field)) {
    case 'timestamptz(3)':
      return instant(column);
    case 'bigint':
      return `case when ${column} between -9007199254740991 and 9007199254740991 then to_json(${column}) else to_json(${column}::text) end`;
    case 'numeric':
      return `case when ${column} = ${column}::double precision::numeric then to_json(${column}) else to_json(${column}::text) end`;
    case 'jsonb':
      return stripped(column, field, dropped);
    default:
      return column;
  }
}

/** A jsonb value without the nested fields that are hidden or were dropped. */
function stripped(value: string, field: Field, dropped: readonly string[][]): string {
  if (field.kind === 'array') return strippedElements(value, field.items, dropped);
  if (field.kind !== 'object') return value;
  const out = new Set([...hiddenNames(field), ...dropped.filter((path) => path.length === 1).map((path) => path[0] ?? '')]);
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
  return expression === value ? value : `case when jsonb_typeof(${value}) = 'object' then ${expression} else ${value} end`;
}

function strippedElements(value: string, items: Field, dropped: readonly string[][]): string {
  const inner = stripped('e.value', items, dropped);
  if (inner === 'e.value') return value;
  const elements = `select coalesce(jsonb_agg(${inner} order by e.n), '[]'::jsonb) from jsonb_array_elements(${value}) with ordinality e(value, n)`;
  return `case when jsonb_typeof(${value}) = 'array' then (${elements}) else ${value} end`;
}

const hiddenNames = (field: ObjectField): string[] => [...field.fields].filter(([, child]) => child.hidden).map(([name]) => name);

type Branch = NonNullable<ReturnType<PopulateTree['get']>>;

/** The related record or records; an id that leads to nothing readable stays an id. */
function populated(column: string, branch: Branch, context: RenderContext): string {
  if (!branch.many) return `coalesce(${relatedRecord(column, branch, context)}, to_json(${column}))`;
  const list = context.nextAlias();
  const record = relatedRecord(`${list}.id`, branch, context);
  const records = `select coalesce(json_agg(coalesce(${record}, to_json(${list}.id)) order by ${list}.n), '[]'::json)`;
  return `case when ${column} is not null then (${records} from unnest(${column}) with ordinality ${list}(id, n)) end`;
}

function relatedRecord(id: string, { target, children, predicate }: Branch, context: RenderContext): string {
  const alias = context.nextAlias();
  const list = selectList(target, alias, children, context);
  const where = `${alias}."_id" = ${id}${restriction(predicate, alias, context.parameters)}`;
  return `(select row_to_json(${alias}_r) from (select ${list} from ${target.table} ${alias} where ${where}) ${alias}_r)`;
}
