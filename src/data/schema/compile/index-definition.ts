/**
 * Indexes as they are declared (spec/database.md 5.13): a portable form (`Ascending`, `Descending`,
 * `Text`), what only PostgreSQL has under `engine`, and the spellings of other engines where they mean
 * the same. Everything is a closed choice; nothing of it is ever SQL text.
 */

import type { Problem } from '../../../kernel/errors.ts';
import type { FieldMap, IndexDefinition } from '../language/definition.ts';
import type { ObjectField } from '../language/field.ts';
import { isPlainObject } from '../language/option-context.ts';
import { MAX_INDEXED_TEXT } from '../language/parse-options.ts';
import {
  type Direction,
  fieldOf,
  type Method,
  type Reading,
  readCondition,
  readFields,
  readOptions,
  readTypes,
  report,
  scalars,
} from './index-reading.ts';
import type { IndexLayout } from './layout.ts';

/** What a definition means for a table, or why it means nothing. */
export interface ResolvedIndex {
  readonly layout: IndexLayout | undefined;
  readonly problems: readonly Problem[];
  /** It is of another engine: taken and not made. */
  readonly skipped: string | undefined;
}

/** Reads one definition against the fields of its schema. */
export function resolveIndex(
  definition: IndexDefinition,
  tree: ObjectField,
  place: string,
): ResolvedIndex {
  const reading: Reading = { definition, tree, place, problems: [] };
  const fields = readFields(reading);
  const types = readTypes(reading);
  if (types.foreign !== undefined)
    return { layout: undefined, problems: reading.problems, skipped: types.foreign };
  const unique = readOptions(reading);
  const where = readCondition(reading);
  const layout =
    reading.problems.length > 0
      ? undefined
      : layoutFor(reading, { fields, ...types, unique, where });
  return {
    layout: reading.problems.length > 0 ? undefined : layout,
    problems: reading.problems,
    skipped: undefined,
  };
}

interface Parts {
  readonly fields: readonly string[];
  readonly directions: readonly Direction[];
  readonly method: Method | undefined;
  readonly unique: boolean;
  readonly where: string | undefined;
}

const byName = { BTREE: 'btree', HASH: 'hash', GIN: 'gin', BRIN: 'brin' } as const;

function layoutFor(
  reading: Reading,
  { fields, directions: given, method, unique, where }: Parts,
): IndexLayout | undefined {
  const kinds = fields.map((name) => fieldOf(reading.tree, name));
  if (given.includes('Text')) return textIndex(reading, fields, { unique, where, method });
  const lists = kinds.filter((field) => field && !scalars.has(field.kind)).length;
  if (lists > 0 && lists < fields.length)
    return report(
      reading,
      'fields',
      'type',
      'single values and lists or objects cannot share an index',
    );
  const chosen = method ? byName[method] : lists > 0 ? 'gin' : 'btree';
  const descending = fields.filter((_, index) => given[index] === 'Descending');
  const boolean = kinds.some((field) => field?.kind === 'boolean');
  checkMethod(reading, {
    chosen,
    lists: lists > 0,
    unique,
    directions: descending.length > 0,
    boolean,
  });
  return {
    columns: fields,
    unique,
    method: chosen,
    ...(descending.length > 0 && { descending }),
    ...(where !== undefined && { where }),
  };
}

interface MethodUse {
  readonly chosen: IndexLayout['method'];
  readonly lists: boolean;
  readonly unique: boolean;
  readonly directions: boolean;
  readonly boolean: boolean;
}

/** What each method of PostgreSQL can do. */
function checkMethod(
  reading: Reading,
  { chosen, lists, unique, directions, boolean }: MethodUse,
): void {
  const checks: readonly (readonly [boolean, string, string])[] = [
    [lists && chosen !== 'gin', 'engine.method', 'lists, objects and JSON take GIN'],
    [
      !lists && chosen === 'gin',
      'engine.method',
      'GIN is for lists, objects and JSON; use Ascending, or Text for words',
    ],
    [
      unique && chosen !== 'btree',
      'options.unique',
      'only BTREE indexes over single values can be unique',
    ],
    [
      chosen === 'hash' && reading.definition.fields.length > 1,
      'fields',
      'a HASH index has one field',
    ],
    [directions && chosen !== 'btree', 'types', 'only BTREE indexes have directions'],
    [chosen === 'brin' && boolean, 'fields', 'BRIN is for values with an order'],
  ];
  for (const [broken, path, message] of checks) if (broken) report(reading, path, 'type', message);
}

function textIndex(
  reading: Reading,
  fields: readonly string[],
  { unique, where, method }: Pick<Parts, 'unique' | 'where' | 'method'>,
) {
  const [name = ''] = fields;
  if (fields.length > 1 || fieldOf(reading.tree, name)?.kind !== 'string')
    return report(reading, 'types', 'type', 'Text takes one String field');
  if (unique)
    return report(reading, 'options.unique', 'type', 'an index of words cannot be unique');
  if (method && method !== 'GIN')
    return report(reading, 'engine.method', 'type', 'an index of words is a GIN index');
  return {
    columns: fields,
    unique: false,
    method: 'gin',
    text: true,
    ...(where !== undefined && { where }),
  } as const;
}

/** Indexes that fields ask for with more than `index: true`. */
export function fieldIndexes(fields: FieldMap): readonly IndexDefinition[] {
  return Object.entries(fields).flatMap(([name, input]): IndexDefinition[] => {
    const index = isPlainObject(input) && Object.hasOwn(input, 'type') ? input.index : undefined;
    if (!isPlainObject(index) || (index.type === undefined && index.options === undefined))
      return [];
    const { type, options } = index as {
      type?: IndexDefinition['types'];
      options?: IndexDefinition['options'];
    };
    return [
      { fields: [name], ...(type !== undefined && { types: type }), ...(options && { options }) },
    ];
  });
}

/**
 * The tree with a bound on texts that stand in an ordered index: its entries have a size limit in
 * PostgreSQL, and a record must not fail for a reason that its author cannot see.
 */
export function boundedText(tree: ObjectField, indexes: readonly IndexLayout[]): ObjectField {
  const limits = new Map<string, number>();
  for (const { columns, method, text } of indexes) {
    const texts = columns.filter((name) => tree.fields.get(name)?.kind === 'string');
    if (text || method !== 'btree' || texts.length === 0) continue;
    const limit = Math.floor(MAX_INDEXED_TEXT / texts.length);
    for (const name of texts) limits.set(name, Math.min(limit, limits.get(name) ?? limit));
  }
  if (limits.size === 0) return tree;
  const fields = new Map(tree.fields);
  for (const [name, limit] of limits) {
    const field = fields.get(name);
    if (field?.kind === 'string')
      fields.set(name, { ...field, maxLength: Math.min(limit, field.maxLength ?? limit) });
  }
  return { ...tree, fields };
}
