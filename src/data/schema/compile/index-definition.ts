/**
 * Indexes as they are declared (spec/database.md 5.13): a portable form (`Ascending`, `Descending`,
 * `Text`), what only PostgreSQL has under `engine`, and the spellings of other engines where they mean
 * the same. Everything is a closed choice; nothing of it is ever SQL text.
 */

import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { Problem } from '../../../kernel/errors.ts';
import type { FieldMap, IndexDefinition, IndexEngine } from '../language/definition.ts';
import { columnType, type Field, type ObjectField } from '../language/field.ts';
import { shown } from '../language/names.ts';
import { isPlainObject } from '../language/option-context.ts';
import { MAX_INDEX_FIELDS } from '../language/options.ts';
import { MAX_INDEXED_TEXT } from '../language/parse-options.ts';
import { checkerOf } from '../language/values.ts';
import type { IndexLayout } from './layout.ts';

const MAX_NAME = 63;
const MAX_CONDITIONS = 8;

type Direction = 'Ascending' | 'Descending' | 'Text';
type Method = NonNullable<IndexEngine['method']>;

/** What a definition means for a table, or why it means nothing. */
export interface ResolvedIndex {
  readonly layout: IndexLayout | undefined;
  readonly problems: readonly Problem[];
  /** It is of another engine: taken and not made. */
  readonly skipped: string | undefined;
}

/** Fields that every table has. */
const plain = { required: false, unique: false, hidden: false, indexed: false } as const;
const automatic: ReadonlyMap<string, Field> = new Map<string, Field>([
  ['_id', { kind: 'objectId', ...plain }],
  ['createdAt', { kind: 'date', ...plain }],
  ['updatedAt', { kind: 'date', ...plain }],
]);

const fieldOf = (tree: ObjectField, name: string): Field | undefined => tree.fields.get(name) ?? automatic.get(name);

/** Spellings of directions, by what they are when written in lower case. */
const directions: ReadonlyMap<string, Direction> = new Map<string, Direction>([
  ['ascending', 'Ascending'],
  ['1', 'Ascending'],
  ['descending', 'Descending'],
  ['-1', 'Descending'],
  ['text', 'Text'],
]);
const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['btree', 'BTREE'],
  ['hash', 'HASH'],
  ['hashed', 'HASH'],
  ['gin', 'GIN'],
  ['brin', 'BRIN'],
]);
/** Types of other engines, and methods for which no field of ours has an operator. */
const foreignTypes: ReadonlySet<string> = new Set(['2d', '2dsphere', 'geohaystack', 'gist', 'spgist', 'rtree', 'fulltext', 'spatial']);

/** Options that change nothing here: indexes are always made beside running writes, and leave out what is null. */
const idleOptions: ReadonlySet<string> = new Set([
  'name',
  'unique',
  'concurrently',
  'background',
  'sparse',
  'using',
  'where',
  'type',
  'fields',
]);

interface Reading {
  readonly definition: IndexDefinition;
  readonly tree: ObjectField;
  readonly place: string;
  readonly problems: Problem[];
}

const report = ({ problems, place }: Reading, path: string, rule: string, message: string): undefined => {
  problems.push({ path: path === '' ? place : `${place}.${path}`, rule, message });
};

/** Reads one definition against the fields of its schema. */
export function resolveIndex(definition: IndexDefinition, tree: ObjectField, place: string): ResolvedIndex {
  const reading: Reading = { definition, tree, place, problems: [] };
  const fields = readFields(reading);
  const types = readTypes(reading);
  if (types.foreign !== undefined) return { layout: undefined, problems: reading.problems, skipped: types.foreign };
  const unique = readOptions(reading);
  const where = readCondition(reading);
  const layout = reading.problems.length > 0 ? undefined : layoutFor(reading, { fields, ...types, unique, where });
  return { layout: reading.problems.length > 0 ? undefined : layout, problems: reading.problems, skipped: undefined };
}

