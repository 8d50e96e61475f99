/**
 * The one validator of record values (spec/database.md 5.4), used by every
 * writer. A field becomes a function that answers the normalised value and
 * adds what is wrong to a list; unknown keys are left out.
 */

import type { Problem } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import { isStorable } from '../../../kernel/text.ts';
import type {
  ArrayField,
  Field,
  NumberField,
  ObjectField,
  StringField,
  VectorField,
} from './field.ts';
import { isKeyValue, type KeyType, keyHint } from './record-key.ts';

/** Answers the value as it is stored; meaningless when it has added problems. */
export type Check = (value: unknown, path: string, problems: Problem[]) => unknown;

/** Levels of nesting in a value of type JSON. */
const MAX_JSON_DEPTH = 64;
/** Elements of one list. */
export const MAX_ITEMS = 10_000;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Own properties only: a record from outside may have any prototype. */
export const ownValue = (record: Readonly<Record<string, unknown>>, name: string): unknown =>
  Object.hasOwn(record, name) ? record[name] : undefined;

export function checkerOf(field: Field): Check {
  const check = plainChecker(field);
  const { message } = field;
  if (message === undefined) return check;
  return (value, path, problems) => {
    const before = problems.length;
    const result = check(value, path, problems);
    for (let i = before; i < problems.length; i++) {
      const problem = problems[i];
      if (problem?.path === path) problems[i] = { ...problem, message };
    }
    return result;
  };
}

function plainChecker(field: Field): Check {
  switch (field.kind) {
    case 'string':
      return stringChecker(field);
    case 'number':
      return numberChecker(field);
    case 'boolean':
      return withEnum(
        field.enum,
        typed((v) => typeof v === 'boolean', 'must be true or false'),
      );
    case 'date':
      return withEnum(
        field.enum?.map((v) => readDate(v)),
        dateChecker(field.exact ? readExactDate : readDate),
      );
    case 'objectId':
      return withEnum(field.enum, idChecker(field.idType));
    case 'relation':
      return idChecker(field.idType);
    case 'json':
      return checkJson;
    case 'vector':
      return vectorChecker(field);
    case 'array':
      return arrayChecker(field);
    case 'object':
      return objectChecker(field, false);
  }
}

const report = (problems: Problem[], path: string, rule: string, message: string): undefined => {
  problems.push({ path, rule, message });
};

const typed =
  (fits: (value: unknown) => boolean, message: string): Check =>
  (value, path, problems) =>
    fits(value) ? value : report(problems, path, 'type', message);

function withEnum(values: readonly unknown[] | undefined, check: Check): Check {
  if (!values) return check;
  const known = new Set(values);
  return (value, path, problems) => {
    const result = check(value, path, problems);
    if (result === undefined || known.has(result)) return result;
    return report(problems, path, 'enum', `must be one of ${values.slice(0, 20).join(', ')}`);
  };
}

const checkId: Check = (value, path, problems) =>
  isId(value) ? value.toLowerCase() : report(problems, path, 'format', 'must be an id (UUID)');

const idChecker = (type: KeyType = 'uuid'): Check =>
  type === 'uuid'
    ? checkId
    : (value, path, problems) =>
        isKeyValue(type, value) ? value : report(problems, path, 'format', keyHint([type]));

const formats: ReadonlyMap<
  string,
  { readonly fits: (text: string) => boolean; readonly name: string }
