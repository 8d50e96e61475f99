/**
 * The rows on which a subject may act, found from the tuples that lead to them
 * (SQL): all of them as a set, the first of them in order, or just their number.
 */
import { literalOf } from '../../../kernel/database/literal.ts';
import { arrayText } from './array-text.ts';
import type { Lookup } from './ascend.ts';
import { lookupKey } from './lookups.ts';
import { liveTuple } from './tuple-row.ts';

export interface RowSource {
  /** The type of the rows. */
  readonly type: string;
  /** Every row on which the subject may act is found by one of them. */
  readonly lookups: readonly Lookup[];
  /** Tuples without a condition count, others do not. Else those with one are found as well, and the row must be tested. */
  readonly exact: boolean;
  /** What of the lookups is not the same for all, by the name of its column. */
  readonly columns: ReadonlyMap<string, string>;
}

export function rowSource(type: string, lookups: readonly Lookup[], exact: boolean): RowSource {
  const columns = new Map([
    ['s_type', arrayText(lookups.map((l) => l.subject.type))],
    ['s_id', arrayText(lookups.map((l) => l.subject.id))],
    ['relation', arrayText(lookups.map((l) => l.rule.relation))],
  ]);
  // Most models know no subject sets: what is constant costs nothing as text.
  if (lookups.some((l) => l.subject.relation !== '')) columns.set('s_relation', arrayText(lookups.map((l) => l.subject.relation)));
  return { type, lookups, exact, columns };
}

type Next = (value: unknown) => string;

/** Lookups `l` as a relation; in sub-selects, so that one plan fits all (load.ts). */
const lookupsIn = ({ columns }: RowSource, next: Next): string =>
  `unnest(${[...columns.values()].map((values) => `(select ${next(values)}::text[])`).join(', ')}) l(${[...columns.keys()].join(', ')})`;

/** Tuples `t` of a lookup `l` that count. */
const foundBy = ({ type, exact, columns }: RowSource): string =>
  `t.subject_type = l.s_type and t.subject_id = l.s_id and t.subject_relation = ${columns.has('s_relation') ? 'l.s_relation' : `''`}
   and t.resource_type = ${literalOf(type, 'text')} and t.relation = l.relation and ${liveTuple('t')}${exact ? ' and t.condition is null' : ''}`;

/** Ids of all rows that are found. Ids of resources that are no row ids lead to no row. */
export const foundIds = (source: RowSource, next: Next): string =>
  `select r.id from ${lookupsIn(source, next)} cross join lateral (
    select t.resource_uuid as id from penstock.tuples t where ${foundBy(source)} offset 0) r where r.id is not null`;

export interface FirstRows {
  /** Where the rows come from; stands where a table may stand. */
  readonly rows: string;
  /** How many (SQL, a number). */
  readonly count: string;
  /** What the row `d` must fulfil besides, if anything. */
  readonly test: string | undefined;
}

/** The first rows of each lookup in the order of the ids, some more than once: the first of all are among them. */
export function firstRows(source: RowSource, { rows, count, test }: FirstRows, next: Next): string {
  // Ids of rows are written in one way only, so the order of the texts is theirs. The offset makes the row a
  // question per tuple: as a join it might be answered for all tuples before the first is taken.
  return `select r.* from ${lookupsIn(source, next)} cross join lateral (
    select d.* from penstock.tuples t cross join lateral (select * from ${rows} d where d."_id" = t.resource_uuid offset 0) d
     where ${foundBy(source)}${test === undefined ? '' : ` and (${test})`}
     order by t.resource_id limit ${count}) r`;
}

export interface CountedRows {
  /** Quoted name of the table. */
  readonly table: string;
  /** `lookupKey` of the lookup that finds most. */
  readonly largest: string | undefined;
}

/**
 * The number of rows of a table that are found, where each lookup is exact. A tuple that is known to lead to a row of the
 * table is counted from the index alone; of others the row is looked for. The lookup that finds most is counted as it
 * is: within one lookup each row stands once. What the others find counts where that one does not find it as well.
 */
export function rowCount(source: RowSource, { table, largest }: CountedRows, next: Next): string {
  const index = source.lookups.findIndex((lookup) => lookupKey(lookup) === largest);
  const first = source.lookups[index];
  if (!first) return `(select count(*) from (select distinct id from (${existingRows(source, table, next)}) f) x)`;
  const others = rowSource(source.type, source.lookups.toSpliced(index, 1), true);
  const same =
    `t.subject_type = ${next(first.subject.type)} and t.subject_id = ${next(first.subject.id)} and t.subject_relation = ${next(first.subject.relation)}` +
    ` and t.resource_type = ${literalOf(source.type, 'text')} and t.relation = ${next(first.rule.relation)} and t.condition is null and ${liveTuple('t')}`;
  const known = `${same} and t.row_of = ${oidOf(table)}`;
  const unknown = ['is null', `< ${oidOf(table)}`, `> ${oidOf(table)}`].map(
    (range) =>
      `select t.resource_uuid as id from penstock.tuples t where ${same} and t.row_of ${range} and t.resource_uuid is not null and ${isRow(table, 't.resource_uuid')}`,
  );
  const rest = [existingRows(others, table, next), ...unknown].join(' union all ');
  const again = `exists (select 1 from penstock.tuples t where ${known} and t.resource_uuid = f.id offset 0)`;
  return `((select count(*) from penstock.tuples t where ${known}) + (select count(*) from (select distinct f.id from (${rest}) f where not ${again}) x))`;
}

const oidOf = (table: string): string => `${literalOf(table, 'regclass')}::oid`;

const isRow = (table: string, id: string): string => `exists (select 1 from ${table} d where d."_id" = ${id} offset 0)`;

/** Ids of rows that are there, possibly more than once. */
const existingRows = (source: RowSource, table: string, next: Next): string =>
  `select r.id from ${lookupsIn(source, next)} cross join lateral (
    select t.resource_uuid as id, t.row_of from penstock.tuples t where ${foundBy(source)} offset 0) r
   where r.id is not null and (r.row_of is not distinct from ${oidOf(table)} or ${isRow(table, 'r.id')})`;
