/**
 * How many tuples a subject's lookups find, roughly. It decides only which of
 * several exact ways is taken, so it may rest on what was found a while ago.
 */

import { tableName } from '../../../../data/schema/compile/layout.ts';
import type { Queryable, Statement } from '../../../../kernel/database/database.ts';
import { literalOf } from '../../../../kernel/database/literal.ts';
import { createLru } from '../../../../kernel/lru.ts';
import { formatSubject } from '../../model/grammar.ts';
import { type FieldRelation, keyOf } from '../../model/model.ts';
import type { EngineScope } from '../ask.ts';
import type { Lookup } from '../reverse-expansion.ts';
import { sourcedStatement, storedTuples } from '../tuple-source.ts';
import { isReplacing } from './row-columns.ts';
import {
  lookupColumns,
  lookupCondition,
  lookupKey,
  lookupRows,
  lookupSource,
  type RowSearch,
} from './row-sources.ts';

/*
 * How many rows say in columns that a subject stands in a relation to them, as the statistics of PostgreSQL have it: no
 * row is looked at. It is an estimate, or nothing where the statistics are missing or too old to say.
 */

const PAGE_BYTES = 8_192;
/** Of a row, roughly, in a table without statistics. */
const ROW_BYTES = 100;
/** So many pages have no more rows than few. */
const SMALL_PAGES = 8;
/** A table that has grown by more since its statistics were made is another one. */
const GROWTH = 2;

/**
 * The estimate for lookups `l` (what stands behind `from`) as an expression of SQL, null if there is none. A value that
 * is not among the most common ones has its share of what these leave.
 */
function estimatedRows(lookups: string, columns: readonly FieldRelation[]): string {
  return columns.map((column) => `(${estimateOf(lookups, column)})`).join(' + ');
}

function estimateOf(lookups: string, { type, relation, field }: FieldRelation): string {
  // Statistics of lists say nothing of how many rows have one of several elements.
  if (field.many) return 'null::float8';
  const asked = `from ${lookups} where l.relation = ${literalOf(relation, 'text')} and l.s_relation = ''`;
  const sum = `select coalesce(sum(s.total * coalesce(s.shares[array_position(s.common, l.s_id)], s.share)), 0) ${asked}`;
  return `select case
      when s.pages <= ${SMALL_PAGES} then 0
      when s.pages <= ${GROWTH} * s.known_pages and s.known then (${sum})
    end from (${statistics(type, field.field)}) s`;
}

/** One row about a column: size of its table, whether its values are `known`, the common values with the share of rows of each, and the share of any other value. */
const statistics = (type: string, column: string): string => `
  select c.relpages as known_pages, c.pages, c.pages * c.reltuples / greatest(c.relpages, 1) as total,
    p.attname is not null as known, p.common, p.most_common_freqs as shares,
    greatest(1 - p.null_frac - coalesce((select sum(f) from unnest(p.most_common_freqs) f), 0), 0)
      / greatest(case when p.n_distinct < 0 then -p.n_distinct * c.reltuples else p.n_distinct end - coalesce(cardinality(p.common), 0), 1) as share
  from (select k.*, pg_relation_size(k.oid) / ${PAGE_BYTES} as pages from pg_catalog.pg_class k
      where k.oid = ${literalOf(tableName(type), 'regclass')} and k.relkind = 'r' offset 0) c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join (select v.*, v.most_common_vals::text::text[] as common from pg_catalog.pg_stats v where not v.inherited) p
      on p.schemaname = n.nspname and p.tablename = c.relname and p.attname = ${literalOf(column, 'text')}
  offset 0`;

/** Up to this many tuples lead to few rows. */
const FEW = 1_000;
/** An estimate of up to this many means few. */
const LIKELY_FEW = FEW / 2;
/** Up to this many to some. */
const MOST = 20_000;
/** So many are counted: from their share of all rows it follows how many are asked for a page. */
const COUNTED = 50_000;
/** Of more lookups none is likely to be most of all. */
const COUNTED_LOOKUPS = 200;
/** Everything is at most so many times what nearly everything is. */
const NEARLY = 1.1;
const HINTS = 10_000;
const HINT_MS = 60_000;
/** Of many it takes longer to count them, and until they are others. */
const LONG_HINT_MS = 300_000;

