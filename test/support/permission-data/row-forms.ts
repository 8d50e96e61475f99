/** What a predicate says about rows, in each of the forms in which statements use it. */
import { expect } from 'vitest';
import type { Database } from '../../../src/kernel/database/database.ts';
import type { FirstWay, RowOrder, RowPredicate, RowUse } from '../../../src/kernel/permissions.ts';

export interface Asked {
  readonly predicate: RowPredicate;
  readonly dataSet: number;
  readonly database: Database;
}

/** What a predicate says about the rows, in each of its forms. */
export async function rowsOf(
  { predicate, dataSet, database }: Asked,
  use: RowUse,
): Promise<readonly string[]> {
  const values: unknown[] = [dataSet];
  const next = (value: unknown): string => `$${values.push(value)}`;
  // Every other data set looks the fields of the row up by its id.
  const where = predicate.compile('t0._id', next, use, dataSet % 2 === 0 ? 't0' : undefined);
  const text = `select t0._id as id from rows t0 where t0.dataSet = $1 and (${where}) order by 1`;
  return (await database.query<{ id: string }>({ text, values })).rows.map((r) => r.id);
}

interface FirstRequest {
  readonly count: number;
  readonly direction: '' | ' desc';
  readonly order: RowOrder;
}

/** The first rows by a way; downwards among those of the data set alone, of which a short way finds more. */
async function firstOf(
  { dataSet, database }: Asked,
  { count, direction }: Omit<FirstRequest, 'order'>,
  way: FirstWay,
): Promise<readonly string[]> {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const requested =
    direction === ''
      ? { rows: 'rows', count: String(count) }
      : {
          rows: `(select r.* from rows r where r.dataSet = ${next(dataSet)}::integer)`,
          count: String(count),
          order: `d."_id"${direction}`,
        };
  const first = way.compile(requested, next);
  const text = `select t0._id as id from (${first}) t0 order by 1${direction} limit ${count}`;
  const { rows } = await database.query<{ id: string }>({ text, values });
  return rows.map((r) => r.id);
}

export async function numberOf({ predicate, database }: Asked): Promise<number | undefined> {
  const values: unknown[] = [];
  const number = predicate.number?.('rows', (value) => `$${values.push(value)}`);
  if (number === undefined) return undefined;
  return Number(
    (await database.query<{ number: string }>({ text: `select ${number} as number`, values }))
      .rows[0]?.number,
  );
}

/** All rows where they are few, each as often as it is found; `undefined` where there is no such way. */
export async function reachedOf({
  predicate,
  dataSet,
  database,
}: Asked): Promise<readonly string[] | undefined> {
  if (!predicate.reached) return undefined;
  const values: unknown[] = [dataSet];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const reached = predicate.reached.compile(
    '(select r.* from rows r where r.dataSet = $1::integer)',
    next,
  );
  const text = `select t0._id as id from (${reached}) t0 order by 1`;
  return (await database.query<{ id: string }>({ text, values })).rows.map((r) => r.id);
}

/** Rows that somebody is said to see, of so many. */
const sizesOfWays = [
  [1, 1_000_000],
  [1_000, 1_000],
  [2_000_000, 2_000_000],
] as const;

/** How often each way to first rows was taken. */
export const waysTaken = new Map<string, number>();

const note = (way: string, isShort: boolean): void => {
  const key = `${way} ${isShort ? 'short' : 'full'}`;
  waysTaken.set(key, (waysTaken.get(key) ?? 0) + 1);
};

/** Each number of rows leads to another way: by lookups, along the order and then by another one, along it alone. */
export async function compareWays(
  make: (seen: number, total: number) => Promise<Asked>,
  count: number,
  told: readonly string[],
): Promise<void> {
  for (const [seen, total] of sizesOfWays) {
    const asked = await make(seen, total);
    await compareDirection(asked, { count, direction: '', order: 'ids' }, told);
    await compareDirection(asked, { count, direction: ' desc', order: 'indexed' }, told);
  }
}

async function compareDirection(
  asked: Asked,
  request: FirstRequest,
  [label, ...rows]: readonly string[],
): Promise<void> {
  const { count, direction, order } = request;
  const ordered = (direction === '' ? rows : rows.toReversed()).slice(0, count);
  for (let way = asked.predicate.first?.way(count, order); way; way = way.otherwise) {
    const found = await firstOf(asked, request, way);
    // A way that may be too short says so by fewer rows than asked for.
    const isShort = found.length < count;
    const told = [label, `first${direction} by ${way.key}`];
    if (!way.otherwise || !isShort) expect([...told, ...found]).toEqual([...told, ...ordered]);
    note(way.key, isShort);
  }
}
