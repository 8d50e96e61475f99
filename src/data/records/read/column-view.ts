/** What stands in one column, as SQL of what the wire has for it: times, numbers, and objects without what is hidden. */
import { literalOf } from '../../../kernel/database/literal.ts';
import { instantText } from '../../../kernel/database/sql.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import {
  type ColumnType,
  columnType,
  type Field,
  type ObjectField,
} from '../../schema/language/field.ts';

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

/** Paths of dropped nested fields, below their top-level field. */
export function nestedDrops(paths: readonly string[]): Map<string, string[][]> {
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

export const instantOf = ({ mapping }: CompiledSchema, column: string): string =>
  mapping ? anyInstant(column) : instantText(column);

export function columnView(
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