export interface Size {
  /** How many rows the subject sees: few and some are found from its tuples, of many each row is asked where that may end early. */
  readonly amount: 'few' | 'some' | 'many';
  /** Few of them are found from stored tuples; all others say it in columns, which have indexes for orders. */
  readonly storedFew: boolean;
  /** Most of the tuples are known to lead to rows, so that they can be counted without looking for those. */
  readonly known: boolean;
  /** `lookupKey` of the one that finds nearly everything, where there is such a one. */
  readonly largest: string | undefined;
  /** Rows that the subject sees, counted up to `COUNTED` of each lookup. */
  readonly seen: number;
  /** Rows of the table, as its statistics have it; 0 where that is not known. */
  readonly total: number;
}

/** Asking about one row takes about as long as finding so many by one search. */
const ASKED_OR_FOUND = 8;

/** Whether some rows are found as a whole in less time than each of the others takes to be asked about them. */
export function isFoundSooner({ seen, total }: Size, others: Pick<Size, 'seen'>): boolean {
  // It was counted no further: it may be as many as there are, and it is not always known how many.
  const most = seen < COUNTED ? seen : Math.max(seen, total || Number.POSITIVE_INFINITY);
  return most <= ASKED_OR_FOUND * others.seen;
}

export interface SizeEstimates {
  get(key: string): Size | undefined;
  set(key: string, size: Size): unknown;
}

/** Without the cache's own time to live, whose timers would wake the process once a millisecond. */
export function createSizeEstimates(): SizeEstimates {
  const hints = createLru<string, { readonly size: Size; readonly until: number }>(HINTS);
  return {
    get(key) {
      const hint = hints.get(key);
      return hint && hint.until > performance.now() ? hint.size : undefined;
    },
    set(key, size) {
      const lasts = size.amount === 'many' ? LONG_HINT_MS : HINT_MS;
      return hints.set(key, { size, until: performance.now() + lasts });
    },
  };
}

/** Rows of the table of a name ($7), by its size and its statistics. */
const totalRows = `coalesce((select case when c.reltuples > 0 and c.relpages > 0 then c.reltuples / c.relpages * (pg_relation_size(c.oid) / ${PAGE_BYTES})
      else pg_relation_size(c.oid) / ${ROW_BYTES} end from pg_catalog.pg_class c where c.oid = to_regclass($7::text) and c.relkind = 'r'), 0)::float8`;

const fewStatement = sourcedStatement(
  (
    from,
  ) => `select count(*)::integer as count, count(*) filter (where x.row_of is not null)::integer as known, ${totalRows} as total from (
  select r.row_of from ${lookupRows((i) => `$${i + 1}`)}
    cross join lateral (select t.row_of from ${from.rows} t where ${lookupCondition(from, '$6::text')} limit ${FEW + 1}) r
  limit ${FEW + 1}) x`,
);

/** Stored tuples, and what the columns beside them are likely to add: no table of records is read. */
const likelyStatement = sourcedStatement((from) => {
  const lookups = lookupRows((i) => `$${i + 1}`);
  const replaced = from.fields.filter(isReplacing).map(({ relation }) => relation);
  const stored =
    replaced.length === 0
      ? lookups
      : `(select l.* from ${lookups} where l.relation <> all(${literalOf(replaced, 'text[]')})) l`;
  return `select count(*)::integer as count, count(*) filter (where x.row_of is not null)::integer as known, (select ${estimatedRows(lookups, from.fields)})::float8 as estimated, ${totalRows} as total from (
  select r.row_of from ${stored}
    cross join lateral (select t.row_of from ${storedTuples.rows} t where ${lookupCondition(storedTuples, '$6::text')} limit ${FEW + 1}) r
  limit ${FEW + 1}) x`;
});

const sizesStatement = sourcedStatement(
  (
    from,
  ) => `select l.n::integer as n, r.count::integer as count from ${lookupRows((i) => `$${i + 1}`, true)}
    cross join lateral (select count(*) from (select 1 from ${from.rows} t where ${lookupCondition(from, '$6::text')} limit ${COUNTED}) c) r
  where r.count > 0`,
);

