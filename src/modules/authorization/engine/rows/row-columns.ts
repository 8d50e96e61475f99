/**
 * Rows `d` that say themselves who may act on them (SQL): by columns of owners beside stored tuples, and by fields that
 * are relations. They are found by the indexes of those columns, without a word about tuples.
 */
import { identifier } from '../../../../kernel/database/sql.ts';
import type { FieldRelation } from '../../model/model.ts';
import { listValue } from '../../tuple-sql.ts';
import type { Lookup } from '../reverse-expansion.ts';
import { subjectTypeText } from '../tuple-source.ts';

/** What one column says about subjects of one type; made once for a source, which may serve many questions. */
export interface ColumnMatch {
  readonly column: FieldRelation;
  readonly type: string;
  /** How many ids there are. */
  readonly count: number;
  /** The ids in order, as a list of PostgreSQL. */
  readonly list: string | Buffer;
  /** The first and the last of them. */
  readonly range: readonly [least: string, greatest: string];
}

export const columnMatches = (
  lookups: readonly Lookup[],
  fields: readonly FieldRelation[],
): readonly ColumnMatch[] =>
  fieldsFirst(fields).flatMap((column) =>
    [...Map.groupBy(namedBy(lookups, column), ({ subject }) => subject.type)].map(
      ([type, some]): ColumnMatch => {
        const ids = some.map(({ subject }) => subject.id).sort();
        const range = [ids.at(0) ?? '', ids.at(-1) ?? ''] as const;
        return { column, type, count: ids.length, list: listValue(ids, 'uuid'), range };
      },
    ),
  );

/** What of a source of rows is needed here. */
interface RowColumns {
  readonly lookups: readonly Lookup[];
  readonly matches: readonly ColumnMatch[];
}

type Next = (value: unknown) => string;

/** True for a field that counts instead of stored tuples. */
export const isReplacing = ({ field }: FieldRelation): boolean => field.typeColumn === undefined;

export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The lookups that a column can answer. */
const namedBy = (lookups: readonly Lookup[], column: FieldRelation): readonly Lookup[] =>
  lookups.filter(
    ({ rule, subject }) =>
      rule.relation === column.relation &&
      subject.relation === '' &&
      (!isReplacing(column) || subject.type === column.field.type) &&
      uuidPattern.test(subject.id),
  );

/**
 * `column` is a value (SQL), or one of a list. The range says nothing more and is there for the planner: where nearly all
 * rows have the same owner, PostgreSQL takes any owner for that one and would read the whole table for somebody's ten rows.
 */
const isValue = (column: string, value: string): string =>
  `${column} = ${value} and ${column} between ${value} and ${value}`;

const isOneOf = (column: string, { list, range }: ColumnMatch, next: Next): string => {
  const [least, greatest] = range.map((id) => `(select ${next(id)}::uuid)`);
  return (
    `${column} = any((select ${next(list)}::uuid[])::uuid[])` +
    ` and ${column} between ${least} and ${greatest}`
  );
};

/** Whoever such a column can name, as a relation `l` and a test; one alone is a value. */
export function namedIn(
  { column: { field }, type, count, list, range }: ColumnMatch,
  next: Next,
): { readonly from: string; readonly test: string } {
  const value = `d.${identifier(field.field)}`;
  const said = `${subjectTypeText(field, 'd')} = (select ${next(type)}::text)`;
  if (count === 1)
    return { from: '', test: `${isValue(value, `(select ${next(range[0])}::uuid)`)} and ${said}` };
  return {
    from: `unnest((select ${next(list)}::uuid[])) l(s_id) cross join lateral `,
    test: `${isValue(value, 'l.s_id')} and ${said}`,
  };
}

/** Mostly fields lead to many rows, which an index that holds nothing else counts; somebody's own are few beside them. */
const fieldsFirst = (fields: readonly FieldRelation[]): readonly FieldRelation[] => [
  ...fields.filter(isReplacing),
  ...fields.filter((one) => !isReplacing(one)),
];

/** Rows that are asked one after the other under this name; without it they are sought by their index. */
type Asked = string | undefined;

/** What rows `d` must fulfil: one search for all subjects of a type. */
function matchTest(match: ColumnMatch, next: Next, asked?: Asked): string {
  const { column, type } = match;
  const said = isReplacing(column)
    ? ''
    : ` and ${subjectTypeText(column.field, asked ?? 'd')} = (select ${next(type)}::text)`;
  return `${columnTest(match, next, asked)}${said}`;
}

function columnTest(match: ColumnMatch, next: Next, asked: Asked): string {
  const { field } = match.column;
  const { count, list, range } = match;
  const column = `${asked ?? 'd'}.${identifier(field.field)}`;
  if (field.many) return `${column} && (select ${next(list)}::uuid[])`;
  if (count === 1) return isValue(column, `(select ${next(range[0])}::uuid)`);
  if (asked === undefined) return isOneOf(column, match, next);
  // A hash table that is filled once.
  return `(${column} in (select h.id from unnest((select ${next(list)}::uuid[])) h(id))) is true`;
}

/** Ids of rows of a table that say it in columns. */
export const columnIds = ({ matches }: RowColumns, table: string, next: Next): readonly string[] =>
  matches.map(
    (said) =>
      `select r.id from (select d."_id" as id from ${table} d where ${matchTest(said, next)} offset 0) r`,
  );

/**
 * What rows `d` must fulfil, in parts that have no row in common. What is asked of a row that was found is no list of
 * values, which PostgreSQL would compare one after the other.
 */
export const disjointTests = ({ matches }: RowColumns, next: Next): readonly string[] =>
  matches.map((said, i, all) => {
    const before = all.slice(0, i);
    return `${matchTest(said, next)}${before.length === 0 ? '' : ` and ${noneOf(before, next)}`}`;
  });

/** Whether a row `d` says none of it. */
export const unmatchedTest = ({ matches }: RowColumns, next: Next): string =>
  matches.length === 0 ? 'true' : noneOf(matches, next);

const oneOf = (all: readonly ColumnMatch[], next: Next, alias: string): string =>
  all.map((said) => `(${matchTest(said, next, alias)})`).join(' or ');
const noneOf = (all: readonly ColumnMatch[], next: Next): string =>
  `(${oneOf(all, next, 'd')}) is not true`;

/** Whether a row says it, as one test: null or false where it does not. `undefined` where no column can name anybody. */
export const matchedTest = (
  { matches }: RowColumns,
  next: Next,
  alias: string,
): string | undefined => (matches.length === 0 ? undefined : oneOf(matches, next, alias));
