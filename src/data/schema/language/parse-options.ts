/** The options of a field: checked against their shapes (field-language.ts), then against each other. */
import { Compile, type Validator } from 'typebox/compile';
import { isId } from '../../../kernel/ids.ts';
import { type JsonSchema, jsonSchema } from '../../../kernel/operations/json-schema.ts';
import { problemsOf } from '../../../kernel/operations/problems.ts';
import { nearestName } from '../../../kernel/operations/unknown-input.ts';
import {
  type Field,
  type FieldAccess,
  type NumberField,
  type RelationField,
  readAccess,
  type StringField,
} from './field.ts';
import {
  type FieldOptionValues,
  type FieldRules,
  type FieldTypeName,
  type KindName,
  shapeOf,
} from './field-language.ts';
import { isNameLike, shortName } from './names.ts';
import { isPlainObject, type OptionContext, readDefault } from './option-context.ts';
import { compilePattern } from './pattern/compile.ts';
import { PatternError } from './pattern/syntax.ts';
import { MAX_ITEMS } from './values.ts';

/** A b-tree entry has a size limit in PostgreSQL; text in an index stays safely below it. */
export const MAX_INDEXED_TEXT = 600;

type Common = Pick<
  Field,
  'required' | 'unique' | 'hidden' | 'indexed' | 'unindexed' | 'description' | 'message' | 'access'
> & {
  minItems?: number;
  maxItems?: number;
};

const validators = new Map<
  KindName,
  { readonly shape: JsonSchema; readonly validator: Validator }
>();

/** Compiled at first use: most starts meet few kinds. */
function validatorOf(kind: KindName) {
  const known = validators.get(kind);
  if (known) return known;
  const shape = shapeOf(kind);
  const made = { shape: jsonSchema(shape), validator: Compile(shape) };
  validators.set(kind, made);
  return made;
}

/**
 * The context with the options that fit their shapes (field-language.ts); the others are reported and
 * left out, so that the checks after this one meet only values of the right type.
 */
export function fittingOptions(context: OptionContext, kind: KindName): OptionContext {
  const { options, path, report } = context;
  const { shape, validator } = validatorOf(kind);
  if (validator.Check(options)) return context;
  const what = kind === 'object' ? 'nested fields' : kind;
  const problems = problemsOf(shape, validator.Errors(options), '');
  const unfit = new Set<string>();
  for (const problem of problems) {
    const [key = ''] = problem.path.split('.');
    unfit.add(key);
    const place = `${path}.${shortName(problem.path)}`;
    if (problem.rule !== 'unknown') report(place, problem.rule, problem.message);
    else if (problem.path === key)
      report(place, 'option', `is not an option of ${what}${advice(shape, key)}`);
    else
      report(
        place,
        'option',
        key === 'validate' ? `is not a rule of ${what}` : 'is not known here',
      );
  }
  return {
    ...context,
    options: Object.fromEntries(Object.entries(options).filter(([key]) => !unfit.has(key))),
  };
}

/** The option that was probably meant: rules such as `maxLength` stand under `validate`. */
function advice({ properties = {} }: JsonSchema, key: string): string {
  const rules = Object.keys(properties.validate?.properties ?? {});
  if (rules.includes(key)) return `: did you mean validate.${key}?`;
  const nearest = nearestName(key, Object.keys(properties));
  return nearest === undefined ? '' : `: did you mean ${nearest}?`;
}

/** What the options that all kinds share say together. `context` holds fitting ones. */
export function commonOptions(context: OptionContext, kind: KindName): Common {
  const { options } = context as {
    options: FieldOptionValues & { readonly validate?: FieldRules };
  };
  const {
    required: must = false,
    unique: single = false,
    primaryKey = false,
    description,
  } = options;
  const required = must || primaryKey;
  const unique = single || primaryKey;
  checkUnique(context, { required, unique });
  const rules = options.validate ?? {};
  const access = accessOf(context);
  return {
    required,
    unique,
    hidden: options.select === false,
    indexed: checkIndex(context),
    ...(context.options.index === false && { unindexed: true as const }),
    ...(description !== undefined && { description }),
    ...(rules.message !== undefined && { message: rules.message }),
    ...(access && { access }),
    ...(kind === 'array' && itemBounds(context, rules)),
  };
}