> = new Map<string, { fits: (text: string) => boolean; name: string }>([
  [
    'email',
    {
      fits: (text) =>
        text.length <= 254 && /^[^\s@<>"]{1,64}@[^\s@<>".]+(?:\.[^\s@<>".]+)+$/.test(text),
      name: 'an e-mail address',
    },
  ],
  [
    'url',
    {
      fits: (text) => /^https?:\/\//i.test(text) && URL.canParse(text),
      name: 'an http or https URL',
    },
  ],
  ['uuid', { fits: isId, name: 'a UUID' }],
  ['objectId', { fits: (text) => isId(text) || /^[0-9a-f]{24}$/i.test(text), name: 'an id' }],
]);

function stringChecker(field: StringField): Check {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern } = field;
  const format = formats.get(field.format ?? '');
  return withEnum(field.enum, (value, path, problems) => {
    if (typeof value !== 'string') return report(problems, path, 'type', 'must be text');
    if (!isStorable(value))
      return report(problems, path, 'characters', 'holds a NUL or half of a character');
    if (value.length < minLength)
      return report(problems, path, 'minLength', `must have at least ${minLength} characters`);
    if (value.length > maxLength)
      return report(problems, path, 'maxLength', `must have at most ${maxLength} characters`);
    if (format && !format.fits(value))
      return report(problems, path, 'format', `must be ${format.name}`);
    if (pattern && !pattern.matches(value))
      return report(problems, path, 'pattern', `must match ${pattern.source}`);
    return value;
  });
}

const [int64Min, int64Max] = [-9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n];

/** A number that JavaScript cannot hold exactly may come as text, where the column can hold it. */
function readNumber(field: NumberField, value: unknown): number | string | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value !== 'string' || value.length > 120) return undefined;
  if (field.storage === 'numeric') return /^-?\d+(\.\d+)?$/.test(value) ? value : undefined;
  if (field.storage !== 'bigint' || !/^-?\d{1,19}$/.test(value)) return undefined;
  const exact = BigInt(value);
  return exact <= int64Max && exact >= int64Min ? value : undefined;
}

/** Smallest and largest whole number of a column; beyond those of JavaScript it is not known what was meant. */
const wholeRange = (field: NumberField): readonly [number, number] =>
  field.storage === 'integer'
    ? [-2_147_483_648, 2_147_483_647]
    : [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];

function numberChecker(field: NumberField): Check {
  const { min, max, exclusiveMin, exclusiveMax, integer } = field;
  const rules: readonly (readonly [string, (n: number) => boolean, string])[] = [
    ['min', (n: number) => min === undefined || n >= min, `must be at least ${min}`] as const,
    ['max', (n: number) => max === undefined || n <= max, `must be at most ${max}`] as const,
    [
      'exclusiveMin',
      (n: number) => exclusiveMin === undefined || n > exclusiveMin,
      `must be greater than ${exclusiveMin}`,
    ] as const,
    [
      'exclusiveMax',
      (n: number) => exclusiveMax === undefined || n < exclusiveMax,
      `must be less than ${exclusiveMax}`,
    ] as const,
  ].filter(([rule]) => field[rule] !== undefined);
  const [least, most] = wholeRange(field);
  return withEnum(field.enum, (value, path, problems) => {
    const read = readNumber(field, value);
    if (read === undefined) return report(problems, path, 'type', 'must be a number');
    const size = Number(read);
    if (integer && !Number.isInteger(size))
      return report(problems, path, 'integer', 'must be a whole number');
    if (integer && typeof read === 'number' && (read < least || read > most))
      return report(problems, path, 'range', 'is too large');
    for (const [rule, fits, message] of rules)
      if (!fits(size)) return report(problems, path, rule, message);
    return read;
  });
}

const isoDate =
  /^(\d{4})-(\d{2})-(\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** An instant with its offset, or a date (midnight UTC), as ISO 8601 UTC with milliseconds. */
function readDate(value: unknown): string | undefined {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? undefined : checkedYear(value);
  const parts = typeof value === 'string' ? isoDate.exec(value) : null;
  if (!parts || typeof value !== 'string') return undefined;
  const [year, month, day] = [Number(parts[1]), Number(parts[2]), Number(parts[3])];
  // The parser rolls 31 February over into March: a day must exist.
  if (month < 1 || month > 12 || day < 1 || day > daysOf(year, month)) return undefined;
  const instant = new Date(value);
  return Number.isNaN(instant.getTime()) ? undefined : checkedYear(instant);
}

const isLeap = (year: number): boolean => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);