function readFields(reading: Reading): readonly string[] {
  const { definition, tree } = reading;
  const { fields } = definition;
  if (fields.length === 0 || fields.length > MAX_INDEX_FIELDS)
    report(reading, 'fields', 'count', `must name 1 to ${MAX_INDEX_FIELDS} fields`);
  for (const [index, name] of fields.entries()) {
    const field = fieldOf(tree, name);
    if (!field) report(reading, `fields.${index}`, 'field', `there is no field "${shown(name)}"; only top-level fields can be indexed`);
    else if (field.kind === 'vector') report(reading, `fields.${index}`, 'type', 'a Vector has no index of this kind');
    if (fields.indexOf(name) < index) report(reading, `fields.${index}`, 'unique', `"${shown(name)}" is there twice`);
  }
  return fields;
}

interface ReadTypes {
  readonly directions: readonly Direction[];
  readonly method: Method | undefined;
  readonly foreign: string | undefined;
}

function readTypes(reading: Reading): ReadTypes {
  const { types, options, engine, fields } = reading.definition;
  const written = types === undefined ? [] : Array.isArray(types) ? types : [types];
  const found: Direction[] = [];
  let method = engine?.method ?? methods.get(String(options?.using ?? '').toLowerCase());
  let foreign: string | undefined;
  for (const [index, type] of written.entries()) {
    const key = String(type).toLowerCase();
    const direction = directions.get(key);
    if (direction) found.push(direction);
    else if (methods.has(key)) method ??= methods.get(key);
    else if (foreignTypes.has(key)) foreign ??= `the type ${shown(String(type))} does not exist here`;
    else report(reading, `types.${index}`, 'type', `must be Ascending, Descending or Text, or one of ${[...methods.values()].join(', ')}`);
  }
  if (found.length > 0 && found.length !== fields.length) report(reading, 'types', 'count', 'must have one entry per field');
  return { directions: found, method, foreign };
}

/** Whether it is unique. Options that would mean something that is not done are refused. */
function readOptions(reading: Reading): boolean {
  const options = reading.definition.options ?? {};
  for (const key of Object.keys(options)) {
    if (!idleOptions.has(key)) report(reading, `options.${shown(key)}`, 'option', 'is not an option of an index here');
  }
  const { name, unique } = options;
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > MAX_NAME))
    report(reading, 'options.name', 'name', `must be text of 1 to ${MAX_NAME} characters`);
  if (unique !== undefined && typeof unique !== 'boolean') report(reading, 'options.unique', 'type', 'must be true or false');
  return unique === true;
}

/** The condition of a partial index as SQL, made of names of fields and literals of checked values. */
function readCondition(reading: Reading): string | undefined {
  const { engine, options } = reading.definition;
  const written = engine?.where ?? options?.where;
  if (written === undefined) return undefined;
  if (!isPlainObject(written)) return report(reading, 'engine.where', 'type', 'must be an object of fields and values');
  const entries = Object.entries(written);
  if (entries.length === 0 || entries.length > MAX_CONDITIONS)
    return report(reading, 'engine.where', 'count', `must have 1 to ${MAX_CONDITIONS} conditions`);
  return entries
    .map(([name, value]) => conditionOn(reading, name, value))
    .sort()
    .join(' and ');
}

const scalars: ReadonlySet<Field['kind']> = new Set(['string', 'number', 'boolean', 'date', 'objectId', 'relation']);

function conditionOn(reading: Reading, name: string, value: unknown): string | undefined {
  const place = `engine.where.${shown(name)}`;
  const field = fieldOf(reading.tree, name);
  if (!field) return report(reading, place, 'field', 'there is no such field');
  const column = identifier(name);
  if (value === null) return `${column} is null`;
  if (isPlainObject(value)) {
    const { $exists, ...others } = value;
    if (typeof $exists === 'boolean' && Object.keys(others).length === 0) return `${column} is ${$exists ? 'not null' : 'null'}`;
    return report(reading, place, 'operator', 'takes a value, null, or {"$exists": true} and {"$exists": false}');
  }
  if (!scalars.has(field.kind)) return report(reading, place, 'type', 'a value can only be asked of a single value');
  const problems: Problem[] = [];
  const checked = checkerOf(field)(value, `${reading.place}.${place}`, problems);
  reading.problems.push(...problems);
  return problems.length > 0 ? undefined : `${column} = ${literalOf(checked, columnType(field))}`;
}

