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
  /** The same lookups, as few searches of an index. */
  readonly groups: readonly LookupGroup[];
  /** Where the tuples are. */
  readonly from: TupleSource;
}

/** Every one of the ids is looked up in every one of the relations. */
interface LookupGroup {
  readonly type: string;
  /** Relation of the subject set; empty for objects. */
  readonly setRelation: string;
  readonly relations: readonly string[];
  /** A list of PostgreSQL. */
  readonly ids: string;
}

/** Somebody who acts through a thousand teams is looked up by two searches instead of some thousands. */
function groupsOf(lookups: readonly Lookup[]): readonly LookupGroup[] {
  const byKind = Map.groupBy(lookups, ({ subject, rule }) =>
    JSON.stringify([subject.type, subject.relation, rule.relation]),
  );
  const groups = new Map<string, LookupGroup>();
  for (const [kind, all] of byKind) {
    const [type = '', setRelation = '', relation = ''] = JSON.parse(kind) as string[];
    const ids = arrayText([...new Set(all.map(({ subject }) => subject.id))].sort());
    const key = JSON.stringify([type, setRelation, ids]);
    const relations = [...(groups.get(key)?.relations ?? []), relation].sort();
    groups.set(key, { type, setRelation, relations, ids });
  }
  return [...groups.values()];
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
  return { type, lookups, exact, columns, groups: groupsOf(lookups), from };
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
export const storedPart = (source: RowSource): RowSource =>
  source.from.beside ? { ...source, from: storedTuples } : source;

/* Rows `d` that say it in columns themselves: by the index of the columns, without a word about tuples. */

/**
 * `column` is a value (SQL), or one of a list. The range says nothing more and is there for the planner: where nearly all
 * rows have the same owner, PostgreSQL takes any owner for that one and would read the whole table for somebody's ten rows.
 */
const isValue = (column: string, value: string): string =>
  `${column} = ${value} and ${column} between ${value} and ${value}`;

const isOneOf = (column: string, ids: readonly string[], next: Next): string => {
  const sorted = ids.toSorted();
  const [least, greatest] = [sorted.at(0), sorted.at(-1)].map((id) => `(select ${next(id)}::uuid)`);
  return (
    `${column} = any((select ${next(arrayText(sorted))}::uuid[])::uuid[])` +
    ` and ${column} between ${least} and ${greatest}`
  );
};

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
      test: `${isValue(column, `(select ${next(one.subject.id)}::uuid)`)} and ${type} = (select ${next(one.subject.type)}::text)`,
    };
  const columns = [
    `(select ${next(arrayText(named.map(({ subject }) => subject.type)))}::text[])`,
    `(select ${next(arrayText(named.map(({ subject }) => subject.id)))}::uuid[])`,
  ];
  return {
    from: `unnest(${columns.join(', ')}) l(s_type, s_id) cross join lateral `,
    test: `${isValue(column, 'l.s_id')} and ${type} = l.s_type`,
  };
}

export const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** What rows `d` must fulfil that say it in columns: one search for all subjects of a type. */
const columnTests = (source: RowSource, next: Next): readonly string[] =>
  (source.from.beside ?? []).flatMap(({ relation, field }) => {
    const named = source.lookups.filter(
      ({ rule, subject }) =>
        rule.relation === relation && subject.relation === '' && uuidPattern.test(subject.id),
    );
    const byType = Map.groupBy(named, ({ subject }) => subject.type);
    return [...byType].map(([type, some]) => {
      const ids = some.map(({ subject }) => subject.id);
      const column = `d.${identifier(field.field)}`;
      const test =
        ids.length === 1
          ? isValue(column, `(select ${next(ids[0])}::uuid)`)
          : isOneOf(column, ids, next);
      return `${test} and ${subjectTypeText(field, 'd')} = (select ${next(type)}::text)`;
    });
  });

