/** The options of a field: which ones a kind has, and what their values must be. */
import { isId } from '../ids.ts';
import { type FieldAccess, readAccess } from './access-rule.ts';
import { readDefault } from './defaults.ts';
import type { Field, NumberField, RelationField, StringField } from './field.ts';
import { isNameLike } from './names.ts';
import { compilePattern, PatternFault } from './pattern/compile.ts';
import { MAX_ITEMS } from './values.ts';

export const typeNames: ReadonlySet<string> = new Set(['String', 'Number', 'Boolean', 'Date', 'ObjectId', 'JSON', 'Relation', 'Vector']);

export interface OptionContext {
  readonly options: Record<string, unknown>;
  readonly path: string;
  readonly depth: number;
  readonly inArray: boolean;
  report(path: string, rule: string, message: string): undefined;
}

export const isPlainObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A b-tree entry has a size limit in PostgreSQL; text in an index stays safely below it. */
export const MAX_INDEXED_TEXT = 600;

const everyKind = ['type', 'required', 'select', 'default', 'description', 'validate', 'access'];
const kindOptions: ReadonlyMap<string, readonly string[]> = new Map([
  ['String', ['unique', 'primaryKey', 'enum', 'index', 'sqlType']],
  ['Number', ['unique', 'primaryKey', 'enum', 'index', 'sqlType']],
  ['Boolean', ['unique', 'index', 'enum']],
  ['Date', ['unique', 'primaryKey', 'index', 'sqlType', 'enum']],
  ['ObjectId', ['unique', 'primaryKey', 'index', 'enum']],
  ['JSON', ['index']],
  ['Relation', ['unique', 'model', 'onDelete', 'index']],
  ['Vector', ['dimensions', 'similarity']],
  ['array', ['model', 'index']],
  ['object', ['index']],
]);
const ruleNames: ReadonlyMap<string, readonly string[]> = new Map([
  ['String', ['format', 'minLength', 'maxLength', 'length', 'pattern', 'message']],
  ['Number', ['min', 'max', 'exclusiveMin', 'exclusiveMax', 'integer', 'message']],
  ['array', ['minItems', 'maxItems', 'message']],
]);

type Common = Pick<Field, 'required' | 'unique' | 'hidden' | 'indexed' | 'description' | 'message' | 'access'> & {
  minItems?: number;
  maxItems?: number;
};

/** Checks the options that all kinds share, and that nothing else is there. */
export function checkOptions(context: OptionContext, kind: string): Common {
  const { options, path, report } = context;
  const allowed = [...everyKind, ...(kindOptions.get(kind) ?? [])];
  for (const key of Object.keys(options)) {
    const of = kind === 'object' ? 'nested fields' : kind;
    if (!allowed.includes(key)) report(`${path}.${key.slice(0, 64)}`, 'option', `is not an option of ${of}`);
  }
  const primary = flag(context, 'primaryKey') === true;
  const required = flag(context, 'required') === true || primary;
  const unique = flag(context, 'unique') === true || primary;
  checkUnique(context, { required, unique });
  const { description } = options;
  if (description !== undefined && typeof description !== 'string') report(`${path}.description`, 'type', 'must be text');
  const rules = checkRules(context, kind);
  const access = accessOf(context);
  return {
    required,
    unique,
    hidden: flag(context, 'select') === false,
    indexed: checkIndex(context),
    ...(typeof description === 'string' && { description }),
    ...(typeof rules.message === 'string' && { message: rules.message }),
    ...(access && { access }),
    ...(kind === 'array' && itemBounds(context, rules)),
  };
}

function itemBounds(context: OptionContext, rules: Record<string, unknown>): Pick<Common, 'minItems' | 'maxItems'> {
  const found = bounds(context, rules, ['minItems', 'maxItems']);
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = found;
  if (minItems > Math.min(maxItems, MAX_ITEMS))
    context.report(`${context.path}.validate`, 'length', 'no list is both long and short enough');
  return found;
}

function flag({ options, path, report }: OptionContext, key: string): boolean | undefined {
  const value = options[key];
  return value === undefined || typeof value === 'boolean' ? value : report(`${path}.${key}`, 'type', 'must be true or false');
}

function checkUnique({ path, depth, inArray, report }: OptionContext, field: { required: boolean; unique: boolean }): void {
  if (!field.unique) return;
  if (!field.required) report(`${path}.unique`, 'unique', 'a unique field must also be required');
  if (depth > 1 || inArray) report(`${path}.unique`, 'unique', 'only top-level fields can be unique');
}

function checkIndex({ options, path, depth, inArray, report }: OptionContext): boolean {
  const { index } = options;
  if (index === undefined || index === false) return false;
  if (index !== true && !isPlainObject(index)) report(`${path}.index`, 'type', 'must be true or an object');
  else if (depth > 1 || inArray) report(`${path}.index`, 'index', 'only top-level fields can be indexed');
  // One that says more than "yes" is read as a definition of its own (index-definition.ts).
  return !isPlainObject(index) || (index.type === undefined && index.options === undefined);
}

