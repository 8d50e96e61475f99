/** From validator errors to problems that a person can act on. */

import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { Settings } from 'typebox/system';
import { errors, type PenstockError, type Problem } from '../errors.ts';
import { shortened, storable } from '../text.ts';
import { formatWords } from './formats.ts';
import type { JsonSchema } from './json-schema.ts';

/** Problems in one answer; more than that help nobody. */
const MAX_PROBLEMS = 20;
/** Characters of a path in an answer: names may come from the caller. */
const MAX_PATH = 120;

// The library stops at 8 errors unless told; people want to see all of a form at once.
Settings.Set({ maxErrors: 64 });

/** What the validator reports; shaped like ajv's. */
export interface ValidatorError {
  readonly keyword: string;
  readonly schemaPath: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A 400 that names every problem. */
export function invalidInput(problems: readonly Problem[]): PenstockError {
  const listed = problems
    .slice(0, MAX_PROBLEMS)
    .map((problem) => ({ ...problem, path: shorten(problem.path) }));
  return errors.INVALID_ARGUMENTS({
    message: listed.map((problem) => `${problem.path}: ${problem.message}`).join('; '),
    errors: listed,
  });
}

const shorten = (path: string): string => storable(shortened(path, MAX_PATH));

/** Turns validator errors into problems. `schema` is what was checked; `root` names the value as a whole. */
export function problemsOf(
  schema: JsonSchema,
  found: readonly ValidatorError[],
  root: string,
): readonly Problem[] {
  const problems = tellable(schema, found).flatMap((error) => problemOf(schema, error, root));
  return problems.length > 0 ? problems : [{ path: root, rule: 'valid', message: 'is not valid' }];
}

/** Of a union it is told that none of its forms fits, or, where one of them is of the value's type, what is wrong in that. */
function tellable(schema: JsonSchema, found: readonly ValidatorError[]): readonly ValidatorError[] {
  const unions = found
    .filter(isUnion)
    .map((union) => ({ union, form: formOf(schema, union, found) }));
  return found.filter(
    (error) =>
      error.keyword !== 'boolean' &&
      unions.every(({ union, form }) => {
        if (error === union) return form === undefined;
        return (
          !isInside(error, union, `${union.schemaPath}/${union.keyword}`) ||
          (form !== undefined && isInside(error, union, form))
        );
      }),
  );
}

const isUnion = ({ keyword }: ValidatorError): boolean =>
  keyword === 'anyOf' || keyword === 'oneOf';

/** Whether an error is about the value of the union, or something in it, at this place of the schema. */
const isInside = (
  { schemaPath, instancePath }: ValidatorError,
  union: ValidatorError,
  place: string,
): boolean =>
  `${schemaPath}/`.startsWith(`${place}/`) &&
  `${instancePath}/`.startsWith(`${union.instancePath}/`);

/** The place of the only form of a union that is of the value's type. */
function formOf(
  schema: JsonSchema,
  union: ValidatorError,
  found: readonly ValidatorError[],
): string | undefined {
  const at = resolve(schema, union.schemaPath);
  const [form, ...others] = (at?.anyOf ?? at?.oneOf ?? []).flatMap((_, i) => {
    const place = `${union.schemaPath}/${union.keyword}/${i}`;
    const inside = found.filter((error) => isInside(error, union, place));
    const isOther = inside.some(
      ({ keyword, instancePath }) => keyword === 'type' && instancePath === union.instancePath,
    );
    return inside.length > 0 && !isOther ? [place] : [];
  });
  return others.length === 0 ? form : undefined;
}

function problemOf(schema: JsonSchema, error: ValidatorError, root: string): readonly Problem[] {
  const path = dotted(error.instancePath);
  const each = (names: unknown, rule: string, message: string): readonly Problem[] =>
    ((names ?? []) as readonly string[]).map((name) => ({
      path: path === '' ? name : `${path}.${name}`,
      rule,
      message,
    }));
  if (error.keyword === 'required')
    return each(error.params.requiredProperties, 'required', 'is required');
  if (error.keyword === 'additionalProperties')
    return each(error.params.additionalProperties, 'unknown', 'is not known here');
  return [{ path: path || root, rule: ruleOf(error.keyword), message: messageOf(schema, error) }];
}

const ruleOf = (keyword: string): string =>
  keyword === 'anyOf' || keyword === 'oneOf' || keyword === 'const' ? 'enum' : keyword;

const dotted = (pointer: string): string =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .join('.');

const typeWords: ReadonlyMap<string, string> = new Map([
  ['string', 'a string'],
  ['number', 'a number'],
  ['integer', 'a whole number'],
  ['boolean', 'true or false'],
  ['object', 'an object'],
  ['array', 'an array'],
  ['null', 'null'],
]);

type Sentence = (limit: unknown) => string;

const sentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  ['minLength', (limit) => `must have at least ${limit} characters`],
  ['maxLength', (limit) => `must have at most ${limit} characters`],
  ['minimum', (limit) => `must be at least ${limit}`],
  ['maximum', (limit) => `must be at most ${limit}`],
  ['exclusiveMinimum', (limit) => `must be greater than ${limit}`],
  ['exclusiveMaximum', (limit) => `must be less than ${limit}`],
  ['multipleOf', (limit) => `must be a multiple of ${limit}`],
  ['minItems', (limit) => `must have at least ${limit} items`],
  ['maxItems', (limit) => `must have at most ${limit} items`],
  ['minProperties', (limit) => `must have at least ${limit} keys`],
  ['maxProperties', (limit) => `must have at most ${limit} keys`],
  ['type', (type) => `must be ${wordsFor([type].flat() as string[])}`],
  ['format', (format) => formatWords.get(String(format)) ?? `must have the format ${format}`],
  ['pattern', (pattern) => `must match ${pattern}`],
  ['uniqueItems', () => 'must not repeat items'],
  ['const', (value) => `must be ${JSON.stringify(value)}`],
]);

