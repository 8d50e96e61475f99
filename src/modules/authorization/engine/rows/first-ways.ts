/**
 * The first rows that a subject may act on, in an order. Rows can be asked one after the other along an index that gives
 * the order, until there are enough: fast for who sees a good part of all. They can be merged from the first ones of each
 * lookup. Or everything that the subject sees is found and put in order. Which is the fastest follows from sizes; all of
 * them are right.
 */
import type { FirstWay, RowOrder } from '../../../../kernel/permissions.ts';
import { isReplacing } from './row-columns.ts';
import { firstRows, type RowSource } from './row-sources.ts';
import type { RowStart } from './row-start.ts';
import type { Size } from './size-estimate.ts';

/** Microseconds, roughly: a row that is asked beside others, a row that is found, a lookup, and a row that a lookup gives. */
const costs = { asked: 2, found: 0.25, lookup: 4, given: 1.5 };
/** Ids that the first rows of a page may be merged from. */
const MAX_MERGED = 20_000;
/** So many times the rows that are likely to be needed are asked together; where they are not enough, another way is taken. */
const SPARE = 1.4;
const MIN_WALKED = 32;
const MAX_WALKED = 8_192;
/** A page that looks at up to so many rows is nearly as short as single reads. */
const FEW_ASKED = 512;
/** Ids with which a statement is sent behind others: the values of larger ones take as long as their rows. */
export const MAX_SENT = 200;
/** Rows of a table, and lookups: beyond them what somebody sees is not gathered for a page. */
const MAX_GATHERED = 1_000_000;
const MAX_GATHERED_LOOKUPS = 500;

type Next = (value: unknown) => string;

/** Whether the row of an id (SQL) is meant; `alias`: what the row itself is called, where it is at hand. */
export type RowTest = (id: string, next: Next, alias?: string) => string;

/** What of a plan of rows (row-pieces.ts) is needed here. */
interface FoundRows {
  readonly exact: boolean;
  readonly self: string | undefined;
  readonly taken: object | undefined;
  readonly principals: { readonly length: number };
}

export interface FirstParts {
  readonly size: Size;
  readonly takenSize: Size | undefined;
  readonly start: RowStart | undefined;
  /** Asked of one row after the other, of so many at most. */
  readonly oneByOne: (rows: number) => RowTest;
  /** Asked of many rows at once, of which these are the ids (SQL, a list of texts). */
  readonly together: (id: string, next: Next, alias: string, ids: string) => string;
  /** Among what is found. */
  readonly found: RowTest;
  /** What is taken away is found as a whole sooner than all that the subject sees are asked about it. */
  readonly isWhole: boolean;
  /** What is left to ask of a row that was found; with `whole`, what is taken away (from `start` on) is found as a whole for it. */
  readonly standsAmong: (whole: boolean, start?: string) => RowTest;
}

export interface FirstWays {
  way(count: number, order: RowOrder): FirstWay | undefined;
  /** One of each kind. */
  ways(): readonly FirstWay[];
}

export function firstWays(plan: FoundRows, source: RowSource, parts: FirstParts): FirstWays {
  const isManyTaken = parts.takenSize?.amount === 'many';
  const isWhole = parts.isWhole || plan.taken === undefined;
  const merged = mergedWay(plan, source, parts, { whole: isWhole && !isManyTaken });
  // Where rows along the order were not enough, those that are taken away lie at its beginning, one after the other.
  const gathered =
    isWhole && isManyTaken ? mergedWay(plan, source, parts, { whole: true }) : merged;
  const { start } = parts;
  const started = start && mergedWay(plan, source, parts, { whole: true, start });
  const isLight = plan.principals.length <= MAX_SENT;
  const walkedWay = (window: number, otherwise: FirstWay): FirstWay =>
    walked(parts, { window, isLight }, otherwise);
  const found = foundWay(parts);
  const asked = askedWay(parts);
  const { size } = parts;
  const lookups = Math.max(1, source.lookups.length);
  const isGathered = size.total <= MAX_GATHERED && lookups <= MAX_GATHERED_LOOKUPS;

  function along(count: number, order: RowOrder): FirstWay | undefined {
    const window = windowOf(count, parts);
    const isFar = window > MAX_WALKED;
    if (isFar) return isGathered ? undefined : asked;
    const isWorth =
      size.amount === 'many' || 2 * walkingCost(count, parts) < size.seen * costs.found;
    if (!isWorth) return undefined;
    if (!isGathered) return walkedWay(window, asked);
    return walkedWay(window, (order === 'ids' && gathered) || found);
  }

  return {
    ways: () => [
      ...(merged ? [merged] : []),
      ...(gathered && gathered !== merged ? [gathered] : []),
      ...(started ? [started] : []),
      ...[walkedWay(MIN_WALKED, found), found, asked],
    ],
    way(count, order) {
      const isWalked = order !== 'sorted' && size.total > 0;
      if (!merged || !mayMerge(size, lookups * count, order))
        return isWalked ? along(count, order) : undefined;
      if (started && order === 'ids') return started;
      if (!isWalked || order !== 'ids' || !isWalkedSooner(count, lookups, parts)) return merged;
      return walkedWay(windowOf(count, parts), gathered ?? found);
    },
  };
}

