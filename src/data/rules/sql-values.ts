/** Values that are known before a statement is made, as parameters of it. */
import type { Expression, Of } from './expression.ts';
import { type Address, addressText, type Network, networkText } from './network.ts';
import { momentTextOf } from './time.ts';
import type { RuleType } from './types.ts';
import type { RuleValue } from './values.ts';

export interface ConstantSql {
  /** Adds a value and answers its placeholder. */
  next(value: unknown): string;
  /** Values that are not known yet are nulls of their type. */
  readonly trial: boolean;
  /** Moments as `timestamptz` instead of microseconds. */
  readonly moments?: boolean;
}

function sqlType(type: RuleType, moments: boolean): string {
  switch (type.kind) {
    case 'bool':
      return 'boolean';
    case 'int':
      return 'bigint';
    case 'double':
      return 'float8';
    case 'timestamp':
      return moments ? 'timestamptz' : 'numeric';
    case 'duration':
      return 'numeric';
    case 'ip':
    case 'cidr':
      return 'inet';
    case 'list':
      return `${sqlType(type.items, moments)}[]`;
    case 'string':
    case 'null':
      return 'text';
    default:
      return 'jsonb';
  }
}

/** The value of an expression without fields; an error and a missing value are null. */
export function constantSql(expression: Expression, context: ConstantSql): string {
  const { moments = false } = context;
  const cast = `::${sqlType(expression.type, moments)}`;
  if (expression.kind !== 'constant' || expression.value === null) return `null${cast}`;
  return `${context.next(parameterOf(expression.value, expression.type, moments))}${cast}`;
}

function parameterOf(value: RuleValue, type: RuleType, moments: boolean): unknown {
  if (value === null) return null;
  switch (type.kind) {
    case 'int':
    case 'duration':
      return String(value);
    case 'timestamp':
      return moments && typeof value === 'bigint' ? momentTextOf(value) : String(value);
    case 'ip':
      return addressText(value as Address);
    case 'cidr':
      return networkText(value as Network);
    case 'list':
      return (value as readonly RuleValue[]).map((item) => parameterOf(item, type.items, moments));
    case 'bool':
    case 'double':
    case 'string':
      return value;
    default:
      return jsonText(value, type);
  }
}

/**
 * One of several values that are known, by a text that PostgreSQL computes: in the text form of their type, which
 * is exact. Null for other texts, and for an error.
 */
export function choiceSql(
  { entries, type }: Of<'choice'>,
  key: string,
  context: ConstantSql,
): string {
  const texts = entries.map(([name, one]) => {
    const value = one.kind === 'constant' ? parameterOf(one.value, one.type, false) : null;
    return `${JSON.stringify(name)}:${value === null ? 'null' : JSON.stringify(String(value))}`;
  });
  return `(${context.next(`{${texts.join(',')}}`)}::jsonb ->> ${key})::${sqlType(type, false)}`;
}

/** As it would stand in a jsonb column: whole numbers as the doubles that they are on the wire. */
export const jsonOf = (expression: Expression): string =>
  expression.kind === 'constant' ? jsonText(expression.value, expression.type) : 'null';

function jsonText(value: RuleValue, type: RuleType): string {
  if (value === null) return 'null';
  if (type.kind === 'list' && Array.isArray(value))
    return `[${value.map((item: RuleValue) => jsonText(item, type.items)).join(',')}]`;
  if (type.kind === 'map' && value instanceof Map) {
    const entries = [...value].map(
      ([key, item]) => `${JSON.stringify(key)}:${jsonText(item, type.values)}`,
    );
    return `{${entries.join(',')}}`;
  }
  if (type.kind === 'timestamp' && typeof value === 'bigint')
    return JSON.stringify(storedMoment(value));
  return JSON.stringify(typeof value === 'bigint' ? Number(value) : value);
}

/** Dates in jsonb have milliseconds. */
const storedMoment = (micros: bigint): string =>
  micros % 1000n === 0n ? `${momentTextOf(micros).slice(0, -4)}Z` : momentTextOf(micros);
