/** Against pgvector itself: PGlite brings it, which the embedded server does not. */
import { PGlite } from '@electric-sql/pglite';
import { vector as pgvector } from '@electric-sql/pglite-pgvector';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database, Statement, Transaction } from '../../../kernel/database/database.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { migrations } from '../migrations.ts';
import { withoutInstructions } from '../model.ts';
import type { GenerationRow } from '../queries/configs.ts';
import { indexedGenerations } from '../queries/pgvector.ts';
import { type PassageRow, replacePassages } from '../queries/vectors.ts';
import { createVectorIndex, keepDatabaseIndexes } from './pgvector-index.ts';

const DIMENSIONS = 8;
const RECORDS = 3_000;
const id = crypto.randomUUID();
const generation: GenerationRow = {
  id,
  configId: id,
  schemaName: 'Any',
  version: 0,
  sourceFields: [],
  provider: 'built-in',
  model: 'any',
  dimensions: DIMENSIONS,
  similarity: 'cosine',
  language: 'simple',
  fieldOptions: {},
  ...withoutInstructions,
};

let pglite: PGlite;
let database: Database;
const settings = { index: 'auto', exactUpTo: 100, maxIndexMegabytes: 100 };
const config = () => ({ search: settings }) as EmbeddingsConfig;
const log = { warn: () => undefined } as never;

beforeAll(async () => {
  pglite = new PGlite({ extensions: { vector: pgvector } });
  const query = async ({ text, values = [] }: Statement) => {
    const { rows, affectedRows } = await pglite.query(text, [...values]);
    const asBuffers = rows.map((row) =>
      Object.fromEntries(
        Object.entries(row as object).map(([name, value]) => [
          name,
          value instanceof Uint8Array ? Buffer.from(value) : value,
        ]),
      ),
    );
    return { rows: asBuffers as never[], count: affectedRows ?? rows.length };
  };
  const inside = { query, afterCommit: () => undefined } as Transaction;
  const transaction = async (work: (given: Transaction) => Promise<unknown>) => {
    await pglite.query('begin');
    const result = await work(inside);
    await pglite.query('commit');
    return result;
  };
  const session = (work: (given: Transaction) => Promise<unknown>) => work(inside);
  database = { query, transaction, session } as never;
  await pglite.exec('create schema penstock');
  const run = async ({ text }: Statement) => pglite.exec(text) as never;
  for (const migration of migrations) await migration.run({ query: run } as never);
});
afterAll(() => pglite.close());

let state = 5;
const random = (): number => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
  return state / 0x7fffffff;
};
const unit = (): Float32Array => {
  const values = Float32Array.from({ length: DIMENSIONS }, () => random() - 0.5);
  const length = Math.hypot(...values);
  return values.map((x) => x / length);
};
const world = new Map<string, Float32Array[]>();

async function put(records: readonly (readonly [string, Float32Array[]])[], version: string) {
  for (const [recordId, vectors] of records) world.set(recordId, vectors);
  const rows: PassageRow[] = records.flatMap(([recordId, vectors]) =>
    vectors.map((values, ordinal) => ({
      recordId,
      ordinal,
      starts: ordinal,
      ends: ordinal + 1,
      hash: Buffer.from('00', 'hex'),
      vector: Buffer.from(values.buffer),
    })),
  );
  await replacePassages(database, { generationId: id, version }, rows);
}

const bruteForce = (query: Float32Array, k: number, ids: Iterable<string> = world.keys()) =>
  [...ids]
    .map((one) => {
      const all = (world.get(one) ?? []).map(
        (v) => 1 - v.reduce((sum, x, i) => sum + x * (query[i] ?? 0), 0),
      );
      return { one, distance: Math.min(...all) };
    })
    .sort((a, b) => a.distance - b.distance)
    .slice(0, k);

it('searches by an index of the database, with what was written before and after it came', async () => {
  const first = Array.from({ length: RECORDS }, (_, i) =>
    i % 5 === 0 ? [unit(), unit()] : [unit()],
  );
  await put(
    first.map((vectors, i) => [`r${i}`, vectors]),
    '1',
  );
  const parts = { database, config, log, measures: { indexes: { read: () => [] } } };
  await keepDatabaseIndexes(parts, [generation], new AbortController().signal);
  expect((await indexedGenerations(database)).get(id)).toMatchObject({ valid: true });
  await put(
    [
      ['later', [unit()]],
      ['r1', [unit(), unit(), unit()]],
    ],
    '2',
  );
  const index = createVectorIndex(parts);
  expect(await index.facts(generation)).toMatchObject({ kind: 'pgvector', state: 'ready' });
  let right = 0;
  for (let round = 0; round < 20; round++) {
    const query = round === 0 ? (world.get('later')?.[0] ?? unit()) : unit();
    const exact = bruteForce(query, 100);
    const found = await index.nearest(generation, query, { k: 100 });
    expect(found.ids).toHaveLength(100);
    if (round === 0) expect(found.ids[0]).toBe('later');
    const ids = new Set(found.ids);
    right += exact.filter(({ one }) => ids.has(one)).length;
    const within = ['r1', 'r7', 'later', 'gone', 'r2999'];
    const some = await index.nearest(generation, query, { k: 3, within });
    const expected = bruteForce(query, 3, ['r1', 'r7', 'later', 'r2999']);
    expect(some.ids).toEqual(expected.map(({ one }) => one));
    for (const [i, one] of some.ids.entries()) {
      const passage = world.get(one)?.[some.starts[i] ?? -1];
      const dot = passage?.reduce((sum, x, at) => sum + x * (query[at] ?? 0), 0) ?? 2;
      expect(1 - dot).toBeCloseTo(some.distances[i] ?? -1, 5);
    }
    some.distances.forEach((d, i) => void expect(d).toBeCloseTo(expected[i]?.distance ?? -1, 5));
  }
  expect(right / 2_000).toBeGreaterThan(0.95);
  const text = `explain select from penstock.embeddings_vectors where generation_id = '${id}'::uuid
    and embedding is not null order by embedding::vector(8) <=> '[1,0,0,0,0,0,0,0]'::vector(8) limit 10`;
  const { rows } = await pglite.query(text);
  expect(JSON.stringify(rows)).toContain('embeddings_hnsw_');
  // Switched off, and for a generation that is gone, nothing of it is left.
  await keepDatabaseIndexes(parts, [], new AbortController().signal);
  expect((await indexedGenerations(database)).size).toBe(0);
  await index.close();
});
