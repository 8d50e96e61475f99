/** The parts of an index definition as they are read: fields, directions, methods, options and the condition of a partial index. */
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import type { Condition } from '../../conditions/condition.ts';
import { parseFilter } from '../../conditions/parse.ts';
import type { IndexDefinition, IndexEngine } from '../language/definition.ts';
import { columnType, type Field, type ObjectField } from '../language/field.ts';
import { shortName } from '../language/names.ts';
import { isPlainObject } from '../language/option-context.ts';
import { MAX_INDEX_FIELDS } from '../language/options.ts';
import { checkerOf } from '../language/values.ts';

const MAX_NAME = 63;

const MAX_CONDITIONS = 8;

export type Direction = 'Ascending' | 'Descending' | 'Text';

export type Method = NonNullable<IndexEngine['method']>;

/** Fields that every table has. */
const plain = { required: false, unique: false, hidden: false, indexed: false } as const;

const automatic: ReadonlyMap<string, Field> = new Map<string, Field>([
  ['_id', { kind: 'objectId', ...plain }],
  ['createdAt', { kind: 'date', ...plain }],
  ['updatedAt', { kind: 'date', ...plain }],
]);

export const fieldOf = (tree: ObjectField, name: string): Field | undefined =>
  tree.fields.get(name) ?? automatic.get(name);

/** Spellings of directions, by what they are when written in lower case. */
export const directions: ReadonlyMap<string, Direction> = new Map<string, Direction>([
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
const foreignTypes: ReadonlySet<string> = new Set([
  '2d',
  '2dsphere',
  'geohaystack',
  'gist',
  'spgist',
  'rtree',
  'fulltext',
  'spatial',
]);

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

export interface Reading {
  readonly definition: IndexDefinition;
  readonly tree: ObjectField;
  readonly place: string;
  readonly problems: Problem[];
}

export const report = (
  { problems, place }: Reading,
  path: string,
  rule: string,
  message: string,
): undefined => {
  problems.push({ path: path === '' ? place : `${place}.${path}`, rule, message });
};

export function readFields(reading: Reading): readonly string[] {
  const { definition, tree } = reading;
  const { fields } = definition;
  if (fields.length === 0 || fields.length > MAX_INDEX_FIELDS)
    report(reading, 'fields', 'count', `must name 1 to ${MAX_INDEX_FIELDS} fields`);
  for (const [index, name] of fields.entries()) {
    const field = fieldOf(tree, name);
    if (!field)
      report(
        reading,
        `fields.${index}`,
        'field',
        `there is no field "${shortName(name)}"; only top-level fields can be indexed`,
      );
    else if (field.kind === 'vector')
      report(reading, `fields.${index}`, 'type', 'a Vector has no index of this kind');
    if (fields.indexOf(name) < index)
      report(reading, `fields.${index}`, 'unique', `"${shortName(name)}" is there twice`);
  }
  return fields;
}

interface ReadTypes {
  readonly directions: readonly Direction[];
  readonly method: Method | undefined;
  readonly foreign: string | undefined;
}

export function readTypes(reading: Reading): ReadTypes {
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
    else if (foreignTypes.has(key))
      foreign ??= `the type ${shortName(String(type))} does not exist here`;
    else
      report(
        reading,
        `types.${index}`,
        'type',
        `must be Ascending, Descending or Text, or one of ${[...methods.values()].join(', ')}`,
      );
  }
  if (found.length > 0 && found.length !== fields.length)
    report(reading, 'types', 'count', 'must have one entry per field');
  return { directions: found, method, foreign };
}

/** Whether it is unique. Options that would mean something that is not done are refused. */
export function readOptions(reading: Reading): boolean {
  const options = reading.definition.options ?? {};
  for (const key of Object.keys(options)) {
    if (!idleOptions.has(key))
      report(reading, `options.${shortName(key)}`, 'option', 'is not an option of an index here');
  }
  const { name, unique } = options;
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > MAX_NAME))
    report(reading, 'options.name', 'name', `must be text of 1 to ${MAX_NAME} characters`);
  if (unique !== undefined && typeof unique !== 'boolean')
    report(reading, 'options.unique', 'type', 'must be true or false');
  return unique === true;
}

/** The condition of a partial index as SQL, made of names of fields and literals of checked values. */
export function readCondition(reading: Reading): string | undefined {
  const { engine, options } = reading.definition;
  const written = engine?.where ?? options?.where;
  if (written === undefined) return undefined;
  if (!isPlainObject(written))
    return report(reading, 'engine.where', 'type', 'must be an object of fields and values');
  const entries = Object.entries(written);
  if (entries.length === 0 || entries.length > MAX_CONDITIONS)
    return report(reading, 'engine.where', 'count', `must have 1 to ${MAX_CONDITIONS} conditions`);
  return entries
    .map(([name, value]) => conditionOn(reading, name, value))
    .sort()
    .join(' and ');
}

export const scalars: ReadonlySet<Field['kind']> = new Set([
  'string',
  'number',
  'boolean',
  'date',
  'objectId',
  'relation',
]);

/** A partial index takes the part of the filter language that PostgreSQL can compare with it: a value, null, or whether there is one. */
function conditionOn(reading: Reading, name: string, value: unknown): string | undefined {
  const place = `engine.where.${shortName(name)}`;
  const field = fieldOf(reading.tree, name);
  if (!field) return report(reading, place, 'field', 'there is no such field');
  const column = identifier(name);
  const condition = readTest(name, value);
  const isThere = condition?.kind !== 'not';
  const leaf = condition?.kind === 'not' ? condition.of : condition;
  if (leaf?.kind === 'test' && leaf.test.kind === 'exists')
    return `${column} is ${isThere ? 'not null' : 'null'}`;
  const operand = leaf?.kind === 'test' && leaf.test.kind === 'equal' ? leaf.test.right : undefined;
  if (!isThere || operand?.kind !== 'literal' || isPlainObject(operand.value))
    return report(
      reading,
      place,
      'operator',
      'takes a value, null, or {"$exists": true} and {"$exists": false}',
    );
  if (operand.value === null) return `${column} is null`;
  if (!scalars.has(field.kind))
    return report(reading, place, 'type', 'a value can only be asked of a single value');
  const problems: Problem[] = [];
  const checked = checkerOf(field)(operand.value, `${reading.place}.${place}`, problems);
  reading.problems.push(...problems);
  return problems.length > 0 ? undefined : `${column} = ${literalOf(checked, columnType(field))}`;
}

/** `undefined`: not of the filter language. */
function readTest(name: string, value: unknown): Condition | undefined {
  try {
    return parseFilter({ [name]: value });
  } catch (error) {
    if (error instanceof PenstockError) return undefined;
    throw error;
  }
}
