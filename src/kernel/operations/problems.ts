/** From validator errors to problems that a person can act on. */
import { Settings } from 'typebox/system';
import { errors, type PenstockError, type Problem } from '../errors.ts';
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
  const shown = problems.slice(0, MAX_PROBLEMS).map((problem) => ({ ...problem, path: shorten(problem.path) }));
  return errors.INVALID_ARGUMENTS({
    message: shown.map((problem) => `${problem.path}: ${problem.message}`).join('; '),
    errors: shown,
  });
}

const shorten = (path: string): string =>
  (path.length > MAX_PATH ? `${path.slice(0, MAX_PATH)}...` : path).toWellFormed().replaceAll('\0', '');

/** Turns validator errors into problems. `schema` is what was checked; `root` names the value as a whole. */
export function problemsOf(schema: JsonSchema, found: readonly ValidatorError[], root: string): readonly Problem[] {
  const unions = found.filter((error) => error.keyword === 'anyOf' || error.keyword === 'oneOf').map((error) => `${error.schemaPath}/`);
  const own = found.filter((error) => error.keyword !== 'boolean' && !unions.some((union) => error.schemaPath.startsWith(union)));
  const problems = own.flatMap((error) => problemOf(schema, error, root));
  return problems.length > 0 ? problems : [{ path: root, rule: 'valid', message: 'is not valid' }];
}

function problemOf(schema: JsonSchema, error: ValidatorError, root: string): readonly Problem[] {
  const path = dotted(error.instancePath);
  if (error.keyword === 'required') {
    const missing = (error.params.requiredProperties ?? []) as readonly string[];
    return missing.map((name) => ({ path: path === '' ? name : `${path}.${name}`, rule: 'required', message: 'is required' }));
  }
  return [{ path: path || root, rule: ruleOf(error.keyword), message: messageOf(schema, error) }];
}

const ruleOf = (keyword: string): string => (keyword === 'anyOf' || keyword === 'oneOf' || keyword === 'const' ? 'enum' : keyword);

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

const formatWords: ReadonlyMap<string, string> = new Map([
  ['email', 'must be an e-mail address'],
  ['uuid', 'must be a UUID'],
  ['date-time', 'must be an ISO 8601 date and time with an offset'],
  ['date', 'must be a date like 2026-01-31'],
  ['uri', 'must be an absolute URL'],
  ['url', 'must be an absolute URL'],
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
  if (error.keyword === 'anyOf' || error.keyword === 'oneOf') return unionMessage(resolve(schema, error.schemaPath));
  if (error.keyword === 'enum') return oneOf((error.params.allowedValues ?? []) as readonly unknown[]);
  const { params } = error;
  const argument = params.limit ?? params.type ?? params.format ?? params.pattern ?? params.multipleOf ?? params.allowedValue;
  return sentences.get(error.keyword)?.(argument) ?? error.message;
}

const oneOf = (values: readonly unknown[]): string => `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`;

/** A union of fixed values reads as a list of them, any other as a list of types. */
function unionMessage(schema: JsonSchema | undefined): string {
  const variants = schema?.anyOf ?? schema?.oneOf ?? [];
  if (variants.length > 0 && variants.every((variant) => 'const' in variant)) return oneOf(variants.map((variant) => variant.const));
  const types = variants.flatMap((variant) => variant.type ?? []);
  return types.length > 0 ? `must be ${wordsFor(types)}` : 'has none of the allowed forms';
}

const wordsFor = (types: readonly string[]): string => [...new Set(types)].map((type) => typeWords.get(type) ?? type).join(' or ');

/** Follows a schema path such as `#/properties/a/anyOf`. */
function resolve(schema: JsonSchema, path: string): JsonSchema | undefined {
  let at: unknown = schema;
  for (const part of path.split('/').slice(1)) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = Reflect.get(at, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  }
  return at as JsonSchema | undefined;
}