/** In the order of a field: few rows lead there by stored tuples, and an index says in order what the subject owns. */
const mayMerge = ({ storedFew, amount }: Size, ids: number, order: RowOrder): boolean =>
  ids <= MAX_MERGED && (order === 'ids' || (storedFew && amount !== 'few'));

/** Rows that are likely to be asked until so many are there: what is taken away is taken evenly. */
function neededFor(count: number, { size: { seen, total }, takenSize }: FirstParts): number {
  const left = total > 0 ? Math.max(0.1, 1 - (takenSize?.seen ?? 0) / total) : 1;
  return (count * total) / Math.max(1, Math.min(seen, total) * left);
}

const walkingCost = (count: number, parts: FirstParts): number =>
  SPARE * neededFor(count, parts) * costs.asked;

const mergingCost = (count: number, lookups: number, { takenSize }: FirstParts): number =>
  lookups * (costs.lookup + count * costs.given) + (takenSize?.seen ?? 0) * costs.found;

/** Of few rows the first ones are merged sooner than any are asked. */
const isWalkedSooner = (count: number, lookups: number, parts: FirstParts): boolean =>
  parts.size.amount !== 'few' &&
  windowOf(count, parts) <= MAX_WALKED &&
  walkingCost(count, parts) < mergingCost(count, lookups, parts);

/** A power of two, or halfway between two: few texts for all sizes. */
function windowOf(count: number, parts: FirstParts): number {
  const needed = Math.max(MIN_WALKED, SPARE * neededFor(count, parts));
  const above = 2 ** Math.ceil(Math.log2(needed));
  return needed <= above * 0.75 ? above * 0.75 : above;
}

const idOrder = 'd."_id"';

/** Along the order, however far. */
const askedWay = ({ oneByOne }: FirstParts): FirstWay => ({
  key: 'ask',
  compile: ({ rows, count, order = idOrder }, next) =>
    `select d.* from ${rows} d where ${oneByOne(Number.POSITIVE_INFINITY)(idOrder, next, 'd')} order by ${order} limit ${count}`,
});

/** From everything that is found. */
const foundWay = ({ found }: FirstParts): FirstWay => ({
  key: 'find',
  compile: ({ rows, count, order = idOrder }, next) =>
    `select d.* from ${rows} d where ${found(idOrder, next, 'd')} order by ${order} limit ${count}`,
});

/**
 * Along the order as far as the window. Its rows are asked together where their tuples stand beside each other, by one
 * search; else one by one, until there are enough: a third of the window is spare. Where the window is too small, another statement asks `otherwise`: in this one
 * it would be prepared for each page, and hardly ever run.
 */
const walked = (
  { together, oneByOne }: FirstParts,
  { window, isLight }: { readonly window: number; readonly isLight: boolean },
  otherwise: FirstWay,
): FirstWay => ({
  key: `walk ${window}`,
  otherwise,
  isBounded: isLight && window <= FEW_ASKED,
  compile({ rows, count, order = idOrder }, next) {
    const near = `select d.* from ${rows} d order by ${order} limit ${window}`;
    const first = `order by ${order} limit ${count}`;
    if (!order.startsWith(idOrder))
      return `select d.* from (${near}) d where ${oneByOne(window)(idOrder, next, 'd')} ${first}`;
    const ids = `ids as materialized (select array_agg(n."_id"::text) as list from near n)`;
    const test = together(idOrder, next, 'd', '(select i.list from ids i)');
    return `with near as materialized (${near}), ${ids} select d.* from near d where ${test} ${first}`;
  },
});

interface Merge {
  /** What is taken away is found as a whole. */
  readonly whole: boolean;
  readonly start?: RowStart;
}

/**
 * By the first rows of each lookup. The order of ids is no order of an index of a field: of that none is there. Where it is
 * known where they start, rows that columns lead to are asked one by one: they may stand in front of it.
 */
function mergedWay(
  { exact, self, taken, principals }: FoundRows,
  source: RowSource,
  { standsAmong }: FirstParts,
  { whole, start }: Merge,
): FirstWay | undefined {
  // Of fields no index has the order of the ids as well.
  if (source.from.fields.some(isReplacing)) return undefined;
  const stands = standsAmong(whole, start?.id);
  const standsBeside = start && standsAmong(false);
  // What was taken away as a whole is known by the id: the row itself is not looked at.
  const testsIds = taken !== undefined && whole;
  return {
    key: start ? 'start' : whole ? 'merge' : 'merge asked',
    isBounded: start?.isNear && principals.length <= MAX_SENT,
    compile({ rows, count, order, after }, next) {
      const test = (id: string, alias?: string): string => stands(id, next, alias);
      const requested = {
        ...{ rows, count, order, after, testsIds, start: start?.id, ...(!exact && { test }) },
        ...(standsBeside && { testBeside: (id: string, d: string) => standsBeside(id, next, d) }),
      };
      const found = firstRows(source, requested, next);
      const own =
        self === undefined
          ? ''
          : ` union all select * from ${rows} d where d."_id"::text = ${next(self)}::text`;
      return `select distinct on (f."_id") f.* from (${found}${own}) f order by f."_id"`;
    },
  };
}
