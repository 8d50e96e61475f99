/**
 * From text to typed values, strictly: path parameters, query strings and
 * headers. Nothing is guessed: a number is canonical numeric text, a boolean is
 * true, false, 1 or 0, and a comma separates only where an array is declared.
 */
import type { TObject } from 'typebox';
import type { Problem } from '../errors.ts';
import { invalidValueProblem, textProblem } from './invalid-value.ts';
import { alternatives, type JsonSchema, jsonSchema, ownDefault, typesOf } from './json-schema.ts';

/** Converts one text; answers a problem as a `Refusal`. */
type Converter = (text: string) => unknown;

class Refusal {
  readonly rule: string;
  readonly message: string;
  constructor(rule: string, message: string) {
    this.rule = rule;
    this.message = message;
  }
}

interface TextField {
  readonly convert: Converter;
  readonly isArray: boolean;
  readonly default: unknown;
}

/** Fields of one place of input (params, query or headers), ready to decode. */
export type TextFields = ReadonlyMap<string, TextField>;

export function textFields(schema: TObject): TextFields {
  const properties = jsonSchema(schema).properties ?? {};
  return new Map(Object.entries(properties).map(([name, property]) => [name, textField(property)]));
}

function textField(schema: JsonSchema): TextField {
  const array = alternatives(schema).find((one) => one.type === 'array' || one.items !== undefined);
  const item = array?.items && !Array.isArray(array.items) ? (array.items as JsonSchema) : {};
  return {
    convert: converterFor(array ? item : schema),
    isArray: array !== undefined,
    default: schema.default,
  };
}

/** Text stays text wherever a string is allowed; otherwise the narrowest declared type decides. */
function converterFor(schema: JsonSchema): Converter {
  const types = typesOf(schema);
  if (types.size === 0 || types.has('string')) return (text) => text;
  if (types.has('object')) return toJson;
  if (types.has('boolean')) return toBoolean;
  if (types.has('number')) return toNumber;
  return types.has('integer') ? toInteger : (text) => text;
}

const canonicalNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;

function toNumber(text: string): unknown {
  const value = canonicalNumber.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value + 0 : new Refusal('type', 'must be a number');
}

function toInteger(text: string): unknown {
  const value = toNumber(text);
  return Number.isSafeInteger(value) ? value : new Refusal('type', 'must be a whole number');
}

function toBoolean(text: string): unknown {
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  return new Refusal('type', 'must be true, false, 1 or 0');
}

function toJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return new Refusal('type', 'must be JSON text');
  }
  const problem = invalidValueProblem(value, '');
  return problem ? new Refusal(problem.rule, problem.message) : value;
}

/** Where decoded values and problems are collected. */
export interface Decoded {
  readonly values: Record<string, unknown>;
  readonly problems: Problem[];
}

function convertInto(decoded: Decoded, name: string, field: TextField, text: string): void {
  const problem = textProblem(text);
  const value = problem ? new Refusal(problem.rule, problem.message) : field.convert(text);
  if (value instanceof Refusal)
    decoded.problems.push({ path: name, rule: value.rule, message: value.message });
  else if (field.isArray) appendItem(decoded.values, name, value);
  else if (name in decoded.values)
    decoded.problems.push({ path: name, rule: 'single', message: 'must be given once' });
  else decoded.values[name] = value;
}

function appendItem(values: Record<string, unknown>, name: string, item: unknown): void {
  const items = values[name];
  if (Array.isArray(items)) items.push(item);
  else values[name] = [item];
}

/** Path parameters, or declared headers: each name has one text, or none. */
export function decodeTexts(
  fields: TextFields,
  texts: Readonly<Record<string, string | readonly string[] | undefined>>,
  problems: Problem[],
): Record<string, unknown> {
  const decoded: Decoded = { values: Object.create(null) as Record<string, unknown>, problems };
  for (const [name, field] of fields) {
    const text = texts[name];
    if (text !== undefined)
      convertInto(decoded, name, field, typeof text === 'string' ? text : text.join(','));
  }
  return decoded.values;
}

/** The part after `?`. Unknown keys are dropped and handed to `onUnknown`. */
export function decodeQuery(
  fields: TextFields,
  query: string,
  problems: Problem[],
  onUnknown: (key: string) => void,
): Record<string, unknown> {
  const decoded: Decoded = { values: Object.create(null) as Record<string, unknown>, problems };
  if (query !== '') {
    for (const pair of query.split('&')) {
      if (pair !== '') decodePair(fields, pair, decoded, onUnknown);
    }
  }
  for (const [name, field] of fields) {
    if (field.default !== undefined && !(name in decoded.values))
      decoded.values[name] = ownDefault(field.default);
  }
  return decoded.values;
}

function decodePair(
  fields: TextFields,
  pair: string,
  decoded: Decoded,
  onUnknown: (key: string) => void,
): void {
  const equals = pair.indexOf('=');
  const key = percentDecode(equals < 0 ? pair : pair.slice(0, equals));
  if (key === undefined) {
    decoded.problems.push(badEncoding('query'));
    return;
  }
  const name = nameOf(key);
  const field = fields.get(name);
  if (field)
    decodeNamed(
      decoded,
      { key, name, text: equals < 0 ? '' : percentDecode(pair.slice(equals + 1)) },
      field,
    );
  else onUnknown(key);
}

function decodeNamed(
  decoded: Decoded,
  pair: { key: string; name: string; text: string | undefined },
  field: TextField,
): void {
  const { key, name, text } = pair;
  if (text === undefined) decoded.problems.push(badEncoding(name));
  else if (key === name || (field.isArray && arrayKey.test(key.slice(name.length))))
    decodeField(decoded, name, field, text);
  else
    decoded.problems.push({
      path: name,
      rule: 'nested',
      message: 'must be a plain value, without brackets in its name',
    });
}

/** What may follow the name of an array: `[]` or `[0]`. */
const arrayKey = /^\[\d{0,4}\]$/;

/** `a` of `a[]` and `a[b]`. */
function nameOf(key: string): string {
  const bracket = key.indexOf('[');
  return bracket > 0 ? key.slice(0, bracket) : key;
}

function decodeField(decoded: Decoded, name: string, field: TextField, text: string): void {
  if (!field.isArray) convertInto(decoded, name, field, text);
  else if (text === '') decoded.values[name] ??= [];
  else for (const item of text.split(',')) convertInto(decoded, name, field, item);
}

const badEncoding = (path: string): Problem => ({
  path,
  rule: 'encoding',
  message: 'is not valid percent-encoding',
});

function percentDecode(text: string): string | undefined {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    return undefined;
  }
}
