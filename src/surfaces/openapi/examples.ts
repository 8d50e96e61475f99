/** Values that a schema takes, for documents and for programs that try an API by its description. */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';

/** Schemas may contain themselves. */
const MAX_DEPTH = 8;
const id = '0198a2c4-7d1e-7b3a-9c52-4f6e8d0b1a27';
const moment = '2026-01-31T12:00:00.000Z';
const byFormat: Readonly<Record<string, string>> = {
  uuid: id,
  'date-time': moment,
  date: '2026-01-31',
  email: 'ada@example.com',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
};

/** Tried in this order where a pattern decides. */
const commonTexts = [
  'text',
  id,
  'Text',
  'en',
  '1',
  '123456',
  'text:text',
  '+12025550123',
  '#336699',
  '1234 5678',
  '07:30',
  '👍',
];

/** Values of texts by the ends of their names, where nothing but the name says what they hold. */
const byName: readonly (readonly [RegExp, string])[] = [
  [/(?:^|_)email$|Email$|^to$/, 'ada@example.com'],
  [/password$/i, 'correct horse battery'],
  [/phone(?:Number)?$/i, '+12025550123'],
  [/(?:ur[il]|redirect)$/i, 'https://example.com/'],
  [/code$/i, '123456'],
  [/(?:^id|Id|_id)$/, id],
  [/language|locale/i, 'en'],
];

/**
 * One value of this shape: what it gives as example or default, else the first of its choices, else one of its type
 * within its limits. The same schema always gives the same value. `undefined` where no value can be told, such as for
 * texts with a pattern that no common text fits.
 */
export function exampleOf(schema: JsonSchema, depth = 0): unknown {
  const given = givenExample(schema);
  if (given !== undefined || depth > MAX_DEPTH) return given;
  if (schema.relation !== undefined) return id;
  const [choice] = (schema.anyOf ?? schema.oneOf ?? []).filter(({ type }) => type !== 'null');
  if (choice) return exampleOf(choice, depth + 1);
  if (schema.allOf)
    return Object.assign({}, ...schema.allOf.map((part) => exampleOf(part, depth + 1)));
  const type = typeof schema.type === 'string' ? schema.type : schema.type?.[0];
  switch (type) {
    case 'string':
      return textExample(schema);
    case 'integer':
    case 'number':
      return numberExample(schema);
    case 'boolean':
      return true;
    case 'array':
      return listExample(schema, depth);
    case 'object':
      return objectExample(schema, depth);
    default:
      // Whatever it may be, a text is.
      return type === undefined ? 'text' : undefined;
  }
}

function givenExample(schema: JsonSchema): unknown {
  const { example, examples } = schema as { example?: unknown; examples?: readonly unknown[] };
  return example ?? examples?.[0] ?? schema.const ?? schema.default ?? schema.enum?.[0];
}

interface Limits {
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly minProperties?: number;
  readonly pattern?: string;
}

function textExample(schema: JsonSchema): string | undefined {
  const { minLength = 0, maxLength = Number.MAX_SAFE_INTEGER, pattern } = schema as Limits;
  if (schema.format !== undefined) return byFormat[schema.format];
  if (schema.instant) return moment;
  if (pattern !== undefined) {
    return fittingTexts(pattern).find(({ length }) => length >= minLength && length <= maxLength);
  }
  return 'text'.padEnd(minLength, ' text').slice(0, maxLength);
}

/** By pattern: descriptions are built again and again, and an automaton costs a millisecond. */
const fitting = new LRUCache<string, readonly string[]>({ max: 1_000 });

/** The common texts that fit a pattern. */
function fittingTexts(pattern: string): readonly string[] {
  const known = fitting.get(pattern);
  if (known) return known;
  const texts = commonTexts.filter(matcherOf(pattern));
  fitting.set(pattern, texts);
  return texts;
}

/** In linear time. What RE2 does not take, such as looking ahead, has an example where it is declared. */
function matcherOf(pattern: string): (text: string) => boolean {
  try {
    const automaton = RE2JS.compile(pattern);
    return (text) => automaton.test(text);
  } catch {
    return () => false;
  }
}

function numberExample(schema: JsonSchema): number {
  const { minimum, exclusiveMinimum, maximum } = schema as Limits;
  const min = minimum ?? (exclusiveMinimum === undefined ? undefined : exclusiveMinimum + 1);
  return Math.min(Math.max(1, min ?? 1), maximum ?? Number.MAX_SAFE_INTEGER);
}

function listExample({ items, ...schema }: JsonSchema, depth: number): readonly unknown[] {
  const { minItems = 0 } = schema as Limits;
  if (!items || Array.isArray(items)) return [];
  const item = exampleOf(items as JsonSchema, depth + 1);
  return item === undefined ? [] : Array.from({ length: Math.max(1, minItems) }, () => item);
}

/**
 * Required properties, and those of answers; optional input stays out, so that the example is the least that works. The
 * first ones where it takes some, but no certain ones.
 */
function objectExample(schema: JsonSchema, depth: number): Readonly<Record<string, unknown>> {
  const required = new Set(schema.required);
  const { minProperties = 0 } = schema as Limits;
  const example: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const isLacking = Object.keys(example).length < minProperties - required.size;
    if (!required.has(name) && !property.answered && !isLacking) continue;
    const value = namedExample(name, property) ?? exampleOf(property, depth + 1);
    if (value !== undefined) example[name] = value;
  }
  return example;
}

/** What a text of this name usually holds, if it may. */
function namedExample(name: string, schema: JsonSchema): string | undefined {
  if (schema.type !== 'string' || schema.format !== undefined || schema.instant) return undefined;
  if (givenExample(schema) !== undefined) return undefined;
  const value = byName.find(([ending]) => ending.test(name))?.[1];
  if (value === undefined) return undefined;
  const { minLength = 0, maxLength = Number.MAX_SAFE_INTEGER, pattern } = schema as Limits;
  const isOfLength = value.length >= minLength && value.length <= maxLength;
  return isOfLength && (pattern === undefined || matcherOf(pattern)(value)) ? value : undefined;
}
