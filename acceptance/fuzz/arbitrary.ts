/** JSON Schema -> fast-check: values that nearly fit, with hostile ones at every depth. */
import fc from 'fast-check';

/** The part of JSON Schema 2020-12 that operations are described with. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: boolean | JsonSchema;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

const nul = String.fromCharCode(0);
const loneSurrogate = String.fromCharCode(0xd800);

export const hostileTexts: readonly string[] = [
  '',
  ' ',
  nul,
  `a${nul}b`,
  loneSurrogate,
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'null',
  'undefined',
  'NaN',
  '-0',
  '1e999',
  "'",
  '"; DROP TABLE "User"; --',
  "' OR '1'='1",
  '$1',
  '%s%n',
  '%00',
  '..',
  '../../../../etc/passwd',
  '{{7*7}}',
  ['$', '{7*7}'].join(''),
  '<script>alert(1)</script>',
  'http://169.254.169.254/',
  '\r\nX-Injected: yes',
  'ＡＤＭＩＮ@ｅｘａｍｐｌｅ.ｃｏｍ',
  'e\u0301'.repeat(50),
  '\u202e\u2066',
  '😀'.repeat(1000),
  'x'.repeat(65_536),
  '9'.repeat(400),
  '00000000-0000-0000-0000-000000000000',
  '2026-02-30T25:61:61Z',
];

const hostileValues: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  -0.5,
  2 ** 31,
  2 ** 53,
  -(2 ** 63),
  1.7976931348623157e308,
  5e-324,
  [],
  {},
  [[[[[[]]]]]],
  [null],
  { toString: null },
  { $gt: '' },
  { constructor: { prototype: { polluted: true } } },
  JSON.parse('{"__proto__": {"polluted": true}}'),
  Array.from({ length: 1001 }, () => 0),
];

const anyJson = fc.jsonValue();

const hostile: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(...hostileTexts),
  fc.constantFrom(...hostileValues),
  anyJson,
);

/** Values that mean something to the platform under test, by the name of the property or parameter that takes them. */
export type Dictionary = ReadonlyMap<string, readonly unknown[]>;

export interface Generation {
  readonly dictionary: Dictionary;
  /** Whether one in eight values, at every depth, is something else than the schema asks for. */
  readonly hostile: boolean;
}

/** Half of the values fit the schema, the other half has hostile parts. */
export const fromSchema = (
  schema: JsonSchema,
  dictionary: Dictionary = new Map(),
  name = '',
): fc.Arbitrary<unknown> =>
  fc.oneof(
    named(schema, name, { dictionary, hostile: false }),
    named(schema, name, { dictionary, hostile: true }),
  );

/** A value for something called `name`: as often as not one that the dictionary knows. */
function named(
  schema: JsonSchema,
  name: string,
  generation: Generation,
  depth = 0,
): fc.Arbitrary<unknown> {
  const value = valueFor(schema, generation, depth);
  const known = generation.dictionary.get(name) ?? [];
  const listed = schema.type === 'array' ? known.map((one) => [one]) : known;
  return listed.length === 0 ? value : fc.oneof(value, fc.constantFrom(...listed));
}

function valueFor(
  schema: JsonSchema,
  generation: Generation,
  depth: number,
): fc.Arbitrary<unknown> {
  const fitting = depth > 5 ? anyJson : fittingValue(schema, generation, depth);
  return generation.hostile
    ? fc.oneof({ weight: 7, arbitrary: fitting }, { weight: 1, arbitrary: hostile })
    : fitting;
}

function fittingValue(
  schema: JsonSchema,
  generation: Generation,
  depth: number,
): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return fc.oneof(...choices.map((choice) => valueFor(choice, generation, depth)));
  if (Array.isArray(schema.type))
    return fc.oneof(...schema.type.map((type) => valueFor({ ...schema, type }, generation, depth)));
  return byType(schema, generation, depth);
}

function byType(schema: JsonSchema, generation: Generation, depth: number): fc.Arbitrary<unknown> {
  switch (schema.type) {
    case 'string':
      return textFor(schema);
    case 'integer':
      return integerFor(schema);
    case 'number':
      return fc.double({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9, noNaN: true });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(valueFor(schema.items ?? {}, generation, depth + 1), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? 4, 4),
      });
    case 'object':
      return objectFor(schema, generation, depth);
    default:
      return anyJson;
  }
}

/** Where the columns behind whole numbers end. */
const edges = [2 ** 31 - 1, 2 ** 31, 2 ** 53 - 1, -(2 ** 31) - 1];

/** One in four at an edge that the schema allows. */
function integerFor({ minimum = -1000, maximum }: JsonSchema): fc.Arbitrary<number> {
  const usual = fc.integer({ min: Math.ceil(minimum), max: Math.floor(maximum ?? 1_000_000) });
  const allowed = edges.filter((edge) => edge >= minimum && edge <= (maximum ?? edge));
  return allowed.length === 0
    ? usual
    : fc.oneof(
        { weight: 3, arbitrary: usual },
        { weight: 1, arbitrary: fc.constantFrom(...allowed) },
      );
}

function textFor(schema: JsonSchema): fc.Arbitrary<string> {
  if (schema.format === 'email') return fc.emailAddress();
  if (schema.format === 'uuid') return fc.uuid();
  if (schema.format === 'date-time')
    return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
  if (schema.pattern) return matching(schema.pattern);
  const minLength = schema.minLength ?? 0;
  return fc.string({
    unit: 'grapheme',
    minLength,
    maxLength: Math.max(minLength, Math.min(schema.maxLength ?? 24, 200)),
  });
}

const knownPatterns = new Map<string, fc.Arbitrary<string>>();

/** Text for a pattern; any text where the generator does not know the pattern's syntax. One is dear to make, so it is kept. */
function matching(pattern: string): fc.Arbitrary<string> {
  const made = knownPatterns.get(pattern) ?? makeMatching(pattern);
  knownPatterns.set(pattern, made);
  return made;
}

function makeMatching(pattern: string): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern));
  } catch {
    return fc.string();
  }
}

function objectFor(
  schema: JsonSchema,
  generation: Generation,
  depth: number,
): fc.Arbitrary<unknown> {
  const properties = Object.entries(schema.properties ?? {}).map(
    ([name, property]) => [name, named(property, name, generation, depth + 1)] as const,
  );
  const requiredKeys = [...(schema.required ?? [])].filter((name) => schema.properties?.[name]);
  const known = fc.record(Object.fromEntries(properties), { requiredKeys, noNullPrototype: true });
  const extra =
    typeof schema.additionalProperties === 'object'
      ? schema.additionalProperties
      : Object.values(schema.patternProperties ?? {})[0];
  if (!extra) return known;
  const plainKeys = matching('^[a-z]{1,8}$');
  const keys = generation.hostile
    ? fc.oneof(
        plainKeys,
        fc.string({ minLength: 1, maxLength: 12 }),
        fc.constantFrom(...hostileTexts),
      )
    : plainKeys;
  const others = fc.dictionary(keys, valueFor(extra, generation, depth + 1), { maxKeys: 4 });
  return fc.tuple(known, others).map(([one, other]) => ({ ...other, ...one }));
}
