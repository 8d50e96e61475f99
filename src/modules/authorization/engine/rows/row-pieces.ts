/** How a plan of rows becomes pieces of statements: found as a set, the first of them in order, asked one by one, or counted. */
import { createHash } from 'node:crypto';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { RowPredicate, RowUse } from '../../../../kernel/permissions.ts';
import type { Name } from '../../model/model.ts';
import type { CachePlace } from '../grant-cache/grant-cache.ts';
import type { Principal } from '../principals.ts';
import {
  type FirstParts,
  type FirstWays,
  firstWays,
  MAX_SENT,
  type RowTest,
} from './first-ways.ts';
import { never, renderTest, type Test } from './predicate-tree.ts';
import { rowCount } from './row-count.ts';
import { foundByRow, foundIds, foundRows, type RowSource } from './row-sources.ts';
import type { RowStart } from './row-start.ts';
import { isFoundSooner, type Size } from './size-estimate.ts';

/** How rows are found and tested, with the ids of everything beyond them. */
export interface RowPlan {
  readonly exact: boolean;
  readonly test: Test;
  /** Id of the row that the subject itself is. */
  readonly self: string | undefined;
  /** Absent when rows are open without any tuple: then there is no other way than to ask each row. */
  readonly source: RowSource | undefined;
  /** Set where all that is left to ask of a row that the source found is whether it is taken away. */
  readonly taken: Taken | undefined;
  readonly principals: readonly Principal[];
  /** Where few rows are tested, more ids than these are packed (packed-ids.ts); only of a plan that is kept. */
  readonly packedFrom: number | undefined;
  /** It serves more than one question. */
  readonly lasting: boolean;
  /** Where it is kept where the rows begin (row-start.ts). */
  readonly startPlace: CachePlace | undefined;
  /** Where rules are in it: of the records that they speak of. */
  readonly schema: CompiledSchema | undefined;
  /** `RowPredicate.recheck`. */
  readonly recheck: (() => Promise<boolean>) | undefined;
  /** `RowPredicate.isLight`. */
  readonly isLight: boolean;
  /** By what is known of the size. */
  readonly shapes: Map<string, string>;
  /** The one that was asked for last. */
  last: KnownPredicate | undefined;
}

/** What is known of the rows of a plan. Only speed hangs on the sizes. */
export interface KnownOfRows {
  readonly size: Size | undefined;
  /** Of those that are taken away. */
  readonly takenSize: Size | undefined;
  readonly start: RowStart | undefined;
}

interface KnownPredicate extends KnownOfRows {
  readonly predicate: RowPredicate;
}

/** What the subject has that takes rows away from it. */
export interface Taken {
  readonly name: Name;
  /** Whether a row is not taken away. */
  readonly test: Test;
  readonly source: RowSource;
  /** What keeps rows all the same: relations that give the action itself, and what the subject is. */
  readonly granted: RowSource | undefined;
  readonly own: Test;
}

type Pieces = Pick<RowPredicate, 'compile' | 'few' | 'number' | 'many' | 'reached'>;
type CompiledPieces = Pieces & { readonly first?: FirstWays };

/** The predicate of a plan. */
export function compiled(plan: RowPlan, type: string, known: KnownOfRows): RowPredicate {
  const { size, takenSize, start } = known;
  const { last } = plan;
  // What is known is the same object until it is found out again.
  if (last && last.size === size && last.takenSize === takenSize && last.start === start)
    return last.predicate;
  const pieces = piecesOf(plan, type, known);
  const key = `${start?.isNear} ${size?.amount} ${size?.storedFew} ${size?.known} ${size?.largest} ${takenSize?.amount} ${isTakenWhole(size, takenSize)}`;
  const shape = plan.shapes.get(key) ?? shapeOf(pieces);
  plan.shapes.set(key, shape);
  const predicate = {
    ...{ ...pieces, shape, isLight: plan.isLight },
    ...(plan.lasting && { identity: pieces }),
  };
  plan.last = { ...known, predicate };
  return predicate;
}

/** Distinguishes predicates by their text. */
function shapeOf({ compile, few, first, number, reached }: CompiledPieces): string {
  const uses: readonly RowUse[] = ['row', 'rows', 'sorted', 'count'];
  const mark = (): string => '?';
  const texts = [
    ...uses.map((use) => compile('id', mark, use, 'r')),
    few?.('id', mark, 'r') ?? '',
    ...(first?.ways().map((way) => way.compile({ rows: 'rows', count: '?' }, mark)) ?? []),
    number?.('rows', mark) ?? '',
    reached?.compile('rows', mark) ?? '',
  ];
  return createHash('sha256').update(texts.join('\n')).digest('base64url').slice(0, 24);
}

/** Whether what is taken away is looked up once, where all that the subject sees is looked at. */
export const isTakenWhole = (size: Size | undefined, takenSize: Size | undefined): boolean =>
  size !== undefined && takenSize !== undefined && isFoundSooner(takenSize, size);

