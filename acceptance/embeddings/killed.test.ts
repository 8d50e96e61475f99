/** kill -9 of the whole program in the middle of a backfill, and of the building of an index: the next start goes on. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { connectToEmbedded } from '../../test/support/embedded-database.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { type SpawnedPlatform, spawnPlatform, startedFolder } from '../../test/support/spawn.ts';
import { removeFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const RECORDS = 1_200;
const DIMENSIONS = 6;

let dataDir: string;
let fake: FakeService;
let platform: SpawnedPlatform;
const world = new Map<string, readonly number[]>();

let seed = 16;
const random = (): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
};
const point = (): number[] =>
  Array.from({ length: DIMENSIONS }, () => Math.round((random() * 2 - 1) * 1_000) / 1_000);
const textOf = (at: readonly number[]): string => `(${at.join()})`;

beforeAll(async () => {
  dataDir = await startedFolder();
  fake = await startFakeService();
  fake.answer = (request) => ({
    body: {
      data: request.json().input.map((text: string, index: number) => ({
        index,
        embedding: text.slice(1, -1).split(',').map(Number),
      })),
    },
  });
  platform = await spawnPlatform({ dataDir });
});
afterAll(async () => {
  await platform.dispose();
  await fake.close();
  await removeFolder(dataDir);
});

const status = async (): Promise<Json> => (await platform.admin.get('/embeddings/status')).body;
const indexOf = async (): Promise<Json> => (await status()).configs[0].current.index;
const search = async (text: string, limit = 10): Promise<Json> => {
  const body = { schemaName: 'Place', text, limit };
  const answer = await platform.admin.post('/embeddings/search', body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.hits;
};

const restart = async (): Promise<void> => {
  await platform.kill();
  await platform.dispose();
  platform = await spawnPlatform({ dataDir });
};

/** How many of the ten that a search by hand finds are found. */
async function recall(): Promise<number> {
  let right = 0;
  const rounds = 10;
  for (let i = 0; i < rounds; i += 1) {
    const query = point();
    const dot = (a: readonly number[], b: readonly number[]) =>
      a.reduce((sum, x, at) => sum + x * (b[at] ?? 0), 0);
    const nearness = (at: readonly number[]) => dot(at, query) / Math.sqrt(dot(at, at));
    const best = [...world].sort(([, a], [, b]) => nearness(b) - nearness(a)).slice(0, 10);
    const found = (await search(textOf(query))).map(({ document }: Json) => document._id);
    expect(new Set(found).size).toBe(10);
    right += best.filter(([id]) => found.includes(id)).length;
  }
  return right / (10 * rounds);
}

it('goes on with a backfill: every record has its vector, each page is counted once', {
  timeout: 180_000,
}, async () => {
  const config = {
    providers: {
      'openai-compatible': {
        endpoint: `${fake.url}/v1/embeddings`,
        models: [{ name: 'six', dimensions: DIMENSIONS }],
        allowInternal: true,
      },
    },
    defaultProvider: 'openai-compatible',
    search: { exactUpTo: 0 },
  };
  expect((await platform.admin.patch('/config/embeddings', { config })).status).toBe(200);
  await platform.createSchema({ name: 'Place', fields: { at: 'String' } });
  for (let made = 0; made < RECORDS; made += 400) {
    const inputDocuments = Array.from({ length: 400 }, () => ({ at: textOf(point()) }));
    const path = '/database/schemas/Place/docs/many';
    const answer = await platform.admin.post(path, { inputDocuments });
    expect(answer.status, answer.text).toBe(200);
    for (const { _id, at } of answer.body.docs ?? answer.body)
      world.set(_id, at.slice(1, -1).split(',').map(Number));
  }
  const own = { schemaName: 'Place', sourceFields: ['at'], targetField: 'near' };
  const made = await platform.admin.post('/embeddings/configs', { ...own, backfill: 'none' });
  expect(made.status, made.text).toBe(200);
  const started = await platform.admin.post('/embeddings/backfills', {
    schemaName: 'Place',
    batchSize: 10,
  });
  expect(started.status, started.text).toBe(200);
  const run = async (): Promise<Json> =>
    (await platform.admin.get(`/embeddings/backfills/${started.body.runs[0].id}`)).body;
  await waitFor(async () => (await run()).processedCount >= RECORDS / 5, {
    timeoutMs: 60_000,
    everyMs: 20,
  });
  await restart();
  await waitFor(async () => (await run()).state === 'completed', { timeoutMs: 90_000 });
  expect(await run()).toMatchObject({
    scannedCount: RECORDS,
    queuedCount: RECORDS,
    processedCount: RECORDS,
    failedCount: 0,
  });
  const { configs } = await status();
  expect(configs[0].current).toMatchObject({ records: RECORDS, passages: RECORDS, waiting: 0 });
});

it('builds the index anew before anybody searches, and finds as much as before', {
  timeout: 120_000,
}, async () => {
  await restart();
  await waitFor(async () => (await indexOf()).state === 'ready', { timeoutMs: 30_000 });
  await waitFor(async () => (await indexOf()).indexed === RECORDS, { timeoutMs: 30_000 });
  expect(await indexOf()).toMatchObject({ kind: 'usearch', passages: RECORDS });
  expect(await recall()).toBeGreaterThanOrEqual(0.95);
});

it('answers no 504 while vectors are read: searches may come again, or have words', {
  timeout: 120_000,
}, async () => {
  const config = { search: { readAtStart: false } };
  expect((await platform.admin.patch('/config/embeddings', { config })).status).toBe(200);
  await restart();
  expect(await indexOf()).toMatchObject({ state: 'idle', passages: 0 });
  const [[, at] = []] = world;
  const body = { schemaName: 'Place', text: textOf(at ?? []), limit: 1 };
  const database = await connectToEmbedded(dataDir);
  try {
    // As if they were very many.
    await database.query('begin');
    await database.query('lock table penstock.embeddings_vectors in access exclusive mode');
    const [told, words] = await Promise.all([
      platform.admin.post('/embeddings/search', body),
      platform.admin.post('/embeddings/search', { ...body, fallback: 'keyword' }),
    ]);
    expect(told.status, told.text).toBe(503);
    expect(told.body.code).toBe('INDEX_PENDING');
    expect(told.headers.get('retry-after')).toBe('3');
    expect(words.status, words.text).toBe(200);
    expect(words.body).toMatchObject({ degraded: true });
  } finally {
    await database.end();
  }
  await waitFor(async () => (await platform.admin.post('/embeddings/search', body)).status === 200);
  expect(await recall()).toBeGreaterThanOrEqual(0.95);
});
