/**
 * A rule over fields of a record as SQL, with the same answer for every row as the evaluator gives for the
 * record: true, false, or null where the evaluator finds an error or a missing value.
 */
import { postgresPattern } from '../records/filter/postgres-pattern.ts';
import { columnType } from '../schema/language/field.ts';
import { compilePattern } from '../schema/language/pattern/compile.ts';
import type { Expression, Of } from './expression.ts';
import { functionSql, momentPartOf, momentPartSql } from './function-sql.ts';
import { equality, ordering } from './sql-compare.ts';
import { iteration, membership, sizeOf } from './sql-lists.ts';
import {
  column,
  columnText,
  constants,
  isJsonb,
  isStoredValue,
  refuse,
  type SqlContext,
  scalarOf,
} from './sql-storage.ts';
import { choiceSql, constantSql, jsonOf } from './sql-values.ts';
import { RuleError } from './syntax.ts';
import { offsetOf } from './time.ts';
import { isScalar, typeText } from './types.ts';

/** A value of type jsonb, null where there is none. */
function jsonb(expression: Expression, context: SqlContext): string {
  if (!expression.row) return `${context.next(jsonOf(expression))}::jsonb`;
  switch (expression.kind) {
    case 'field':
      return isJsonb(expression)
        ? column(context, expression.name)
        : columnType(expression.field) === 'uuid[]'
          ? `to_jsonb(${column(context, expression.name)})`
          : asJson(expression, context);
    case 'variable':
      return context.elements.get(expression.name) ?? refuse(expression.at, 'it has no element');
    case 'member':
      return `(${jsonb(expression.of, context)} -> ${context.next(expression.key)}::text)`;
    case 'narrow':
      return jsonb(expression.of, context);
    case 'index':
      return itemOf(expression, context);
    default:
      return asJson(expression, context);
  }
}

/** Whole numbers are doubles where they stand beside JSON, as in JavaScript. */
const asJson = (expression: Expression, context: SqlContext): string =>
  `to_jsonb(${text(expression, context)}${expression.type.kind === 'int' ? '::float8' : ''})`;

function itemOf({ of, key }: Of<'index'>, context: SqlContext): string {
  if (key.row)
    return refuse(key.at, 'a place in a list of the record is taken from the record: use exists()');
  const place = key.kind === 'constant' ? Number(key.value) : 0;
  // Negative places would count from the end.
  if (place < 0 || place > 1_000_000) return 'null::jsonb';
  const list = jsonb(of, context);
  return `(case jsonb_typeof(${list}) when 'array' then ${list} -> ${place} end)`;
}

/** Characters of the SQL of one rule: parts that are written twice must not multiply. */
const MAX_SQL = 60_000;

function bounded(sql: string, { at }: Expression): string {
  if (sql.length > MAX_SQL) throw new RuleError('size', at, 'the rule becomes too large a query');
  return sql;
}

/** The value in the form that functions take: numbers, text, microseconds, addresses. */
const text = (expression: Expression, context: SqlContext): string =>
  bounded(textOf(expression, context), expression);

function textOf(expression: Expression, context: SqlContext): string {
  if (!expression.row) return constantText(expression, context);
  if (expression.type.kind === 'bool' && !isStoredValue(expression))
    return condition(expression, context);
  if (isJsonb(expression)) return scalarOf(jsonb(expression, context), expression);
  switch (expression.kind) {
    case 'field':
      return columnText(expression, context);
    case 'narrow':
      return narrowedText(expression, context);
    case 'if':
      return conditional(expression, context, text);
    case 'call':
      return callText(expression, context);
    case 'choice':
      return choice(expression, context, text);
    default:
      return refuse(expression.at, 'this is not computed for each record');
  }
}

const constantText = (expression: Expression, context: SqlContext): string =>
  constantSql(expression, constants(context));

function narrowedText({ of, type, at }: Of<'narrow'>, context: SqlContext): string {
  return scalarOf(jsonb(of, context), { ...of, type, at });
}

function conditional(
  { condition: test, yes, no }: Of<'if'>,
  context: SqlContext,
  part: (expression: Expression, context: SqlContext) => string,
): string {
  return `(case ${condition(test, context)} when true then ${part(yes, context)} when false then ${part(no, context)} end)`;
}

