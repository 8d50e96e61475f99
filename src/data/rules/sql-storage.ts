/** Where values of a record stand: columns, and what is inside of jsonb. */
import { columnType } from '../schema/language/field.ts';
import type { Expression, Of } from './expression.ts';
import type { ConstantSql } from './sql-values.ts';
import { RuleError } from './syntax.ts';
import { typeText } from './types.ts';

export interface SqlContext {
  /** Adds a value and answers its placeholder. */
  next(value: unknown): string;
  /** How the row is called. */
  readonly alias: string;
  /** True when a rule is only tried: values that are not known yet are nulls of their type. */
  readonly trial: boolean;
  /** Elements of lists, innermost last. */
  readonly elements: ReadonlyMap<string, string>;
  readonly depth: number;
  readonly write: SqlWriter;
}

/** The parts of a rule as SQL; where they stand decides which one is meant. */
export interface SqlWriter {
  /** The value in the form that functions take: numbers, text, microseconds, addresses. */
  text(expression: Expression, context: SqlContext): string;
  /** A value of type jsonb, null where there is none. */
  jsonb(expression: Expression, context: SqlContext): string;
  /** An SQL condition; null for an error. */
  condition(expression: Expression, context: SqlContext): string;
  /** Whether a nullable value is there. */
  presence(expression: Expression, context: SqlContext): string;
}

export const refuse = (at: number, message: string): never => {
  throw new RuleError('sql', at, `${message}, so that it can't be part of a query`);
};

export const column = ({ alias }: SqlContext, name: string): string =>
  `${alias}."${name.replaceAll('"', '""')}"`;

export const constants = (context: SqlContext): ConstantSql => ({
  next: context.next,
  trial: context.trial,
});

export const canonicalUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the value is (part of) a jsonb column. */
export function isJsonb(expression: Expression): boolean {
  switch (expression.kind) {
    case 'field':
      return columnType(expression.field) === 'jsonb';
    case 'member':
      return expression.of.row;
    case 'index':
    case 'variable':
      return expression.row;
    default:
      return false;
  }
}

export const isStoredValue = ({ kind }: Expression): boolean =>
  kind === 'field' ||
  kind === 'member' ||
  kind === 'index' ||
  kind === 'variable' ||
  kind === 'narrow';

/** A list that is stored in the record. */
export const isList = (list: Expression): boolean =>
  list.kind === 'narrow' ? isList(list.of) : isJsonb(list) || list.kind === 'field';

const momentPattern =
  '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9][.][0-9]{3}Z$';

/** A scalar inside of jsonb; null where it is of another type. */
export function scalarOf(value: string, { type, at }: Expression): string {
  const as = (kind: string, cast: string): string =>
    `(case jsonb_typeof(${value}) when '${kind}' then ${cast} end)`;
  switch (type.kind) {
    case 'string':
      return as('string', `${value} #>> '{}'`);
    case 'double':
      return as(
        'number',
        `case when abs((${value})::numeric) <= ${Number.MAX_VALUE} then (${value})::float8 end`,
      );
    case 'int':
      return as(
        'number',
        `case when mod((${value})::numeric, 1) = 0 and abs((${value})::numeric) < 9007199254740992 then trunc((${value})::numeric) end`,
      );
    case 'bool':
      return as('boolean', `(${value})::boolean`);
    case 'timestamp': {
      const moment = `(${value} #>> '{}')::timestamptz`;
      return as(
        'string',
        `case when ${value} #>> '{}' ~ '${momentPattern}' then extract(epoch from ${moment}) * 1000000 end`,
      );
    }
    default:
      return refuse(at, `a ${typeText(type)} inside of an object is not computed with`);
  }
}

export function columnText({ name, field, at }: Of<'field'>, context: SqlContext): string {
  const value = column(context, name);
  switch (columnType(field)) {
    case 'text':
    case 'double precision':
    case 'integer':
    case 'bigint':
    case 'boolean':
      return field.kind === 'objectId' || field.kind === 'relation' ? `${value}::text` : value;
    case 'timestamptz(3)':
    case 'timestamptz':
      return microsOf(value);
    case 'uuid[]':
    case 'jsonb':
    case 'real[]':
    case 'numeric':
      return refuse(at, `"${name}" is not a single value`);
    default:
      return `${value}::text`;
  }
}

/**
 * Null outside of the years that rules know: `infinity`, which tables of others hold, has no parts, and PostgreSQL
 * fails when it is asked for one.
 */
const microsOf = (value: string): string =>
  `(case when ${value} >= '0001-01-01T00:00:00Z'::timestamptz and ${value} < '10000-01-01T00:00:00Z'::timestamptz then extract(epoch from ${value}) * 1000000 end)`;

/** Free JSON, in which null is as good as nothing. */
export const freeJson = (expression: Expression, context: SqlContext): string =>
  `nullif(${context.write.jsonb(expression, context)}, 'null'::jsonb)`;