/** What is still asked of a row that was found: of what is taken away as a whole, whether the row is in it (from `start` on). */
function foundTest(
  { test, taken }: Pick<RowPlan, 'test' | 'taken'>,
  type: string,
  whole: boolean,
  start?: string,
): RowTest {
  return (id, next, alias) => {
    const place = { id, type, next, alias };
    if (!taken) return renderTest(test, place);
    if (!whole) return renderTest(taken.test, place);
    const { granted, own } = taken;
    return [
      `(${id} in (${foundIds(taken.source, next, start)})) is not true`,
      ...(granted ? [`(${id} in (${foundIds(granted, next)})) is true`] : []),
      ...(own === never ? [] : [renderTest(own, place)]),
    ].join(' or ');
  };
}

/** To look for an id among packed ones takes about as long as to put so many into a hash table. */
const IDS_PER_ROW = 4;

function piecesOf(
  plan: RowPlan,
  type: string,
  { size, takenSize, start }: KnownOfRows,
): CompiledPieces {
  const { exact, test, self, source, packedFrom } = plan;
  const tested: RowPredicate['compile'] = (id, next, use, alias) =>
    renderTest(test, { id, type, next, alias, ...(use === 'row' && { packedFrom }) });
  const packedFor = (rows: number): number | undefined =>
    packedFrom === undefined ? undefined : Math.max(packedFrom, rows * IDS_PER_ROW);
  const oneByOne: FirstParts['oneByOne'] = (rows) => (id, next, alias) =>
    renderTest(test, { id, type, next, alias, many: true, packedFrom: packedFor(rows) });
  if (!source || !size) return { compile: tested };
  const isWhole = isTakenWhole(size, takenSize);
  // A page may be full long before everything was asked.
  const stands = foundTest(plan, type, isWhole && takenSize?.amount !== 'many');
  const foundWith =
    (left: RowTest): RowTest =>
    (id, next, alias) => {
      // "is true" makes it a hash table that is filled once, whatever the planner believes about its size.
      const ids = (): string => `${id} in (${foundIds(source, next)})`;
      const isFound =
        size.amount === 'few'
          ? ids()
          : (foundByRow(source, { id, alias }, next) ?? `(${ids()}) is true`);
      const among = `${isFound}${self === undefined ? '' : ` or (${id})::text = ${next(self)}::text`}`;
      return exact ? among : `(${among}) and (${left(id, next, alias)})`;
    };
  const standsAmong: FirstParts['standsAmong'] = (whole, from) =>
    foundTest(plan, type, whole, from);
  const found = foundWith(stands);
  const counted = foundWith(standsAmong(isWhole));
  const compile: RowPredicate['compile'] = (id, next, use = 'rows', alias) =>
    use === 'row' || (use === 'rows' && size.amount === 'many')
      ? tested(id, next, use, alias)
      : (use === 'count' ? counted : found)(id, next, alias);
  // An array is a value of which the index of the ids takes one after the other, also beside an `or`.
  const few: RowPredicate['few'] =
    size.amount === 'few'
      ? (id, next, alias) => {
          const among = `${id} = any(array(${foundIds(source, next)}))`;
          const either =
            self === undefined ? among : `(${among} or (${id})::text = ${next(self)}::text)`;
          return exact ? either : `(${either} and (${stands(id, next, alias)}))`;
        }
      : undefined;
  const many = size.amount === 'many';
  const together: FirstParts['together'] = (id, next, alias, among) =>
    renderTest(test, { id, type, next, alias, among, many: true, packedFrom });
  const tests = { oneByOne, together, found, standsAmong };
  const first = firstWays(plan, source, { size, takenSize, start, isWhole, ...tests });
  const reached = reachedRows(plan, source, size, stands);
  const known = { compile, many, first, ...(few && { few }), ...(reached && { reached }) };
  // Whether something is taken away is known by the id, as what was found is.
  if ((!exact && !plan.taken) || self !== undefined || !size.known) return known;
  const { largest, storedFew } = size;
  const counting = { largest, storedFew, ...(!exact && { stands: standsAmong(isWhole) }) };
  return { ...known, number: (table, next) => rowCount(source, { table, ...counting }, next) };
}

/** Rows that are found for a list which is nearly as short as single reads. */
const FEW_SEEN = 500;

function reachedRows(
  { exact, self, principals }: Pick<RowPlan, 'exact' | 'self' | 'principals'>,
  source: RowSource,
  { amount, seen }: Size,
  stands: RowTest,
): RowPredicate['reached'] {
  if (amount !== 'few' || self !== undefined) return undefined;
  return {
    isBounded: seen <= FEW_SEEN && principals.length <= MAX_SENT,
    compile(rows, next) {
      const found = foundRows(source, rows, next);
      // What is left to ask is asked of all of them: what it looks up once is not looked up for each part.
      return exact
        ? found
        : `select d.* from (${found} offset 0) d where ${stands('d."_id"', next, 'd')}`;
    },
  };
}