function itemBounds(
  { path, report }: OptionContext,
  { minItems, maxItems }: FieldRules,
): Pick<Common, 'minItems' | 'maxItems'> {
  if ((minItems ?? 0) > Math.min(maxItems ?? Number.POSITIVE_INFINITY, MAX_ITEMS))
    report(`${path}.validate`, 'length', 'no list is both long and short enough');
  return {
    ...(minItems !== undefined && { minItems }),
    ...(maxItems !== undefined && { maxItems }),
  };
}

function checkUnique(
  { path, depth, inArray, report }: OptionContext,
  field: { required: boolean; unique: boolean },
): void {
  if (!field.unique) return;
  if (!field.required) report(`${path}.unique`, 'unique', 'a unique field must also be required');
  if (depth > 1 || inArray)
    report(`${path}.unique`, 'unique', 'only top-level fields can be unique');
}

function checkIndex({ options, path, depth, inArray, report }: OptionContext): boolean {
  const { index } = options;
  if (index === undefined || index === false) return false;
  if (depth > 1 || inArray)
    report(`${path}.index`, 'index', 'only top-level fields can be indexed');
  // One that says more than "yes" is read as a definition of its own (index-definition.ts).
  return !isPlainObject(index) || (index.type === undefined && index.options === undefined);
}

/** Fields inside others go with the one that holds them. */
function accessOf({
  options,
  path,
  depth,
  inArray,
  report,
}: OptionContext): FieldAccess | undefined {
  if (options.access === undefined) return undefined;
  if (depth > 1 || inArray)
    return report(`${path}.access`, 'access', 'only top-level fields have access rules');
  return readAccess(options.access, (place, message) =>
    report(`${path}.access${place}`, 'access', message),
  );
}

/** A field with a type name. */
export function readLeaf(written: OptionContext, type: FieldTypeName): Field {
  const context = fittingOptions(written, type);
  return readDefault(context, leafOf(context, type, commonOptions(context, type)));
}

function leafOf(context: OptionContext, type: FieldTypeName, common: Common): Field {
  switch (type) {
    case 'String':
      return stringField(context, common);
    case 'Number':
      return numberField(context, common);
    case 'File':
      return fileField(context, common);
    case 'Relation':
      return relationField(context, common);
    case 'Vector':
      return vectorField(context, common);
    case 'Boolean':
      return { kind: 'boolean', ...common, ...enumOf(context, (v) => typeof v === 'boolean') };
    case 'Date':
      checkSqlType(context, ['TIME', 'DATETIME', 'TIMESTAMP']);
      return {
        kind: 'date',
        ...common,
        ...enumOf(context, (v) => typeof v === 'string' && !Number.isNaN(Date.parse(v))),
      };
    case 'ObjectId':
      return { kind: 'objectId', ...common, ...enumOf(context, isId) };
    default:
      return { kind: 'json', ...common };
  }
}

function enumOf<T>(
  context: OptionContext,
  fits: (value: unknown) => boolean,
): { enum?: readonly T[] } {
  const values = context.options.enum;
  if (values === undefined) return {};
  if (Array.isArray(values) && values.every(fits)) return { enum: values };
  context.report(
    `${context.path}.enum`,
    'enum',
    'must be a list of values of the type of the field',
  );
  return {};
}

/** `VARCHAR(40)` is `VARCHAR`. */
const withoutLength = (type: string): string =>
  type.endsWith(')') && type.includes('(') ? type.slice(0, type.indexOf('(')) : type;

function checkSqlType(context: OptionContext, allowed: readonly string[]): string | undefined {
  const { sqlType } = context.options;
  if (sqlType === undefined) return undefined;
  const name = typeof sqlType === 'string' ? withoutLength(sqlType.toUpperCase()) : '';
  if (allowed.includes(name)) return name;
  return context.report(
    `${context.path}.sqlType`,
    'sqlType',
    `does not fit the type; possible are ${allowed.join(', ')}`,
  );
}

