/** Very many ids as values of a statement: as arrays that are bytes, and packed for few questions. Asked of PostgreSQL. */
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import { listValue } from '../../tuple-sql.ts';
import { packedTest, packedUuidTest } from './packed-ids.ts';

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());

const rowsOf = async (text: string, values: readonly unknown[]) =>
  (await table.database.query<Record<string, unknown>>({ text, values: [...values] })).rows;

const many = (length: number, make: (i: number) => string): readonly string[] =>
  Array.from({ length }, (_, i) => make(i));

it.each([1, 31, 32, 500])('reads a list of %i ids and texts as it was', async (length) => {
  const ids = many(length, () => randomUUID());
  const texts = many(length, (i) => `"{${i}}\\, äöü 世界 NULL`);
  const [row] = await rowsOf('select $1::uuid[]::text[] as ids, $2::text[] as texts', [
    listValue(ids, 'uuid'),
    listValue(texts, 'text'),
  ]);
  expect(row).toEqual({ ids, texts });
});

type Test = typeof packedTest;

/** Those of the sought that are found. */
async function foundIn(
  test: Test,
  ids: readonly string[],
  sought: readonly string[],
  type: string,
) {
  const values: unknown[] = [sought];
  const text = test(ids, 's.id', (value) => `$${values.push(value)}`);
  const rows = await rowsOf(
    `select s.id::text as id from unnest($1::${type}[]) s(id) where ${text}`,
    values,
  );
  return rows.map(({ id }) => id);
}

it.each([1, 40, 3_000])('finds exactly the ids that were packed, of %i', async (length) => {
  const ids = many(length, () => randomUUID());
  const sought = [...ids, ...many(length, () => randomUUID())];
  expect(await foundIn(packedUuidTest, ids, sought, 'uuid')).toEqual(ids);
  expect(await foundIn(packedTest, ids, sought, 'text')).toEqual(ids);
});

const uuidOf = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

it('finds no id between two others', async () => {
  const bytes = randomBytes(64);
  const ids = [0, 16, 32, 48].map((at) => uuidOf(bytes.subarray(at, at + 16)));
  const between = many(49, (at) => uuidOf(bytes.subarray(at, at + 16)));
  expect(await foundIn(packedUuidTest, ids, between, 'uuid')).toEqual(ids);
});