interface Parts {
  readonly fields: readonly string[];
  readonly directions: readonly Direction[];
  readonly method: Method | undefined;
  readonly unique: boolean;
  readonly where: string | undefined;
}

const byName = { BTREE: 'btree', HASH: 'hash', GIN: 'gin', BRIN: 'brin' } as const;

function layoutFor(reading: Reading, { fields, directions: given, method, unique, where }: Parts): IndexLayout | undefined {
  const kinds = fields.map((name) => fieldOf(reading.tree, name));
  if (given.includes('Text')) return textIndex(reading, fields, { unique, where, method });
  const lists = kinds.filter((field) => field && !scalars.has(field.kind)).length;
  if (lists > 0 && lists < fields.length)
    return report(reading, 'fields', 'type', 'single values and lists or objects cannot share an index');
  const chosen = method ? byName[method] : lists > 0 ? 'gin' : 'btree';
  const descending = fields.filter((_, index) => given[index] === 'Descending');
  const boolean = kinds.some((field) => field?.kind === 'boolean');
  checkMethod(reading, { chosen, lists: lists > 0, unique, directions: descending.length > 0, boolean });
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
function checkMethod(reading: Reading, { chosen, lists, unique, directions, boolean }: MethodUse): void {
  const faults: readonly (readonly [boolean, string, string])[] = [
    [lists && chosen !== 'gin', 'engine.method', 'lists, objects and JSON take GIN'],
    [!lists && chosen === 'gin', 'engine.method', 'GIN is for lists, objects and JSON; use Ascending, or Text for words'],
    [unique && chosen !== 'btree', 'options.unique', 'only BTREE indexes over single values can be unique'],
    [chosen === 'hash' && reading.definition.fields.length > 1, 'fields', 'a HASH index has one field'],
    [directions && chosen !== 'btree', 'types', 'only BTREE indexes have directions'],
    [chosen === 'brin' && boolean, 'fields', 'BRIN is for values with an order'],
  ];
  for (const [broken, path, message] of faults) if (broken) report(reading, path, 'type', message);
}

function textIndex(reading: Reading, fields: readonly string[], { unique, where, method }: Pick<Parts, 'unique' | 'where' | 'method'>) {
  const [name = ''] = fields;
  if (fields.length > 1 || fieldOf(reading.tree, name)?.kind !== 'string')
    return report(reading, 'types', 'type', 'Text takes one String field');
  if (unique) return report(reading, 'options.unique', 'type', 'an index of words cannot be unique');
  if (method && method !== 'GIN') return report(reading, 'engine.method', 'type', 'an index of words is a GIN index');
  return { columns: fields, unique: false, method: 'gin', text: true, ...(where !== undefined && { where }) } as const;
}

/** Indexes that fields ask for with more than `index: true`. */
export function fieldIndexes(fields: FieldMap): readonly IndexDefinition[] {
  return Object.entries(fields).flatMap(([name, input]): IndexDefinition[] => {
    const index = isPlainObject(input) && Object.hasOwn(input, 'type') ? input.index : undefined;
    if (!isPlainObject(index) || (index.type === undefined && index.options === undefined)) return [];
    const { type, options } = index as { type?: IndexDefinition['types']; options?: IndexDefinition['options'] };
    return [{ fields: [name], ...(type !== undefined && { types: type }), ...(options && { options }) }];
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
    if (field?.kind === 'string') fields.set(name, { ...field, maxLength: Math.min(limit, field.maxLength ?? limit) });
  }
  return { ...tree, fields };
}