/** Fields inside others go with the one that holds them. */
function accessOf({ options, path, depth, inArray, report }: OptionContext): FieldAccess | undefined {
  if (options.access === undefined) return undefined;
  if (depth > 1 || inArray) return report(`${path}.access`, 'access', 'only top-level fields have access rules');
  return readAccess(options.access, (place, message) => report(`${path}.access${place}`, 'access', message));
}

function checkRules({ options, path, report }: OptionContext, kind: string): Record<string, unknown> {
  const { validate } = options;
  if (validate === undefined) return {};
  if (!isPlainObject(validate)) {
    report(`${path}.validate`, 'type', 'must be an object of rules');
    return {};
  }
  const known = ruleNames.get(kind) ?? [];
  for (const key of Object.keys(validate)) {
    if (!known.includes(key)) report(`${path}.validate.${key.slice(0, 64)}`, 'option', `is not a rule of ${kind}`);
  }
  if (validate.message !== undefined && typeof validate.message !== 'string') report(`${path}.validate.message`, 'type', 'must be text');
  return validate;
}

/** Numeric rules. Those that count things must be whole and not negative. */
function bounds(context: OptionContext, rules: Record<string, unknown>, names: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name of names) {
    const value = rules[name];
    if (value === undefined) continue;
    const counts = /Length|Items|^length$/.test(name);
    const fits = typeof value === 'number' && Number.isFinite(value) && (!counts || (Number.isInteger(value) && value >= 0));
    if (fits) found[name] = value;
    else context.report(`${context.path}.validate.${name}`, 'type', counts ? 'must be a whole number, not negative' : 'must be a number');
  }
  return found;
}

/** A field with a type name. */
export function readLeaf(context: OptionContext, type: string): Field {
  const common = checkOptions(context, type);
  const field = leafOf(context, type, common);
  return readDefault(context, field);
}

function leafOf(context: OptionContext, type: string, common: Common): Field {
  switch (type) {
    case 'String':
      return stringField(context, common);
    case 'Number':
      return numberField(context, common);
    case 'Relation':
      return relationField(context, common);
    case 'Vector':
      return vectorField(context, common);
    case 'Boolean':
      return { kind: 'boolean', ...common, ...enumOf(context, (v) => typeof v === 'boolean') };
    case 'Date':
      checkSqlType(context, ['TIME', 'DATETIME', 'TIMESTAMP']);
      return { kind: 'date', ...common, ...enumOf(context, (v) => typeof v === 'string' && !Number.isNaN(Date.parse(v))) };
    case 'ObjectId':
      return { kind: 'objectId', ...common, ...enumOf(context, isId) };
    default:
      return { kind: 'json', ...common };
  }
}

function enumOf<T>(context: OptionContext, fits: (value: unknown) => boolean): { enum?: readonly T[] } {
  const values = context.options.enum;
  if (values === undefined) return {};
  if (Array.isArray(values) && values.length > 0 && values.length <= 1000 && values.every(fits)) return { enum: values };
  context.report(`${context.path}.enum`, 'enum', 'must be a list of 1 to 1,000 values of the type of the field');
  return {};
}

/** `VARCHAR(40)` is `VARCHAR`. */
const withoutLength = (type: string): string => (type.endsWith(')') && type.includes('(') ? type.slice(0, type.indexOf('(')) : type);

function checkSqlType(context: OptionContext, allowed: readonly string[]): string | undefined {
  const { sqlType } = context.options;
  if (sqlType === undefined) return undefined;
  const name = typeof sqlType === 'string' ? withoutLength(sqlType.toUpperCase()) : '';
  if (allowed.includes(name)) return name;
  return context.report(`${context.path}.sqlType`, 'sqlType', `does not fit the type; possible are ${allowed.join(', ')}`);
}

function stringField(context: OptionContext, common: Common): StringField {
  const rules = isPlainObject(context.options.validate) ? context.options.validate : {};
  checkSqlType(context, ['VARCHAR', 'TEXT', 'CHAR']);
  const { format } = rules;
  const formats = ['email', 'url', 'uuid', 'objectId'] as const;
  const knownFormat = formats.find((f) => f === format);
  if (format !== undefined && !knownFormat)
    context.report(`${context.path}.validate.format`, 'format', `must be one of ${formats.join(', ')}`);
  const { length, ...limits } = bounds(context, rules, ['minLength', 'maxLength', 'length']);
  const pattern = patternOf(context, rules.pattern);
  const caps = [length, limits.maxLength, common.unique || common.indexed ? MAX_INDEXED_TEXT : undefined, pattern?.maxText];
  const maxLength = Math.min(...caps.map((cap) => cap ?? Number.POSITIVE_INFINITY));
  const minLength = Math.max(length ?? 0, limits.minLength ?? 0);
  if (minLength > maxLength) context.report(`${context.path}.validate`, 'length', 'no text is both long and short enough');
  return {
    kind: 'string',
    ...common,
    ...(knownFormat && { format: knownFormat }),
    ...(minLength > 0 && { minLength }),
    ...(maxLength !== Number.POSITIVE_INFINITY && { maxLength }),
    ...(pattern && { pattern }),
    ...enumOf<string>(context, (v) => typeof v === 'string'),
  };
}