function messageOf(schema: JsonSchema, error: ValidatorError): string {
  const at = resolve(schema, error.schemaPath);
  if (at?.sentence !== undefined) return at.sentence;
  if (isUnion(error)) return unionMessage(at);
  if (error.keyword === 'enum')
    return oneOf((error.params.allowedValues ?? []) as readonly unknown[]);
  const { params } = error;
  const argument =
    params.limit ??
    params.type ??
    params.format ??
    params.pattern ??
    params.multipleOf ??
    params.allowedValue;
  return sentences.get(error.keyword)?.(argument) ?? error.message;
}

const oneOf = (values: readonly unknown[]): string =>
  `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`;

/** A union of fixed values reads as a list of them, any other as a list of types. */
function unionMessage(schema: JsonSchema | undefined): string {
  const variants = schema?.anyOf ?? schema?.oneOf ?? [];
  if (variants.length > 0 && variants.every((variant) => 'const' in variant))
    return oneOf(variants.map((variant) => variant.const));
  const types = variants.flatMap(typesIn);
  return types.length > 0 ? `must be ${wordsFor(types)}` : 'has none of the allowed forms';
}

/** Of a form that is itself a union: those of its forms. */
const typesIn = ({ type, anyOf, oneOf }: JsonSchema): readonly string[] =>
  type === undefined ? (anyOf ?? oneOf ?? []).flatMap(typesIn) : [type].flat();

const wordsFor = (types: readonly string[]): string =>
  [...new Set(types)].map((type) => typeWords.get(type) ?? type).join(' or ');

/** Follows a schema path such as `#/properties/a/anyOf`. */
function resolve(schema: JsonSchema, path: string): JsonSchema | undefined {
  let at: unknown = schema;
  for (const part of path.split('/').slice(1)) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = Reflect.get(at, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  }
  return at as JsonSchema | undefined;
}

/** Asks what is stored for its shape: answers in words what is wrong with it, or nothing. Compiled at the first use. */
export function storedShape(schema: TSchema): (value: unknown) => string | undefined {
  let validator: Validator | undefined;
  return (value) => {
    validator ??= Compile(schema);
    if (validator.Check(value)) return undefined;
    const [first] = problemsOf(
      schema,
      validator.Errors(value) as readonly ValidatorError[],
      'definition',
    );
    return first ? `${shorten(first.path)}: ${first.message}` : 'is not valid';
  };
}
