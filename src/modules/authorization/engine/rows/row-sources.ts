/**
 * The rows on which a subject may act, found from the tuples that lead to them
 * (SQL): all of them as a set, the first of them in order, or just their number.
 */
import { tableName } from '../../../../data/schema/compile/layout.ts';
import { literalOf } from '../../../../kernel/database/literal.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import { rulesTo } from '../../model/expansion-rules.ts';
import type { SubjectRef } from '../../model/grammar.ts';
import type { FieldRelation, Model, Name } from '../../model/model.ts';
import { arrayText, liveTuple } from '../../tuple-sql.ts';
import type { Principal } from '../principals.ts';
import { type Lookup, lookupsOf } from '../reverse-expansion.ts';
import { sourceOf, storedTuples, subjectTypeText, type TupleSource } from '../tuple-source.ts';
/* The tuples that give a subject rows of a type, as lookups of an index: one per form of the subject, principal and relation. */

/** Whose rows are sought, and the objects through which they act. */
export interface RowSearch {
  readonly subject: SubjectRef;
  readonly goal: Name;
  readonly principals: readonly Principal[];
}

/** The lookups that give every resource on which the subject may have the goal; those of public names are not among them. */
export function lookupsTo(
  model: Model,
  { subject, goal, principals }: RowSearch,
): readonly Lookup[] {
  const rules = rulesTo(model, goal);
  const byName = Map.groupBy(principals, (p) => p.name);
  return [
    ...lookupsOf(model, subject, rules.direct),
    ...rules.steps.flatMap((rule) =>
      (byName.get(rule.fromName) ?? []).map(({ type, id }) => ({
        rule,
        subject: { type, id, relation: rule.setRelation },
      })),
    ),
  ];
}

/** Lookups as the columns of `unnest`, in the order of `lookupRows`. */
export const lookupColumns = (lookups: readonly Lookup[]): readonly string[] => [
  arrayText(lookups.map((l) => l.subject.type)),
  arrayText(lookups.map((l) => l.subject.id)),
  arrayText(lookups.map((l) => l.subject.relation)),
  arrayText(lookups.map((l) => l.rule.relation)),
  arrayText(lookups.map((l) => l.rule.exact)),
];

const columnTypes = ['text', 'text', 'text', 'text', 'boolean'];

/** `l(...)`: lookups as a relation, if requested with their number `n` from 1; in sub-selects, so that one plan fits all (tuple-loading.ts). */
export function lookupRows(next: (i: number) => string, numbered = false): string {
  const rows = `unnest(${columnTypes.map((type, i) => `(select ${next(i)}::${type}[])`).join(', ')})`;
  return numbered
    ? `${rows} with ordinality l(s_type, s_id, s_relation, relation, exact, n)`
    : `${rows} l(s_type, s_id, s_relation, relation, exact)`;
}

/** Where the tuples of lookups are. */
export const lookupSource = (model: Model, lookups: readonly Lookup[]): TupleSource =>
  sourceOf(
    model,
    lookups.map(({ rule }) => rule),
  );

/** Tuples `t` of a lookup `l` that count, of resources of a type (SQL). */
export const lookupCondition = (from: TupleSource, type: string): string =>
  `t.subject_type = l.s_type and t.subject_id = l.s_id${from.subject('t', 'l.s_id')} and t.subject_relation = l.s_relation
   and t.resource_type = ${type} and t.relation = l.relation and ${liveTuple('t')} and (t.condition is null or not l.exact)`;

/** Distinguishes the lookups of one subject and goal. */
export const lookupKey = ({ rule, subject }: Lookup): string =>
  `${subject.type}:${subject.id}#${subject.relation} ${rule.relation}`;

export interface RowSource {
  /** The type of the rows. */
  readonly type: string;
  /** Every row on which the subject may act is found by one of them. */
  readonly lookups: readonly Lookup[];
  /** Tuples without a condition count, others do not. Else those with one are found as well, and the row must be tested. */
  readonly exact: boolean;
  /** What of the lookups is not the same for all, by the name of its column. */
  readonly columns: ReadonlyMap<string, string>;
  /** Where the tuples are. */
  readonly from: TupleSource;
}