/** `month`: from 1 to 12. */
function daysOf(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function checkedYear(instant: Date): string | undefined {
  const year = instant.getUTCFullYear();
  return year >= 1 && year <= 9999 ? instant.toISOString() : undefined;
}

/** The same with microseconds, where there are any. */
function readExactDate(value: unknown): string | undefined {
  const instant = readDate(value);
  if (instant === undefined || typeof value !== 'string') return instant;
  const beyond = /\.\d{3}(\d{1,3})/.exec(value)?.[1]?.padEnd(3, '0') ?? '000';
  return beyond === '000' ? instant : instant.replace('Z', `${beyond}Z`);
}

const dateChecker =
  (read: typeof readDate): Check =>
  (value, path, problems) =>
    read(value) ?? report(problems, path, 'format', notDate);
const notDate =
  'must be an ISO 8601 instant such as 2026-01-31T12:00:00Z, or a date such as 2026-01-31';

const checkJson: Check = (value, path, problems) => {
  const wrong = jsonProblem(value, 0);
  return wrong ? report(problems, path, 'json', wrong) : value;
};

function jsonProblem(value: unknown, depth: number): string | undefined {
  if (depth > MAX_JSON_DEPTH) return `is nested more than ${MAX_JSON_DEPTH} levels deep`;
  if (typeof value === 'string')
    return isStorable(value) ? undefined : 'holds a NUL or half of a character';
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : 'holds a number that is not finite';
  if (value === null || typeof value === 'boolean') return undefined;
  if (Array.isArray(value)) return firstProblem(value, depth);
  if (!isObject(value)) return 'must be a JSON value';
  return firstProblem(Object.keys(value), depth) ?? firstProblem(Object.values(value), depth);
}

function firstProblem(values: readonly unknown[], depth: number): string | undefined {
  for (const value of values) {
    const wrong = jsonProblem(value, depth + 1);
    if (wrong) return wrong;
  }
  return undefined;
}

function vectorChecker({ dimensions }: VectorField): Check {
  const limit = 3.4e38;
  return (value, path, problems) => {
    if (!Array.isArray(value) || value.length !== dimensions) {
      return report(problems, path, 'dimensions', `must be a list of ${dimensions} numbers`);
    }
    const fits = value.every((n) => typeof n === 'number' && Math.abs(n) <= limit);
    return fits
      ? value.map((n: number) => Math.fround(n))
      : report(problems, path, 'type', 'must hold numbers only');
  };
}

function arrayChecker(field: ArrayField): Check {
  const { minItems = 0, maxItems = MAX_ITEMS } = field;
  const check = checkerOf(field.items);
  return (value, path, problems) => {
    if (!Array.isArray(value)) return report(problems, path, 'type', 'must be a list');
    if (value.length < minItems)
      return report(problems, path, 'minItems', `must have at least ${minItems} elements`);
    if (value.length > maxItems)
      return report(problems, path, 'maxItems', `must have at most ${maxItems} elements`);
    return value.map((item, index) => check(item, `${path}.${index}`, problems));
  };
}

/** What a missing field becomes: its default, the defaults inside it, null, or a problem. */
export function missingValue(field: Field, path: string, problems: Problem[]): unknown {
  if (field.default !== undefined) return field.default;
  if (field.kind === 'object') {
    const inner = defaultsInside(field);
    if (inner) return inner;
  }
  return field.required ? report(problems, path, 'required', 'is required') : null;
}

/** A nested object that nobody gave exists when it has defaults and nothing that only a caller could give. */
function defaultsInside(field: ObjectField): Record<string, unknown> | undefined {
  const problems: Problem[] = [];
  const entries = [...field.fields].map(
    ([name, child]) => [name, missingValue(child, name, problems)] as const,
  );
  return problems.length === 0 && entries.some(([, value]) => value !== null)
    ? Object.fromEntries(entries)
    : undefined;
}

/** Nested objects: whole ones with defaults filled in, or (`partial`) only what is given. */
export function objectChecker(field: ObjectField, partial: boolean): Check {
  const children = [...field.fields].map(
    ([name, child]) =>
      [
        name,
        child,
        child.kind === 'object' && partial ? objectChecker(child, true) : checkerOf(child),
      ] as const,
  );
  return (value, path, problems) => {
    if (!isObject(value)) return report(problems, path, 'type', 'must be an object');
    const result: Record<string, unknown> = {};
    for (const [name, child, check] of children) {
      const given = ownValue(value, name);
      if (given === undefined && partial) continue;
      const place = `${path}.${name}`;
      result[name] = fieldValue(child, check, { given, place, problems });
    }
    return result;
  };
}

interface Given {
  readonly given: unknown;
  readonly place: string;
  readonly problems: Problem[];
}

/** The stored value of a field whose value was given, is null, or is missing. */
export function fieldValue(field: Field, check: Check, { given, place, problems }: Given): unknown {
  if (given === undefined) return missingValue(field, place, problems);
  if (given === null)
    return field.required
      ? report(problems, place, 'required', 'is required and cannot be null')
      : null;
  return check(given, place, problems);
}
