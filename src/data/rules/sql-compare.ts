/** Comparisons in rules, as SQL. Equality is total, so that it can use an index and can be negated. */
import { columnType } from '../schema/language/field.ts';
import type { Expression, Of } from './expression.ts';
import {
  canonicalUuid,
  column,
  constants,
  freeJson,
  isJsonb,
  isList,
  refuse,
  type SqlContext,
} from './sql-storage.ts';
import { constantSql } from './sql-values.ts';
import { isNumber } from './types.ts';

export function equality({ left, right, at }: Of<'equal'>, context: SqlContext): string {
  if (left.type.kind === 'null') return absence(left, right, context);
  if (right.type.kind === 'null') return absence(right, left, context);
  for (const side of [left, right])
    if (side.kind === 'if' && side.row && side.nullable)
      return refuse(side.at, 'an answer of ?: that may be null is compared');
  const [a, b] = sidesOf(left, right, at, context);
  if (left.nullable && right.nullable && left.row && right.row)
    return `(${a} is not distinct from ${b})`;
  if (left.nullable && left.row) return totalEquality(left, right, a, b);
  if (right.nullable && right.row) return totalEquality(right, left, b, a);
  if (left.nullable || right.nullable) return nullConstantEquality(left, right, a, b);
  return `(${a} = ${b})`;
}

/** A constant of free JSON may be null; what it is compared with may not. */
const nullConstantEquality = (left: Expression, right: Expression, a: string, b: string): string =>
  left.nullable
    ? `(case when ${b} is not null then coalesce(${a} = ${b}, false) end)`
    : nullConstantEquality(right, left, b, a);

/** `value` may be null; `other` has a value or is an error. An index of the column serves it. */
function totalEquality(value: Expression, other: Expression, a: string, b: string): string {
  if (!other.row)
    return other.nullable
      ? `(${a} is not distinct from ${b})`
      : `(${a} = ${b} and ${a} is not null)`;
  void value;
  return `(case when ${b} is not null then ${a} = ${b} and ${a} is not null end)`;
}

function absence(nothing: Expression, expression: Expression, context: SqlContext): string {
  if (nothing.row) return refuse(nothing.at, 'null is taken from a list of the record');
  if (expression.nullable) return `(not ${context.write.presence(expression, context)})`;
  return `(case when ${context.write.text(expression, context)} is not null then false end)`;
}

/** Both sides as values of one SQL type. */
function sidesOf(
  left: Expression,
  right: Expression,
  at: number,
  context: SqlContext,
): [string, string] {
  if (left.type.kind === 'list' || right.type.kind === 'list')
    return listSides(left, right, at, context);
  if (left.type.kind === 'json' || right.type.kind === 'json')
    return [freeJson(left, context), freeJson(right, context)];
  const special = columnSides(left, right, context);
  if (special) return special;
  const turned = columnSides(right, left, context);
  if (turned) return [turned[1], turned[0]];
  const [a, b] = [context.write.text(left, context), context.write.text(right, context)];
  if (isNumber(left.type) && left.type.kind !== right.type.kind)
    return [`(${a})::float8`, `(${b})::float8`];
  return [a, b];
}

const isInstant = (type: string): boolean => type.startsWith('timestamptz');

/** A column beside a value that is known, in the type of the column, so that its index serves. */
function columnSides(
  left: Expression,
  right: Expression,
  context: SqlContext,
): [string, string] | undefined {
  if (left.kind !== 'field' || isJsonb(left)) return undefined;
  const value = column(context, left.name);
  const type = columnType(left.field);
  if (right.row) {
    const both = right.kind === 'field' && !isJsonb(right) && columnType(right.field) === type;
    return both && (type === 'uuid' || isInstant(type))
      ? [value, column(context, right.name)]
      : undefined;
  }
  if (isInstant(type) && right.type.kind === 'timestamp')
    return [value, constantSql(right, { ...constants(context), moments: true })];
  if (type === 'uuid' && right.kind === 'constant' && canonicalUuid.test(String(right.value)))
    return [value, `${context.next(right.value)}::uuid`];
  return undefined;
}

function listSides(
  left: Expression,
  right: Expression,
  at: number,
  context: SqlContext,
): [string, string] {
  const stored = left.row ? left : right;
  const other = left.row ? right : left;
  if (!isList(stored) || (other.row && !isList(other)) || (left.row && right.row))
    return refuse(at, 'these lists are not compared');
  const [a, b] = [freeJson(stored, context), context.write.jsonb(other, context)];
  return left.row ? [a, b] : [b, a];
}

export function ordering({ operator, left, right, at }: Of<'order'>, context: SqlContext): string {
  const isId = (side: Expression): boolean =>
    side.kind === 'field' && columnType(side.field) === 'uuid';
  const plainSides = isId(left) || isId(right);
  const [a, b] = plainSides
    ? [context.write.text(left, context), context.write.text(right, context)]
    : sidesOf(left, right, at, context);
  const collation = left.type.kind === 'string' ? ' collate "C"' : '';
  return `(${a}${collation} ${operator} ${b}${collation})`;
}