export function rowSource(
  { type, exact, from }: Pick<RowSource, 'type' | 'exact' | 'from'>,
  lookups: readonly Lookup[],
): RowSource {
  const columns = new Map([
    ['s_type', arrayText(lookups.map((l) => l.subject.type))],
    ['s_id', arrayText(lookups.map((l) => l.subject.id))],
    ['relation', arrayText(lookups.map((l) => l.rule.relation))],
  ]);
  // Most models know no subject sets: what is constant costs nothing as text.
  if (lookups.some((l) => l.subject.relation !== ''))
    columns.set('s_relation', arrayText(lookups.map((l) => l.subject.relation)));
  return { type, lookups, exact, columns, from };
}

type Next = (value: unknown) => string;

/** Lookups `l` as a relation; in sub-selects, so that one plan fits all (tuple-loading.ts). */
const lookupsIn = ({ columns }: RowSource, next: Next): string =>
  `unnest(${[...columns.values()].map((values) => `(select ${next(values)}::text[])`).join(', ')}) l(${[...columns.keys()].join(', ')})`;

/** Tuples `t` of a lookup `l` that count. */
const foundBy = ({ type, exact, columns, from }: RowSource): string =>
  `t.subject_type = l.s_type and t.subject_id = l.s_id${from.subject('t', 'l.s_id')} and t.subject_relation = ${columns.has('s_relation') ? 'l.s_relation' : `''`}
   and t.resource_type = ${literalOf(type, 'text')} and t.relation = l.relation and ${liveTuple('t')}${exact ? ' and t.condition is null' : ''}`;

/** Stored tuples alone, where columns count beside them; else all. */
const storedPart = (source: RowSource): RowSource =>
  source.from.beside ? { ...source, from: storedTuples } : source;

/* Rows `d` that say it in columns themselves: by the index of the columns, without a word about tuples. */