const rulesOf = ({ options }: OptionContext): FieldRules => (options.validate ?? {}) as FieldRules;

function stringField(context: OptionContext, common: Common): StringField {
  checkSqlType(context, ['VARCHAR', 'TEXT', 'CHAR']);
  const { format, length, minLength: min = 0, maxLength: max, pattern: written } = rulesOf(context);
  const pattern = patternOf(context, written);
  const caps = [
    length,
    max,
    common.unique || common.indexed ? MAX_INDEXED_TEXT : undefined,
    pattern?.maxText,
  ];
  const maxLength = Math.min(...caps.map((cap) => cap ?? Number.POSITIVE_INFINITY));
  const minLength = Math.max(length ?? 0, min);
  if (minLength > maxLength)
    context.report(`${context.path}.validate`, 'length', 'no text is both long and short enough');
  return {
    kind: 'string',
    ...common,
    ...(format && { format }),
    ...(minLength > 0 && { minLength }),
    ...(maxLength !== Number.POSITIVE_INFINITY && { maxLength }),
    ...(pattern && { pattern }),
    ...enumOf<string>(context, (v) => typeof v === 'string'),
  };
}

function patternOf(context: OptionContext, pattern: string | undefined) {
  if (pattern === undefined) return undefined;
  const place = `${context.path}.validate.pattern`;
  try {
    return compilePattern(pattern);
  } catch (error) {
    if (error instanceof PatternError) return context.report(place, 'pattern', error.message);
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
  const { integer, min, max, exclusiveMin, exclusiveMax } = rulesOf(context);
  const limits = defined({ min, max, exclusiveMin, exclusiveMax });
  const sqlType = checkSqlType(context, [...numberStorage.keys()]);
  const storage = numberStorage.get(sqlType ?? 'DOUBLE') ?? 'double precision';
  if (isEmptyRange(limits))
    context.report(`${context.path}.validate`, 'range', 'no number is both large and small enough');
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

/** Without what is not given. */
const defined = (limits: Record<string, number | undefined>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(limits).filter((entry): entry is [string, number] => entry[1] !== undefined),
  );

/** True when the rules contradict each other: such a field could never be set. */
function isEmptyRange({ min, max, exclusiveMin, exclusiveMax }: Record<string, number>): boolean {
  const low = Math.max(min ?? Number.NEGATIVE_INFINITY, exclusiveMin ?? Number.NEGATIVE_INFINITY);
  const high = Math.min(max ?? Number.POSITIVE_INFINITY, exclusiveMax ?? Number.POSITIVE_INFINITY);
  return low > high || (low === high && (low === exclusiveMin || high === exclusiveMax));
}

function relationField(context: OptionContext, common: Common): RelationField {
  const { model = '', onDelete } = context.options as FieldOptionValues;
  if (model !== '' && !isNameLike(model))
    context.report(`${context.path}.model`, 'name', 'is not a name that a schema can have');
  // There are no foreign keys for what is inside a column: better refused than silently not done.
  if (onDelete !== undefined && (context.inArray || context.depth > 1))
    context.report(
      `${context.path}.onDelete`,
      'option',
      'is for single relations that are fields of the record itself',
    );
  if (onDelete === 'setNull' && common.required)
    context.report(`${context.path}.onDelete`, 'setNull', 'a required field cannot be set to null');
  if (context.inArray && context.depth > 2)
    context.report(
      context.path,
      'relation',
      'a relation cannot stand inside the elements of a list',
    );
  return { kind: 'relation', ...common, model, onDelete: onDelete ?? 'restrict' };
}

/** Files are records of the schema of that name, which the storage module owns. */
export const FILE_SCHEMA = 'File';

const fileField = (context: OptionContext, common: Common): RelationField =>
  relationField({ ...context, options: { ...context.options, model: FILE_SCHEMA } }, common);

function vectorField(context: OptionContext, common: Common): Field {
  const { dimensions = 1, similarity = 'cosine' } = context.options as FieldOptionValues;
  if (context.depth > 1 || context.inArray)
    context.report(context.path, 'type', 'a Vector is a top-level field');
  return { kind: 'vector', ...common, dimensions, similarity };
}