const totalStatement = sourcedStatement(
  (from) => `select count(*)::integer as count from (
  select 1 from ${lookupRows((i) => `$${i + 1}`)}
    cross join lateral (select 1 from ${from.rows} t where ${lookupCondition(from, '$6::text')} limit ${COUNTED}) r
  limit ${COUNTED}) x`,
);

const sizeKey = ({ subject, goal }: Pick<RowSearch, 'subject' | 'goal'>): string =>
  `${formatSubject(subject)} ${keyOf(goal)}`;

/** What is known. */
export const keptSize = (
  search: Pick<RowSearch, 'subject' | 'goal'>,
  hints: SizeEstimates,
): Size | undefined => hints.get(sizeKey(search));

/** What is known, or found now. */
export async function sizeOf(
  engineScope: EngineScope,
  search: RowSearch,
  lookups: readonly Lookup[],
  hints: SizeEstimates,
): Promise<Size> {
  const known = keptSize(search, hints);
  if (known) return known;
  const size = await measure(engineScope, search, lookups);
  hints.set(sizeKey(search), size);
  return size;
}

async function measure(
  { model, database }: EngineScope,
  { goal }: RowSearch,
  lookups: readonly Lookup[],
): Promise<Size> {
  const values = [...lookupColumns(lookups), goal.type];
  const tableValues = [...values, tableName(goal.type)];
  const from = lookupSource(model, lookups);
  let storedFew = false;
  if (from.fields.length > 0) {
    const statement = { ...likelyStatement(from), values: tableValues };
    const { isEstimated, ...likely } = await likelySize(database, statement);
    // To count what fields say would be as many searches as there are objects.
    const isEnough = isEstimated && likely.storedFew && from.fields.some(isReplacing);
    const amount = likely.amount ?? (isEnough ? amountOf(likely.seen) : undefined);
    if (amount) return { ...likely, amount, largest: undefined };
    ({ storedFew } = likely);
  }
  const { rows } = await database.query<{ count: number; known: number; total: number }>({
    ...fewStatement(from),
    values: tableValues,
  });
  const { count: some, known: ofThem, total } = rows[0] ?? { count: 0, known: 0, total: 0 };
  const common = { storedFew, known: ofThem * 2 >= some, total };
  if (some <= FEW) return { ...common, amount: 'few', largest: undefined, seen: some };
  if (lookups.length > COUNTED_LOOKUPS) {
    const all = await database.query<{ count: number }>({ ...totalStatement(from), values });
    const seen = all.rows[0]?.count ?? 0;
    return { ...common, amount: amountOf(seen), largest: undefined, seen };
  }
  const { rows: counts } = await database.query<{ n: number; count: number }>({
    ...sizesStatement(from),
    values,
  });
  const seen = counts.reduce((sum, { count }) => sum + count, 0);
  const most = counts.reduce((a, b) => (b.count > a.count ? b : a), { n: 0, count: 0 });
  const isNearlyAll = common.known && most.count * NEARLY >= seen;
  const largest = isNearlyAll ? lookups[most.n - 1] : undefined;
  return {
    ...common,
    amount: most.count >= MOST ? 'many' : amountOf(seen),
    largest: largest && lookupKey(largest),
    seen,
  };
}

interface Likely {
  readonly count: number;
  readonly known: number;
  readonly estimated: number | null;
  readonly total: number;
}

/** By what is stored and what statistics say of columns; no amount where they are more than few or it is not known. */
async function likelySize(
  database: Queryable,
  statement: Statement,
): Promise<
  Omit<Size, 'amount' | 'largest'> & {
    readonly amount: 'few' | undefined;
    readonly isEstimated: boolean;
  }
> {
  const { rows } = await database.query<Likely>(statement);
  const { count, known, estimated, total } = rows[0] ?? nothingLikely;
  return {
    amount: estimated !== null && count + estimated <= LIKELY_FEW ? 'few' : undefined,
    isEstimated: estimated !== null,
    known: known * 2 >= count,
    storedFew: count <= FEW,
    seen: count + (estimated ?? 0),
    total,
  };
}

const nothingLikely: Likely = { count: 0, known: 0, estimated: null, total: 0 };

const amountOf = (count: number): Size['amount'] => (count > MOST ? 'many' : 'some');
