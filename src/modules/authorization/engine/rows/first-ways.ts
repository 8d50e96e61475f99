/**
 * The first rows that a subject may act on, in an order. Rows can be asked one after the other along an index that gives
 * the order, until there are enough: fast for who sees a good part of all. They can be merged from the first ones of each
 * lookup. Or everything that the subject sees is found and put in order. Which is the fastest follows from sizes; all of
 * them are right.
 */
import type { FirstWay, RowOrder, RowPredicate } from '../../../../kernel/permissions.ts';
import { firstRows, type RowSource } from './row-sources.ts';
import type { Size } from './size-estimate.ts';

/** Microseconds, roughly: a row that is asked, a row that is found, a lookup, and a row that a lookup gives. */
const costs = { asked: 4, found: 0.25, lookup: 4, given: 1.5 };
/** Ids that the first rows of a page may be merged from. */
const MOST_MERGED = 20_000;
/** So many times the rows that are likely to be needed are asked before another way is taken. */
const SPARE = 3;
const LEAST_WALKED = 32;
const MOST_WALKED = 8_192;
/** Rows of a table, and lookups: beyond them what somebody sees is not gathered for a page. */
const MOST_GATHERED = 1_000_000;
const MOST_GATHERED_LOOKUPS = 500;

type Next = (value: unknown) => string;

/** Whether the row of an id (SQL) is meant; `alias`: what the row itself is called, where it is at hand. */
export type RowTest = (id: string, next: Next, alias?: string) => string;

/** What of a plan of rows (row-pieces.ts) is needed here. */
interface FoundRows {
  readonly exact: boolean;
  readonly self: string | undefined;
  readonly taken: object | undefined;
}

export interface FirstParts {
  readonly size: Size;
  readonly takenSize: Size | undefined;
  /** Asked of the row. */
  readonly tested: RowPredicate['compile'];
  /** Among what is found. */
  readonly found: RowTest;
  /** What is left to ask of a row that was found. */
  readonly stands: RowTest;
}

export interface FirstWays {
  way(count: number, order: RowOrder): FirstWay | undefined;
  /** One of each kind. */
  ways(): readonly FirstWay[];
}

export function firstWays(plan: FoundRows, source: RowSource, parts: FirstParts): FirstWays {
  const merged = mergedWay(plan, source, parts);
  const asked = askedWay(parts);
  const { size } = parts;
  const lookups = Math.max(1, source.lookups.length);
  const isGathered = size.total <= MOST_GATHERED && lookups <= MOST_GATHERED_LOOKUPS;

  function along(count: number, order: RowOrder): FirstWay | undefined {
    const window = windowOf(count, size);
    if (isGathered && window > MOST_WALKED) return undefined;
    const isWorth =
      size.amount === 'many' || 2 * walkingCost(count, size) < size.seen * costs.found;
    if (!isWorth) return undefined;
    return isGathered ? walkedWay(parts, window, order === 'ids' ? merged : undefined) : asked;
  }

  return {
    ways: () => [...(merged ? [merged] : []), walkedWay(parts, LEAST_WALKED, undefined), asked],
    way(count, order) {
      const isWalked = order !== 'sorted' && size.total > 0;
      if (!merged || !mayMerge(size, lookups * count, order))
        return isWalked ? along(count, order) : undefined;
      if (!isWalked || order !== 'ids' || size.amount === 'few') return merged;
      const window = windowOf(count, size);
      const isSooner = walkingCost(count, size) < mergingCost(count, lookups, parts);
      return isSooner && window <= MOST_WALKED ? walkedWay(parts, window, merged) : merged;
    },
  };
}

/** In the order of a field: few rows lead there by stored tuples, and an index says in order what the subject owns. */
const mayMerge = ({ storedFew, amount }: Size, ids: number, order: RowOrder): boolean =>
  ids <= MOST_MERGED && (order === 'ids' || (storedFew && amount !== 'few'));

/** Rows that are likely to be asked until so many are there. */
const neededFor = (count: number, { seen, total }: Size): number =>
  (count * total) / Math.max(1, Math.min(seen, total));

const walkingCost = (count: number, size: Size): number => neededFor(count, size) * costs.asked;

const mergingCost = (count: number, lookups: number, { takenSize }: FirstParts): number =>
  lookups * (costs.lookup + count * costs.given) + (takenSize?.seen ?? 0) * costs.found;

/** A power of two: few texts for all sizes. */
const windowOf = (count: number, size: Size): number =>
  2 ** Math.ceil(Math.log2(Math.max(LEAST_WALKED, SPARE * neededFor(count, size))));

const idOrder = 'd."_id"';

/** Along the order, however far. */
const askedWay = ({ tested }: FirstParts): FirstWay => ({
  key: 'ask',
  compile: ({ rows, count, order = idOrder }, next) =>
    `select d.* from ${rows} d where ${tested(idOrder, next, 'row', 'd')} order by ${order} limit ${count}`,
});

/** Along the order as far as the window; where that is not enough, by `others`, else by what is found. */
function walkedWay(
  { tested, found }: FirstParts,
  window: number,
  others: FirstWay | undefined,
): FirstWay {
  return {
    key: `walk ${window}${others ? ` or ${others.key}` : ''}`,
    compile(requested, next) {
      const { rows, count, order = idOrder } = requested;
      const near = `select d.* from ${rows} d order by ${order} limit ${window}`;
      const walked = `select d.* from (${near}) d where ${tested(idOrder, next, 'row', 'd')} order by ${order} limit ${count}`;
      const all = others
        ? others.compile(requested, next)
        : `select d.* from ${rows} d where ${found(idOrder, next, 'd')} order by ${order} limit ${count}`;
      return `with walked as materialized (${walked}) select * from walked where (select count(*) from walked) >= ${count}
  union all select * from (${all}) f where (select count(*) from walked) < ${count}`;
    },
  };
}

/** By the first rows of each lookup. The order of ids is no order of an index of a field: of that none is there. */
function mergedWay(
  { exact, self, taken }: FoundRows,
  source: RowSource,
  { stands, takenSize }: FirstParts,
): FirstWay | undefined {
  if (!source.from.beside) return undefined;
  // What was taken away as a whole is known by the id: the row itself is not looked at.
  const testsIds = taken !== undefined && takenSize?.amount !== 'many';
  return {
    key: 'merge',
    compile({ rows, count, order }, next) {
      const test = (id: string, alias?: string): string => stands(id, next, alias);
      const requested = { rows, count, order, testsIds, ...(!exact && { test }) };
      const found = firstRows(source, requested, next);
      const own =
        self === undefined
          ? ''
          : ` union all select * from ${rows} d where d."_id"::text = ${next(self)}::text`;
      return `select distinct on (f."_id") f.* from (${found}${own}) f order by f."_id"`;
    },
  };
}
