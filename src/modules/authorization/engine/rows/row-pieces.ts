/** How a plan of rows becomes pieces of statements: found as a set, the first of them in order, asked one by one, or counted. */
import { createHash } from 'node:crypto';
import type { RowPredicate, RowUse } from '../../../../kernel/permissions.ts';
import type { Name } from '../../model/model.ts';
import type { Principal } from '../principals.ts';
import { never, renderTest, type Test } from './predicate-tree.ts';
import { firstRows, foundIds, type RowSource, rowCount } from './row-sources.ts';
import type { Size } from './size-estimate.ts';

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
  /** By what is known of the size. */
  readonly shapes: Map<string, string>;
}

/** What the subject has that takes rows away from it. */
export interface Taken {
  readonly name: Name;
  /** Whether a row is not taken away. */
  readonly test: Test;
  /** What keeps a row all the same. */
  readonly given: Test;
  readonly source: RowSource;
}

/** Ids that the first rows of a page may be chosen from. */
const MOST_FIRST = 20_000;

type Pieces = Pick<RowPredicate, 'compile' | 'few' | 'first' | 'number' | 'many'>;

/** The predicate of a plan, by what is known of the sizes: of all rows, and of those that are taken away. */
export function compiled(
  plan: RowPlan,
  row: { readonly id: string; readonly type: string },
  size: Size | undefined,
  takenSize: Size | undefined,
): RowPredicate {
  const pieces = piecesOf(plan, row.type, size, takenSize);
  const key = `${size?.amount} ${size?.storedFew} ${size?.known} ${size?.largest} ${takenSize?.amount}`;
  let shape = plan.shapes.get(key);
  if (shape === undefined) {
    shape = shapeOf(pieces);
    plan.shapes.set(key, shape);
  }
  return { ...pieces, shape };
}

/** Distinguishes predicates by their text. */
function shapeOf({ compile, few, first, number }: Pieces): string {
  const uses: readonly RowUse[] = ['row', 'rows', 'sorted', 'count'];
  const mark = (): string => '?';
  const texts = [
    ...uses.map((use) => compile('id', mark, use, 'r')),
    few?.('id', mark, 'r') ?? '',
    first?.compile({ rows: 'rows', count: '?' }, mark) ?? '',
    number?.('rows', mark) ?? '',
  ];
  return createHash('sha256').update(texts.join('\n')).digest('base64url').slice(0, 24);
}

/** What is still asked of a row that was found. What takes few or some away is looked up once for all rows. */
function foundTest(
  { test, taken }: Pick<RowPlan, 'test' | 'taken'>,
  type: string,
  takenSize: Size | undefined,
): (id: string, next: (value: unknown) => string, alias?: string) => string {
  return (id, next, alias) => {
    const place = { id, type, next, alias };
    if (!taken) return renderTest(test, place);
    if (takenSize?.amount === 'many') return renderTest(taken.test, place);
    const kept = `(${id} in (${foundIds(taken.source, next)})) is not true`;
    return taken.given === never ? kept : `${kept} or ${renderTest(taken.given, place)}`;
  };
}

function piecesOf(
  { exact, test, self, source, taken }: RowPlan,
  type: string,
  size: Size | undefined,
  takenSize: Size | undefined,
): Pieces {
  const tested: RowPredicate['compile'] = (id, next, _use, alias) =>
    renderTest(test, { id, type, next, alias });
  if (!source || !size) return { compile: tested };
  const stands = foundTest({ test, taken }, type, takenSize);
  const compile: RowPredicate['compile'] = (id, next, use = 'rows', alias) => {
    if (use === 'row' || (use === 'rows' && size.amount === 'many'))
      return tested(id, next, use, alias);
    const found = `${id} in (${foundIds(source, next)})`;
    // "is true" makes it a hash table that is filled once, whatever the planner believes about its size.
    const among = `${size.amount === 'few' ? found : `(${found}) is true`}${self === undefined ? '' : ` or (${id})::text = ${next(self)}::text`}`;
    return exact ? among : `(${among}) and (${stands(id, next, alias)})`;
  };
  // An array is a value of which the index of the ids takes one after the other, also beside an `or`.
  const few: RowPredicate['few'] =
    size.amount === 'few'
      ? (id, next, alias) => {
          const found = `${id} = any(array(${foundIds(source, next)}))`;
          const either =
            self === undefined ? found : `(${found} or (${id})::text = ${next(self)}::text)`;
          return exact ? either : `(${either} and (${stands(id, next, alias)}))`;
        }
      : undefined;
  // The order of ids is no order of an index of a field: then the rows are sought as for any other order.
  const first: RowPredicate['first'] = source.from.beside
    ? {
        most: Math.floor(MOST_FIRST / Math.max(1, source.lookups.length)),
        // Few rows lead there by stored tuples, and an index says in order what the subject owns.
        sorts: size.storedFew && size.amount !== 'few',
        compile({ rows, count, order, after }, next) {
          const rowTest = exact ? undefined : stands('d."_id"', next, 'd');
          const found = firstRows(source, { rows, count, order, after, test: rowTest }, next);
          const own =
            self === undefined
              ? ''
              : ` union all select * from ${rows} d where d."_id"::text = ${next(self)}::text`;
          return `select distinct on (f."_id") f.* from (${found}${own}) f order by f."_id"`;
        },
      }
    : undefined;
  const many = size.amount === 'many';
  const known = { compile, many, ...(few && { few }), ...(first && { first }) };
  if (!exact || self !== undefined || !size.known) return known;
  return {
    ...known,
    number: (table, next) => rowCount(source, { table, largest: size.largest }, next),
  };
}
