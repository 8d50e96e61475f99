/** Values of rules. Which JavaScript form a value has follows from its type, which is known before any value is. */
import { isStorable } from '../../kernel/text.ts';
import { type Address, type Network, readAddress, readNetwork } from './network.ts';
import { readMoment, readSpan } from './time.ts';
import { type RuleType, typeText } from './types.ts';

/** `bigint`: an integer, and the microseconds of a moment or a span. Free JSON and objects stay as they are. */
export type RuleValue =
  | null
  | boolean
  | bigint
  | number
  | string
  | Address
  | Network
  | readonly RuleValue[]
  | ReadonlyMap<string, RuleValue>
  | Json;

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/** Items of one list or map. */
const MAX_ITEMS = 1_000;
/** UTF-16 units of one text. */
const MAX_TEXT = 10_000;

/** A value that does not fit; `path` leads to the part that is wrong. */
export class ValueError extends Error {
  readonly path: string;

  constructor(path: string, message: string) {
    super(message);
    this.path = path;
  }
}

const mismatch = (type: RuleType, path: string): ValueError =>
  new ValueError(path, `must be ${described(type)}`);

function described(type: RuleType): string {
  switch (type.kind) {
    case 'bool':
      return 'true or false';
    case 'int':
      return 'a whole number';
    case 'double':
      return 'a number';
    case 'string':
      return `text of at most ${MAX_TEXT} characters`;
    case 'timestamp':
      return 'a moment such as 2026-01-31T12:00:00Z';
    case 'duration':
      return 'a span such as 1h30m or 90s';
    case 'ip':
      return 'an address such as 192.0.2.1 or 2001:db8::1';
    case 'cidr':
      return 'a network such as 192.0.2.0/24';
    case 'list':
      return `a list of at most ${MAX_ITEMS} items`;
    default:
      return `a ${typeText(type)}`;
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value that came with a request or stands in a tuple. Throws `ValueError`. */
export function readValue(type: RuleType, value: unknown, path: string): RuleValue {
  const found = scalarOf(type, value);
  if (found !== undefined) return found;
  if (type.kind === 'list' && Array.isArray(value) && value.length <= MAX_ITEMS)
    return value.map((item, i) => readValue(type.items, item, `${path}.${i}`));
  if (type.kind === 'map' && isObject(value) && Object.keys(value).length <= MAX_ITEMS) {
    return new Map(
      Object.entries(value).map(([key, item]): [string, RuleValue] => {
        if (!isStorable(key)) throw mismatch(type, path);
        return [key, readValue(type.values, item, `${path}.${key}`)];
      }),
    );
  }
  if (type.kind === 'json' && isJson(value)) return value;
  throw mismatch(type, path);
}

function scalarOf({ kind }: RuleType, value: unknown): RuleValue | undefined {
  if (typeof value === 'string') return textual(kind, value);
  if (kind === 'bool') return typeof value === 'boolean' ? value : undefined;
  if (typeof value !== 'number') return undefined;
  if (kind === 'int') return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  return kind === 'double' && Number.isFinite(value) ? value : undefined;
}

/** Values that are written as text. */
function textual(kind: RuleType['kind'], value: string): RuleValue | undefined {
  switch (kind) {
    case 'string':
      return value.length <= MAX_TEXT && isStorable(value) ? value : undefined;
    case 'timestamp':
      return readMoment(value);
    case 'duration':
      return readSpan(value);
    case 'ip':
      return readAddress(value);
    case 'cidr':
      return readNetwork(value);
    default:
      return undefined;
  }
}

/** Levels of free JSON. */
const MAX_LEVELS = 16;

function isJson(value: unknown, level = 0): value is Json {
  if (value === null || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value === 'string') return value.length <= MAX_TEXT && isStorable(value);
  if (level === MAX_LEVELS) return false;
  if (Array.isArray(value))
    return value.length <= MAX_ITEMS && value.every((item) => isJson(item, level + 1));
  return (
    isObject(value) &&
    Object.entries(value).every(([key, item]) => isStorable(key) && isJson(item, level + 1))
  );
}

/** A value of a record, as it is on the wire: what is not there, or of another type, is null. */
export function storedValue(type: RuleType, value: unknown): RuleValue {
  if (value === undefined || value === null) return null;
  switch (type.kind) {
    case 'list':
      return Array.isArray(value) ? value.map((item) => storedValue(type.items, item)) : null;
    case 'object':
    case 'json':
      return value as Json;
    case 'string':
      return typeof value === 'string' ? value : null;
    default:
      return scalarOf(type, value) ?? null;
  }
}

/** Equality of CEL; numbers of two kinds are compared as PostgreSQL compares them, as doubles. */
export function equal(a: RuleValue, b: RuleValue): boolean {
  if (isPlainNumber(a) && isPlainNumber(b)) return orderOfNumbers(a, b) === 0;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, i) => equal(item, b[i] ?? null));
  if (a instanceof Map && b instanceof Map)
    return (
      a.size === b.size && [...a].every(([key, item]) => b.has(key) && equal(item, b.get(key)))
    );
  if (isObject(a) && isObject(b) && !Array.isArray(b)) {
    const keys = Object.keys(a);
    return (
      keys.length === Object.keys(b).length &&
      keys.every((key) => Object.hasOwn(b, key) && equal(a[key] as RuleValue, b[key] as RuleValue))
    );
  }
  return a === b;
}

const isPlainNumber = (value: RuleValue): value is number | bigint =>
  typeof value === 'number' || typeof value === 'bigint';

/** Negative, zero or positive. Texts are ordered by code points, false comes before true; nothing where there is no order. */
export function order(a: RuleValue, b: RuleValue): number | undefined {
  if (isPlainNumber(a) && isPlainNumber(b)) return orderOfNumbers(a, b);
  if (typeof a === 'string' && typeof b === 'string')
    return Buffer.compare(Buffer.from(a), Buffer.from(b));
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  return undefined;
}

function orderOfNumbers(a: number | bigint, b: number | bigint): number | undefined {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : a === b ? 0 : undefined;
  return orderOfNumbers(Number(a), Number(b));
}
