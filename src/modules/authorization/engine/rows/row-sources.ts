/**
 * The rows on which a subject may act, found from the tuples that lead to them
 * (SQL): all of them as a set, the first of them in order, or just their number.
 */
import { tableName } from '../../../../data/schema/compile/layout.ts';
import { literalOf } from '../../../../kernel/database/literal.ts';
import { rulesTo } from '../../model/expansion-rules.ts';
import type { SubjectRef } from '../../model/grammar.ts';
import type { Model, Name } from '../../model/model.ts';
import { arrayText, listValue, liveTuple } from '../../tuple-sql.ts';
import type { Principal } from '../principals.ts';
import { type Lookup, lookupsOf } from '../reverse-expansion.ts';
import { sourceOf, type TupleSource } from '../tuple-source.ts';
import {
  type ColumnMatch,
  columnIds,
  columnMatches,
  disjointTests,
  isReplacing,
  matchedTest,
  namedIn,
  unmatchedTest,
} from './row-columns.ts';
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
  /** Those of them that stored tuples answer, alone or beside columns; the others are fields of the rows. */
  readonly stored: readonly Lookup[];
  /** Tuples without a condition count, others do not. Else those with one are found as well, and the row must be tested. */
  readonly exact: boolean;
  /** What columns of the rows answer. */
  readonly matches: readonly ColumnMatch[];
  /** What of the stored lookups is not the same for all, by the name of its column. */
  readonly columns: ReadonlyMap<string, string | Buffer>;
  /** The stored lookups, as few searches of an index. */
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
  readonly ids: string | Buffer;
}

/** Somebody who acts through a thousand teams is looked up by two searches instead of some thousands. */
function groupsOf(lookups: readonly Lookup[]): readonly LookupGroup[] {
  const byKind = Map.groupBy(lookups, ({ subject, rule }) =>
    JSON.stringify([subject.type, subject.relation, rule.relation]),
  );
  const groups = new Map<string, LookupGroup>();
  for (const [kind, all] of byKind) {
    const [type = '', setRelation = '', relation = ''] = JSON.parse(kind) as string[];
    const listed = [...new Set(all.map(({ subject }) => subject.id))].sort();
    const key = JSON.stringify([type, setRelation, listed]);
    const relations = [...(groups.get(key)?.relations ?? []), relation].sort();
    groups.set(key, { type, setRelation, relations, ids: listValue(listed, 'text') });
  }
  return [...groups.values()];
}

export function rowSource(
  { type, exact, from }: Pick<RowSource, 'type' | 'exact' | 'from'>,
  lookups: readonly Lookup[],
): RowSource {
  const replaced = from.fields.filter(isReplacing).map(({ relation }) => relation);
  const stored = lookups.filter(({ rule }) => !replaced.includes(rule.relation));
  const columnOf = (read: (lookup: Lookup) => string): string | Buffer =>
    listValue(stored.map(read), 'text');
  const columns = new Map([
    ['s_type', columnOf((l) => l.subject.type)],
    ['s_id', columnOf((l) => l.subject.id)],
    ['relation', columnOf((l) => l.rule.relation)],
  ]);
  // Most models know no subject sets: what is constant costs nothing as text.
  if (stored.some((l) => l.subject.relation !== ''))
    columns.set(
      's_relation',
      columnOf((l) => l.subject.relation),
    );
  const matches = columnMatches(lookups, from.fields);
  return { type, lookups, stored, matches, exact, columns, groups: groupsOf(stored), from };
}

type Next = (value: unknown) => string;

/** Lookups `l` as a relation; in sub-selects, so that one plan fits all (tuple-loading.ts). */
export const lookupsIn = ({ columns }: RowSource, next: Next): string =>
  `unnest(${[...columns.values()].map((values) => `(select ${next(values)}::text[])`).join(', ')}) l(${[...columns.keys()].join(', ')})`;

/** Stored tuples `t` of a lookup `l` that count. */
export const foundBy = ({ type, exact, columns }: RowSource): string =>
  `t.subject_type = l.s_type and t.subject_id = l.s_id and t.subject_relation = ${columns.has('s_relation') ? 'l.s_relation' : `''`}
   and t.resource_type = ${literalOf(type, 'text')} and t.relation = l.relation and ${liveTuple('t')}${exact ? ' and t.condition is null' : ''}`;

/**
 * Whole rows `d` of `rows` (what stands behind `from`) that are found, each once. Those that columns lead to are read from
 * the index of the columns, all others by their ids: a list of them is a value, of which each is taken once.
 */
export function foundRows(source: RowSource, rows: string, next: Next): string {
  const named = disjointTests(source, next).map(
    (test) => `select d.* from ${rows} d where ${test}`,
  );
  const ids = foundTuples(source, next).map((tuples) => `select r.id from (${tuples} offset 0) r`);
  const stored =
    ids.length === 0
      ? []
      : [
          `select d.* from ${rows} d where d."_id" = any(array(${ids.join(' union all ')})) and ${unmatchedTest(source, next)}`,
        ];
  const all = [...named, ...stored];
  return all.length === 0 ? `select d.* from ${rows} d where false` : all.join(' union all ');
}

/**
 * Ids of all rows that are found. Ids of resources that are no row ids lead to no row. `start`: what stored tuples lead to
 * in front of this id may be left out.
 */
export function foundIds(source: RowSource, next: Next, start?: string): string {
  const all = [
    ...storedIds(source, next, start),
    ...columnIds(source, tableName(source.type), next),
  ];
  return all.length === 0 ? nothingFound : all.join(' union all ');
}