/** Ids of rows of a table that say it in columns. */
export const columnIds = (source: RowSource, table: string, next: Next): readonly string[] =>
  columnTests(source, next).map(
    (test) => `select r.id from (select d."_id" as id from ${table} d where ${test} offset 0) r`,
  );

/**
 * Whole rows `d` of `rows` (what stands behind `from`) that are found, each once. Those that columns lead to are read from
 * the index of the columns, all others by their ids: a list of them is a value, of which each is taken once.
 */
export function foundRows(source: RowSource, rows: string, next: Next): string {
  const tests = columnTests(source, next);
  const without = (known: readonly string[]): string =>
    known.length === 0 ? '' : ` and (${known.map((test) => `(${test})`).join(' or ')}) is not true`;
  const named = tests.map(
    (test, i) => `select d.* from ${rows} d where ${test}${without(tests.slice(0, i))}`,
  );
  const ids = foundTuples(source, next).map((tuples) => `select r.id from (${tuples} offset 0) r`);
  const stored =
    ids.length === 0
      ? []
      : [
          `select d.* from ${rows} d where d."_id" = any(array(${ids.join(' union all ')}))${without(tests)}`,
        ];
  const all = [...named, ...stored];
  return all.length === 0 ? `select d.* from ${rows} d where false` : all.join(' union all ');
}

/** Ids of all rows that are found. Ids of resources that are no row ids lead to no row. */
export function foundIds(source: RowSource, next: Next): string {
  const found = foundTuples(source, next).map(
    (tuples) => `select r.id from (${tuples} offset 0) r where r.id is not null`,
  );
  const all = [...found, ...columnIds(source, tableName(source.type), next)];
  return all.length === 0 ? nothingFound : all.join(' union all ');
}

export const nothingFound = 'select null::uuid as id where false';

/** Selects of `id` and `row_of` of the tuples of all lookups. */
export function foundTuples(source: RowSource, next: Next): readonly string[] {
  const stored = storedPart(source);
  const { type, exact } = source;
  // What is written in fields instead is found by each id alone.
  if (!stored.from.stored)
    return [
      `select f.* from ${lookupsIn(source, next)} cross join lateral (select t.resource_uuid as id, t.row_of from ${stored.from.rows} t where ${foundBy(stored)} offset 0) f`,
    ];
  return source.groups.map(
    ({ type: subjectType, setRelation, relations, ids }) =>
      `select t.resource_uuid as id, t.row_of from penstock.tuples t where t.subject_type = ${literalOf(subjectType, 'text')} and t.subject_id = any((select ${next(ids)}::text[])::text[])` +
      ` and t.subject_relation = ${literalOf(setRelation, 'text')} and t.resource_type = ${literalOf(type, 'text')}` +
      ` and t.relation in (${relations.map((word) => literalOf(word, 'text')).join(', ')}) and ${liveTuple('t')}${exact ? ' and t.condition is null' : ''}`,
  );
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
  /** An id (SQL) that stands in front of all rows. */
  readonly after: string | undefined;
}

/** The first rows of each lookup in order, some more than once: the first of all are among them. */
export function firstRows(
  source: RowSource,
  { rows, count, test, testsIds, order, after }: FirstRows,
  next: Next,
): string {
  // Ids of rows are written in one way only, so the order of the texts is theirs. The offset makes the row a
  // question per tuple: as a join it might be answered for all tuples before the first is taken.
  const ofRow = test && !testsIds ? ` and (${test('d."_id"', 'd')})` : '';
  const ofId = test && testsIds ? ` and (${test('t.resource_uuid')})` : '';
  // Else a later page would pass all tuples of the pages before it.
  const behind = after ? ` and t.resource_id > (select (${after}::uuid)::text)` : '';
  const lookups = lookupsIn(source, next);
  const stored = `select r.* from ${lookups} cross join lateral (
    select d.* from (select t.resource_id, t.resource_uuid from penstock.tuples t where ${foundBy(storedPart(source))}${behind}${ofId}) t
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
