/** Fields that were taken out: their data stays, so that they can come back as what they were. */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { DroppedFields } from '../compile/compiled.ts';
import { tableName } from '../compile/layout.ts';
import type { FieldInput, FieldMap } from '../language/definition.ts';
import type { Field } from '../language/field.ts';
import { isPlainObject } from '../language/option-context.ts';
import { historyTable } from '../migrations.ts';
import type { ChangeStep } from './schema-plan.ts';

/** The path is the field, or inside of it. */
export const isWithin = (path: string, field: string): boolean =>
  path === field || path.startsWith(`${field}.`);

/** The dropped path that this one is inside of, if there is one. */
export const droppedAround = (dropped: DroppedFields, path: string): string | undefined =>
  Object.keys(dropped).find((other) => other !== path && isWithin(path, other));

/** What a path is written as in a field map, looked for through lists and nested fields. */
export function definitionAt(fields: FieldMap, path: string): FieldInput | undefined {
  const [name = '', ...rest] = path.split('.');
  const input = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (input === undefined || rest.length === 0) return input;
  const inner = innerMap(input);
  return inner && definitionAt(inner, rest.join('.'));
}

/** A field map with a definition put in at a path. Answers `undefined` when nothing leads there. */
export function withDefinitionAt(
  fields: FieldMap,
  path: string,
  definition: FieldInput,
): FieldMap | undefined {
  const [name = '', ...rest] = path.split('.');
  if (rest.length === 0) return { ...fields, [name]: definition };
  const input = Object.hasOwn(fields, name) ? fields[name] : undefined;
  const inner = input === undefined ? undefined : innerMap(input);
  const changed = inner && withDefinitionAt(inner, rest.join('.'), definition);
  return changed && input !== undefined
    ? { ...fields, [name]: withInnerMap(input, changed) }
    : undefined;
}

/** A field map without what stands at a path. Answers `undefined` when nothing does. */
export function withoutDefinitionAt(fields: FieldMap, path: string): FieldMap | undefined {
  const [name = '', ...rest] = path.split('.');
  const input = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (input === undefined) return undefined;
  if (rest.length === 0)
    return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== name));
  const inner = innerMap(input);
  const changed = inner && withoutDefinitionAt(inner, rest.join('.'));
  return changed ? { ...fields, [name]: withInnerMap(input, changed) } : undefined;
}

/** The nested fields that an input holds, by itself, as `type`, or as the element of a list. */
function innerMap(input: FieldInput): FieldMap | undefined {
  if (Array.isArray(input)) return innerMap(input[0] as FieldInput);
  if (!isPlainObject(input)) return undefined;
  if (!Object.hasOwn(input, 'type')) return input as FieldMap;
  const { type } = input;
  return typeof type === 'string' ? undefined : innerMap(type as FieldInput);
}

function withInnerMap(input: FieldInput, inner: FieldMap): FieldInput {
  if (Array.isArray(input)) return [withInnerMap(input[0] as FieldInput, inner)];
  if (isPlainObject(input) && Object.hasOwn(input, 'type')) {
    return { ...input, type: withInnerMap(input.type as FieldInput, inner) } as FieldInput;
  }
  return inner;
}

/** Destroys the data of a nested field. `top`: the field of its column. */
export function purgeNested(schema: string, path: string, top: Field): ChangeStep {
  const [column = '', ...rest] = path.split('.');
  const name = identifier(column);
  return {
    schema,
    phase: 2,
    statement: `update ${tableName(schema)} set ${name} = ${withoutPath(name, top, rest)} where ${name} is not null`,
    summary: `The data of ${path} is destroyed`,
    lock: 'ROW EXCLUSIVE',
    destructive: true,
    touchesRows: true,
  };
}

/** The same for what earlier versions of records know. */
export function purgeNestedHistory(schema: string, path: string, top: Field): ChangeStep {
  const [column = '', ...rest] = path.split('.');
  const value = `(data -> ${literalOf(column, 'text')})`;
  const set = `data = jsonb_set(data, ${literalOf([column], 'text[]')}, ${withoutPath(value, top, rest)})`;
  return {
    schema,
    phase: 2,
    statement: `update ${historyTable} set ${set} where schema = ${literalOf(schema, 'text')} and ${value} is not null`,
    summary: `Earlier versions of records lose ${path}`,
    lock: 'none',
    destructive: true,
  };
}

/** A jsonb expression without a path in it. */
function withoutPath(value: string, field: Field, path: readonly string[]): string {
  if (field.kind === 'array') {
    const element = `e${path.length}_${nesting(field)}`;
    const inner = withoutPath(`${element}.v`, field.items, path);
    const list = `select coalesce(jsonb_agg(${inner} order by ${element}.n), '[]'::jsonb) from jsonb_array_elements(${value}) with ordinality ${element}(v, n)`;
    return `case when jsonb_typeof(${value}) = 'array' then (${list}) else ${value} end`;
  }
  const [name = '', ...rest] = path;
  const key = literalOf(name, 'text');
  if (rest.length === 0)
    return `case when jsonb_typeof(${value}) = 'object' then ${value} - ${key} else ${value} end`;
  const child = field.kind === 'object' ? field.fields.get(name) : undefined;
  if (!child) return value;
  const inner = withoutPath(`(${value} -> ${key})`, child, rest);
  return `case when jsonb_typeof(${value} -> ${key}) is not null then jsonb_set(${value}, ${literalOf([name], 'text[]')}, ${inner}) else ${value} end`;
}

const nesting = (field: Field): number => (field.kind === 'array' ? 1 + nesting(field.items) : 0);