function patternOf(context: OptionContext, pattern: unknown) {
  if (pattern === undefined) return undefined;
  const place = `${context.path}.validate.pattern`;
  if (typeof pattern !== 'string') return context.report(place, 'type', 'must be text');
  try {
    return compilePattern(pattern);
  } catch (error) {
    if (error instanceof PatternFault) return context.report(place, 'pattern', error.message);
    throw error;
  }
}

const numberStorage: ReadonlyMap<string, NumberField['storage']> = new Map([
  ['INT', 'integer'],
  ['BIGINT', 'bigint'],
  ['FLOAT', 'double precision'],
  ['DOUBLE', 'double precision'],
  ['DECIMAL', 'numeric'],
]);

function numberField(context: OptionContext, common: Common): NumberField {
  const rules = isPlainObject(context.options.validate) ? context.options.validate : {};
  const sqlType = checkSqlType(context, [...numberStorage.keys()]);
  const storage = numberStorage.get(sqlType ?? 'DOUBLE') ?? 'double precision';
  const { integer } = rules;
  if (integer !== undefined && typeof integer !== 'boolean')
    context.report(`${context.path}.validate.integer`, 'type', 'must be true or false');
  const limits = bounds(context, rules, ['min', 'max', 'exclusiveMin', 'exclusiveMax']);
  if (isEmptyRange(limits)) context.report(`${context.path}.validate`, 'range', 'no number is both large and small enough');
  return {
    kind: 'number',
    ...common,
    // Inside jsonb there are no column types: the wide ones would lose their meaning there.
    storage: context.depth > 1 || context.inArray ? 'double precision' : storage,
    integer: integer === true || storage === 'integer' || storage === 'bigint',
    ...limits,
    ...enumOf<number>(context, (v) => typeof v === 'number' && Number.isFinite(v)),
  };
}

/** True when the rules contradict each other: such a field could never be set. */
function isEmptyRange({ min, max, exclusiveMin, exclusiveMax }: Record<string, number>): boolean {
  const low = Math.max(min ?? Number.NEGATIVE_INFINITY, exclusiveMin ?? Number.NEGATIVE_INFINITY);
  const high = Math.min(max ?? Number.POSITIVE_INFINITY, exclusiveMax ?? Number.POSITIVE_INFINITY);
  return low > high || (low === high && (low === exclusiveMin || high === exclusiveMax));
}

function relationField(context: OptionContext, common: Common): RelationField {
  const { model, onDelete } = context.options;
  const rules = ['restrict', 'cascade', 'setNull'] as const;
  const rule = onDelete === undefined ? 'restrict' : rules.find((r) => r === onDelete);
  if (typeof model !== 'string' || model === '') {
    context.report(`${context.path}.model`, 'required', 'a relation names the schema it points to');
  } else if (!isNameLike(model)) context.report(`${context.path}.model`, 'name', 'is not a name that a schema can have');
  if (!rule) context.report(`${context.path}.onDelete`, 'enum', `must be one of ${rules.join(', ')}`);
  // There are no foreign keys for what is inside a column: better refused than silently not done.
  if (onDelete !== undefined && (context.inArray || context.depth > 1))
    context.report(`${context.path}.onDelete`, 'option', 'is for single relations that are fields of the record itself');
  if (rule === 'setNull' && common.required)
    context.report(`${context.path}.onDelete`, 'setNull', 'a required field cannot be set to null');
  if (context.inArray && context.depth > 2)
    context.report(context.path, 'relation', 'a relation cannot stand inside the elements of a list');
  return { kind: 'relation', ...common, model: typeof model === 'string' ? model : '', onDelete: rule ?? 'restrict' };
}

function vectorField(context: OptionContext, common: Common): Field {
  const { dimensions, similarity } = context.options;
  const kinds = ['cosine', 'euclidean', 'dotProduct'] as const;
  const kind = similarity === undefined ? 'cosine' : kinds.find((k) => k === similarity);
  const count =
    typeof dimensions === 'number' && Number.isInteger(dimensions) && dimensions > 0 && dimensions <= 16_000 ? dimensions : undefined;
  if (count === undefined) context.report(`${context.path}.dimensions`, 'required', 'must be a whole number from 1 to 16,000');
  if (!kind) context.report(`${context.path}.similarity`, 'enum', `must be one of ${kinds.join(', ')}`);
  if (context.depth > 1 || context.inArray) context.report(context.path, 'type', 'a Vector is a top-level field');
  return { kind: 'vector', ...common, dimensions: count ?? 1, similarity: kind ?? 'cosine' };
}