/** Whoever such a column can name, as a relation `l` and a test; one alone is two values. `undefined`: nobody. */
function namedIn(
  source: RowSource,
  { relation, field }: FieldRelation,
  next: Next,
): { readonly from: string; readonly test: string } | undefined {
  const named = source.lookups.filter(
    ({ rule, subject }) =>
      rule.relation === relation && subject.relation === '' && uuidPattern.test(subject.id),
  );
  const [one] = named;
  if (!one) return undefined;
  const column = `d.${identifier(field.field)}`;
  const type = subjectTypeText(field, 'd');
  if (named.length === 1)
    return {
      from: '',
      test: `${column} = (select ${next(one.subject.id)}::uuid) and ${type} = (select ${next(one.subject.type)}::text)`,
    };
  const columns = [
    `(select ${next(arrayText(named.map(({ subject }) => subject.type)))}::text[])`,
    `(select ${next(arrayText(named.map(({ subject }) => subject.id)))}::uuid[])`,
  ];
  return {
    from: `unnest(${columns.join(', ')}) l(s_type, s_id) cross join lateral `,
    test: `${column} = l.s_id and ${type} = l.s_type`,
  };
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Ids of rows of a table that say it in columns. */
const columnIds = (source: RowSource, table: string, next: Next): readonly string[] =>
  (source.from.beside ?? []).flatMap((column) => {
    const named = namedIn(source, column, next);
    return named
      ? [
          `select r.id from ${named.from}(select d."_id" as id from ${table} d where ${named.test} offset 0) r`,
        ]
      : [];
  });

/** Ids of all rows that are found. Ids of resources that are no row ids lead to no row. */
export function foundIds(source: RowSource, next: Next): string {
  const lookups = lookupsIn(source, next);
  const stored = storedPart(source);
  const found = `select r.id from ${lookups} cross join lateral (
    select t.resource_uuid as id from ${stored.from.rows} t where ${foundBy(stored)} offset 0) r where r.id is not null`;
  return [found, ...columnIds(source, tableName(source.type), next)].join(' union all ');
}

interface FirstRows {
  /** Where the rows come from; stands where a table may stand. */
  readonly rows: string;
  /** How many (SQL, a number). */
  readonly count: string;
  /** What a row must fulfil besides, of its id and, unless `testsIds`, of the row `d`. */
  readonly test?: (id: string, alias?: string) => string;
  readonly testsIds: boolean;
  /** Another order than that of the ids (SQL over `d`). */
  readonly order: string | undefined;
}

/** The first rows of each lookup in order, some more than once: the first of all are among them. */
export function firstRows(
  source: RowSource,
  { rows, count, test, testsIds, order }: FirstRows,
  next: Next,
): string {
  // Ids of rows are written in one way only, so the order of the texts is theirs. The offset makes the row a
  // question per tuple: as a join it might be answered for all tuples before the first is taken.
  const ofRow = test && !testsIds ? ` and (${test('d."_id"', 'd')})` : '';
  const ofId = test && testsIds ? ` and (${test('t.resource_uuid')})` : '';
  const lookups = lookupsIn(source, next);
  const stored = `select r.* from ${lookups} cross join lateral (
    select d.* from (select t.resource_id, t.resource_uuid from penstock.tuples t where ${foundBy(storedPart(source))}${ofId}) t
      cross join lateral (select * from ${rows} d where d."_id" = t.resource_uuid offset 0) d
     where true${ofRow} order by ${order ?? 't.resource_id'} limit ${count}) r${anyStored(source, next)}`;
  const tested = (): string =>
    test ? ` and (${testsIds ? test('d."_id"') : test('d."_id"', 'd')})` : '';
  const beside = (source.from.beside ?? []).flatMap((column) => {
    const named = namedIn(source, column, next);
    return named
      ? [
          `select r.* from ${named.from}(select d.* from ${rows} d where ${named.test}${tested()}
     order by ${order ?? 'd."_id"'} limit ${count}) r`,
        ]
      : [];
  });
  return [stored, ...beside].join(' union all ');
}

/** `where ...`: nothing is looked up one by one where nothing is stored, as for those who see their own rows alone. */
function anyStored(source: RowSource, next: Next): string {
  if (!source.from.beside?.length || !isProduct(source)) return '';
  return ` where exists (select 1 from penstock.tuples t where ${storedAtOnce(source, next)})`;
}

/** True when every subject is looked up in every relation. */
function isProduct({ lookups, columns }: RowSource): boolean {
  if (columns.has('s_relation')) return false;
  const sizes = [
    new Set(lookups.map(({ subject }) => subject.type)),
    new Set(lookups.map(({ subject }) => subject.id)),
    new Set(lookups.map(({ rule }) => rule.relation)),
  ].map(({ size }) => size);
  return sizes.reduce((product, size) => product * size) === new Set(lookups.map(lookupKey)).size;
}

/** The tuples `t` of all lookups by one search of the index, where they are a product. */
function storedAtOnce({ type, exact, columns }: RowSource, next: Next): string {
  const among = (name: string): string =>
    `any((select ${next(columns.get(name))}::text[])::text[])`;
  return `t.subject_type = ${among('s_type')} and t.subject_id = ${among('s_id')} and t.subject_relation = ''
   and t.resource_type = ${literalOf(type, 'text')} and t.relation = ${among('relation')} and ${liveTuple('t')}${exact ? ' and t.condition is null' : ''}`;
}

interface CountedRows {
  /** Quoted name of the table. */
  readonly table: string;
  /** `lookupKey` of the lookup that finds nearly all. */
  readonly largest: string | undefined;
  /** Few rows are found from stored tuples. */
  readonly storedFew: boolean;
  /** What is left to ask of rows that were found, by their ids. */
  readonly stands?: ((id: string, next: Next) => string) | undefined;
}

/**
 * The number of rows of a table that are found, where each lookup is exact. A tuple that is known to lead to a row of the
 * table is counted from the index alone; of others the row is looked for. The lookup that finds nearly all is counted as it
 * is: within one lookup each row stands once. What the others find counts where that one does not find it as well.
 */
export function rowCount(source: RowSource, counted: CountedRows, next: Next): string {
  const { table, largest, stands } = counted;
  const most = source.lookups.findIndex((lookup) => lookupKey(lookup) === largest);
  const index = most < 0 ? source.lookups.findIndex((lookup) => columnOf(source, lookup)) : most;
  const first = source.lookups[index];
  if (!first || stands) {
    const where = stands ? ` where ${stands('f.id', next)}` : '';
    return `(select count(*) from (select distinct f.id from (${existingRows(source, table, next)}) f${where}) x)`;
  }
  const others = rowSource({ ...source, exact: true }, source.lookups.toSpliced(index, 1));
  const column = columnOf(source, first);
  if (column) return ownedCount({ source, others, first, column }, counted, next);
  const { rows } = storedPart(source).from;
  const id = `${next(first.subject.id)}::text`;
  const same =
    `t.subject_type = ${next(first.subject.type)} and t.subject_id = ${id}${storedPart(source).from.subject('t', id)} and t.subject_relation = ${next(first.subject.relation)}` +
    ` and t.resource_type = ${literalOf(source.type, 'text')} and t.relation = ${next(first.rule.relation)} and t.condition is null and ${liveTuple('t')}`;
  const known = `${same} and t.row_of = ${oidOf(table)}`;
  // In the order of the index: another one would be read through for what is hardly ever there.
  const unknown = ['is null', `< ${oidOf(table)}`, `> ${oidOf(table)}`].map(
    (range) =>
      `select u.id from (select t.resource_uuid as id from ${rows} t where ${same} and t.row_of ${range} order by t.row_of, t.resource_uuid offset 0) u where u.id is not null and ${isRow(table, 'u.id')}`,
  );
  const rest = [existingRows(others, table, next), ...unknown].join(' union all ');
  const again = `exists (select 1 from ${rows} t where ${known} and t.resource_uuid = f.id offset 0)`;
  return `((select count(*) from ${rows} t where ${known}) + (select count(*) from (select distinct f.id from (${rest}) f where not ${again}) x))`;
}

interface OwnedRows {
  readonly source: RowSource;
  /** All lookups but the first. */
  readonly others: RowSource;
  readonly first: Lookup;
  readonly column: FieldRelation;
}

/** The same where rows say in a column that the subject stands there: those are counted from its index. */
function ownedCount(
  { source, others, first, column: { field } }: OwnedRows,
  { table, storedFew }: CountedRows,
  next: Next,
): string {
  const owned = `d.${identifier(field.field)} = (select ${next(first.subject.id)}::uuid) and ${subjectTypeText(field, 'd')} = (select ${next(first.subject.type)}::text)`;
  const rest = [storedRows(source, table, next), ...columnIds(others, table, next)].join(
    ' union all ',
  );
  // Of few each is looked up; for more, what is owned is a hash table that is filled once.
  const again = storedFew
    ? `exists (select 1 from ${table} d where d."_id" = f.id and ${owned} offset 0)`
    : `(f.id in (select d."_id" from ${table} d where ${owned})) is true`;
  return `((select count(*) from ${table} d where ${owned}) + (select count(*) from (select distinct f.id from (${rest}) f where not ${again}) x))`;
}

/** The column in which the subject of a lookup may stand. */
const columnOf = ({ from }: RowSource, { rule, subject }: Lookup): FieldRelation | undefined =>
  subject.relation === '' && uuidPattern.test(subject.id)
    ? from.beside?.find(({ relation }) => relation === rule.relation)
    : undefined;

const oidOf = (table: string): string => `${literalOf(table, 'regclass')}::oid`;

const isRow = (table: string, id: string): string =>
  `exists (select 1 from ${table} d where d."_id" = ${id} offset 0)`;

/** Ids of rows that are there, possibly more than once. */
const existingRows = (source: RowSource, table: string, next: Next): string =>
  [storedRows(source, table, next), ...columnIds(source, table, next)].join(' union all ');

/** Those that tuples lead to. */
function storedRows(source: RowSource, table: string, next: Next): string {
  const stored = storedPart(source);
  const found =
    source.from.beside && isProduct(source)
      ? `(select t.resource_uuid as id, t.row_of from penstock.tuples t where ${storedAtOnce(source, next)} offset 0) r`
      : `${lookupsIn(source, next)} cross join lateral (
    select t.resource_uuid as id, t.row_of from ${stored.from.rows} t where ${foundBy(stored)} offset 0) r`;
  return `select r.id from ${found}
   where r.id is not null and (r.row_of is not distinct from ${oidOf(table)} or ${isRow(table, 'r.id')})`;
}