/** Scalars stand in one parameter; what hangs on the record in other ways is written for each of them. */
function choice(
  expression: Of<'choice'>,
  context: SqlContext,
  part: (expression: Expression, context: SqlContext) => string,
): string {
  const { entries, type } = expression;
  if (!isScalar(type))
    return refuse(expression.at, `a ${typeText(type)} that the record chooses is not compared`);
  const key = text(expression.key, context);
  const isPlain = entries.every(([, { kind }]) => kind === 'constant' || kind === 'open');
  if (isPlain) return `(${choiceSql(expression, key, constants(context))})`;
  const cases = entries.map(
    ([name, value]) => `when ${context.next(name)}::text then ${part(value, context)}`,
  );
  return `(case ${key} ${cases.join(' ')} end)`;
}

function callText(expression: Of<'call'>, context: SqlContext): string {
  const { function: id, of, at } = expression;
  const [first, second] = of;
  if (id === 'matches' && first && second?.kind === 'constant') {
    const { maxText } = compilePattern(String(second.value));
    const value = text(first, context);
    const pattern = context.next(postgresPattern(String(second.value)));
    return `(case when char_length(${value}) <= ${maxText} then ${value} ~ ${pattern}::text when ${value} is not null then false end)`;
  }
  if (id === 'sizeOfList' && first) return sizeOf(first, context);
  const part = momentPartOf(id);
  if (part && first) {
    const zone = part.zoned ? zoneOf(second, context) : 0;
    return momentPartSql(part.part, text(first, context), zone);
  }
  const make = functionSql(id);
  if (!make) return refuse(at, 'this function works only on values that are known beforehand');
  return make(...of.map((one) => text(one, context)));
}

function zoneOf(zone: Expression | undefined, { trial }: SqlContext): number {
  if (zone?.kind === 'constant') {
    const offset = offsetOf(String(zone.value));
    if (offset !== undefined) return offset;
  }
  if (trial && zone?.kind !== 'constant')
    return refuse(zone?.at ?? 0, 'a time zone must be written in the rule');
  return refuse(zone?.at ?? 0, 'only UTC and offsets such as +02:00 are zones of fields');
}

/** An SQL condition; null for an error. Throws `RuleError`. */
export const condition = (expression: Expression, context: SqlContext): string =>
  bounded(conditionOf(expression, context), expression);

function conditionOf(expression: Expression, context: SqlContext): string {
  if (!expression.row) return constantText(expression, context);
  switch (expression.kind) {
    case 'and':
    case 'or':
      return `(${expression.of.map((part) => condition(part, context)).join(` ${expression.kind} `)})`;
    case 'not':
      return `(not ${condition(expression.of, context)})`;
    case 'if':
      return conditional(expression, context, condition);
    case 'equal':
      return equality(expression, context);
    case 'order':
      return ordering(expression, context);
    case 'in':
      return membership(expression, context);
    case 'has':
      return presence(expression.of, context);
    case 'each':
      return iteration(expression, context);
    case 'choice':
      return choice(expression, context, condition);
    case 'call':
      return callText(expression, context);
    default:
      return text(expression, context);
  }
}

/** SQL that is true where the value is there. Of a nullable value only: all others are there, or an error. */
function presence(expression: Expression, context: SqlContext): string {
  const { type } = expression;
  if (expression.kind === 'if') return conditional(expression, context, presenceOrError);
  if (expression.kind === 'field' && !isJsonb(expression))
    return `(${column(context, expression.name)} is not null)`;
  const isWhole = type.kind === 'json' || type.kind === 'object' || type.kind === 'list';
  if (isWhole && isJsonb(expression))
    return `(nullif(${jsonb(expression, context)}, 'null'::jsonb) is not null)`;
  return `(${text(expression, context)} is not null)`;
}

/** Of one side of `?:`, which may be an error instead of nothing. */
const presenceOrError = (side: Expression, context: SqlContext): string =>
  side.nullable
    ? presence(side, context)
    : `(case when ${text(side, context)} is not null then true end)`;

/** The start of every rule. `trial`: values that are not known yet are nulls of their type. */
export const sqlContext = (target: Pick<SqlContext, 'alias' | 'next' | 'trial'>): SqlContext => ({
  ...target,
  elements: new Map(),
  depth: 0,
  write: { text, jsonb, condition, presence },
});