/**
 * Whether a row is found, asked of the row itself (`alias`): what it says is not looked for. `undefined` where rows say
 * nothing but beside stored tuples, of which nearly all lead there.
 */
export function foundByRow(
  source: RowSource,
  { id, alias }: { readonly id: string; readonly alias: string | undefined },
  next: Next,
): string | undefined {
  if (alias === undefined || !source.from.fields.some(isReplacing)) return undefined;
  const ids = storedIds(source, next).join(' union all ') || nothingFound;
  const said = matchedTest(source, next, alias);
  return `${said === undefined ? '' : `${said} or `}(${id} in (${ids})) is true`;
}

const storedIds = (source: RowSource, next: Next, start?: string): readonly string[] =>
  (start === undefined
    ? foundTuples(source, next)
    : orderedTuples(source, next, 't.resource_uuid as id').map(
        (tuples) => tuples + behindStart(start, next),
      )
  ).map((tuples) => `select r.id from (${tuples} offset 0) r where r.id is not null`);

/** Of tuples `t`: the id of a row is not in front of this one. Ids are written in one way only, so the order of texts is theirs. */
const behindStart = (start: string | undefined, next: Next): string =>
  start === undefined ? '' : ` and t.resource_id >= (select ${next(start)}::text)`;

export const nothingFound = 'select null::uuid as id where false';

/** Selects of `id` and `row_of` of the stored tuples of all lookups. */
export const foundTuples = (source: RowSource, next: Next): readonly string[] =>
  groupTuples(source, next, 't.resource_uuid as id, t.row_of', 't.condition is null');

/**
 * The same, to be asked by their ids: the index in the order of the ids serves them. In these words the condition does not
 * fit that of the index that counts them, which PostgreSQL takes for as good.
 */
export const orderedTuples = (source: RowSource, next: Next, columns: string): readonly string[] =>
  groupTuples(source, next, columns, 'num_nulls(t.condition) = 1');

const groupTuples = (
  { type, exact, groups }: RowSource,
  next: Next,
  columns: string,
  withoutCondition: string,
): readonly string[] =>
  groups.map(
    ({ type: subjectType, setRelation, relations, ids }) =>
      `select ${columns} from penstock.tuples t where t.subject_type = ${literalOf(subjectType, 'text')} and t.subject_id = any((select ${next(ids)}::text[])::text[])` +
      ` and t.subject_relation = ${literalOf(setRelation, 'text')} and t.resource_type = ${literalOf(type, 'text')}` +
      ` and t.relation in (${relations.map((word) => literalOf(word, 'text')).join(', ')}) and ${liveTuple('t')}${exact ? ` and ${withoutCondition}` : ''}`,
  );

interface FirstRows {
  /** Where the rows come from; stands where a table may stand. */
  readonly rows: string;
  /** How many (SQL, a number). */
  readonly count: string;
  /** What a row must fulfil besides, of its id and, unless `testsIds`, of the row `d`. */
  readonly test?: (id: string, alias?: string) => string;
  readonly testsIds: boolean;
  /** The same of rows that columns lead to, where it is another one. */
  readonly testBeside?: (id: string, alias: string) => string;
  /** No stored tuple leads to a row in front of this id that fulfils the test. */
  readonly start: string | undefined;
  /** Another order than that of the ids (SQL over `d`). */
  readonly order: string | undefined;
  /** An id (SQL) that stands in front of all rows. */
  readonly after: string | undefined;
}

/** The first rows of each lookup in order, some more than once: the first of all are among them. */
export function firstRows(
  source: RowSource,
  { rows, count, test, testsIds, testBeside, start, order, after }: FirstRows,
  next: Next,
): string {
  // The offset makes the row a
  // question per tuple: as a join it might be answered for all tuples before the first is taken.
  const ofRow = test && !testsIds ? ` and (${test('d."_id"', 'd')})` : '';
  const ofId = test && testsIds ? ` and (${test('t.resource_uuid')})` : '';
  // Else a later page would pass all tuples of the pages before it.
  const behind =
    (after ? ` and t.resource_id > (select (${after}::uuid)::text)` : '') +
    behindStart(start, next);
  const lookups = lookupsIn(source, next);
  const stored = `select r.* from ${lookups} cross join lateral (
    select d.* from (select t.resource_id, t.resource_uuid from penstock.tuples t where ${foundBy(source)}${behind}${ofId}) t
      cross join lateral (select * from ${rows} d where d."_id" = t.resource_uuid offset 0) d
     where true${ofRow} order by ${order ?? 't.resource_id'} limit ${count}) r${anyStored(source, next)}`;
  const ofNamed = testBeside ?? (testsIds ? (id: string) => test?.(id) : test);
  const tested = (): string => (test ? ` and (${ofNamed?.('d."_id"', 'd')})` : '');
  const beside = source.matches.map((match) => {
    const named = namedIn(match, next);
    return `select r.* from ${named.from}(select d.* from ${rows} d where ${named.test}${tested()}
     order by ${order ?? 'd."_id"'} limit ${count}) r`;
  });
  return [stored, ...beside].join(' union all ');
}

/** `where ...`: nothing is looked up one by one where nothing is stored, as for those who see their own rows alone. */
function anyStored(source: RowSource, next: Next): string {
  if (source.from.fields.length === 0 || !isProduct(source)) return '';
  return ` where exists (select 1 from penstock.tuples t where ${storedAtOnce(source, next)})`;
}

/** True when every subject is looked up in every relation. */
function isProduct({ stored: lookups, columns }: RowSource): boolean {
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
