/**
 * Random worlds with an index forced on: two nodes, owners of most, some and few of the records, while records and rights
 * change. What is found is what a search by hand through the readable records finds.
 */
import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const DIMENSIONS = 6;
/** Of each owner: nearly everything, some, and so few that they are put in order one by one. */
const OWNED = [1_600, 180, 8];
const ROUNDS = 5;

let one: TestPlatform;
let two: TestPlatform;
let fake: FakeService;
const users: TestUser[] = [];
const workers: Worker[] = [];
const noteWorker = (worker: Worker): void => void workers.push(worker);
process.on('worker', noteWorker);

interface Doc {
  at: readonly number[];
  rank: number;
  readonly readers: Set<number>;
}
const world = new Map<string, Doc>();

let seed = 160;
const random = (): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return seed / 2_147_483_648;
};
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
const point = (): number[] =>
  Array.from({ length: DIMENSIONS }, () => Math.round((random() * 2 - 1) * 1_000) / 1_000);
const textOf = (at: readonly number[]): string => `(${at.join()})`;
const pointOf = (text: string): number[] => text.slice(1, -1).split(',').map(Number);

beforeAll(async () => {
  one = await createTestPlatform();
  two = await createTestPlatform({ databaseUrl: String(one.databaseUrl) });
  fake = await startFakeService();
  fake.answer = (request) => ({
    body: {
      data: request.json().input.map((text: string, index: number) => ({
        index,
        embedding: pointOf(text),
      })),
    },
  });
  const models = [{ name: 'six', dimensions: DIMENSIONS }];
  const own = { endpoint: `${fake.url}/v1/embeddings`, models, allowInternal: true };
  const config = {
    providers: { 'openai-compatible': own },
    defaultProvider: 'openai-compatible',
    search: { exactUpTo: 0 },
    batch: { maxInputs: 500 },
  };
  const patched = await one.admin.patch('/config/embeddings', { config });
  expect(patched.status, patched.text).toBe(200);
  await one.createSchema({
    name: 'Place',
    fields: { at: 'String', rank: 'Number' },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
  } as Json);
  const made = await one.admin.post('/embeddings/configs', {
    schemaName: 'Place',
    sourceFields: ['at'],
    targetField: 'near',
  });
  expect(made.status, made.text).toBe(200);
  for (const [owner, count] of OWNED.entries()) {
    users.push(await one.registerUser());
    for (let made = 0; made < count; made += 200) await create(owner, Math.min(200, count - made));
  }
  await settled();
});
afterAll(async () => {
  process.off('worker', noteWorker);
  await two.close();
  await one.close();
  await fake.close();
});

async function create(owner: number, count: number): Promise<void> {
  const docs = Array.from({ length: count }, () => ({
    at: textOf(point()),
    rank: Math.floor(random() * 100),
  }));
  const answer = await users[owner]?.api.post('/database/Place/many', { docs });
  expect(answer?.status, answer?.text).toBe(200);
  for (const { _id, at, rank } of answer?.body.docs ?? [])
    world.set(_id, { at: pointOf(at), rank, readers: new Set([owner]) });
}

const status = async (node: TestPlatform): Promise<Json> =>
  (await node.admin.get('/embeddings/status', { query: { schemaName: 'Place' } })).body;

/** Every record has its vector. */
const settled = () =>
  waitFor(
    async () => {
      const { generationQueue: queue, backfillQueue: runs, configs } = await status(one);
      const waiting = queue.waiting + queue.active + queue.delayed + runs.waiting + runs.active;
      return waiting === 0 && configs[0].current.passages === world.size;
    },
    { timeoutMs: 60_000, everyMs: 100, what: 'vectors of all places' },
  );

const indexOf = async (node: TestPlatform): Promise<Json> =>
  (await status(node)).configs[0].current.index;

interface Asked {
  readonly reader: number;
  readonly filter?: { readonly rank: { readonly $lt: number } } | undefined;
  readonly limit: number;
}

function byHand(query: readonly number[], { reader, filter, limit }: Asked): string[] {
  const dot = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
  const cosine = (at: readonly number[]) => dot(at, query) / Math.sqrt(dot(at, at));
  return [...world]
    .filter(([, { readers, rank }]) => readers.has(reader) && (!filter || rank < filter.rank.$lt))
    .sort(([, a], [, b]) => cosine(b.at) - cosine(a.at))
    .slice(0, limit)
    .map(([id]) => id);
}

/** How many of those that a search by hand finds are found, of all. What is found is always readable, and fits. */
async function compare(node: TestPlatform, asked: Asked): Promise<readonly [number, number]> {
  const query = point();
  const { reader, ...rest } = asked;
  const body = { schemaName: 'Place', text: textOf(query), userId: users[reader]?.userId, ...rest };
  const answer = await node.admin.post('/embeddings/search', body);
  expect(answer.status, answer.text).toBe(200);
  const found: string[] = answer.body.hits.map(({ document }: Json) => document._id);
  const expected = byHand(query, asked);
  expect(found).toHaveLength(expected.length);
  for (const id of found) {
    const doc = world.get(id);
    expect(doc?.readers.has(reader)).toBe(true);
    expect((doc?.rank ?? 100) < (asked.filter?.rank.$lt ?? 101)).toBe(true);
  }
  const ids = new Set(found);
  return [expected.filter((id) => ids.has(id)).length, expected.length];
}

async function changeWorld(): Promise<void> {
  for (let i = 0; i < 12; i++) {
    const [id] = pick([...world]);
    const at = point();
    world.set(id, { ...(world.get(id) as Doc), at });
    const changedDocument = { at: textOf(at), rank: world.get(id)?.rank };
    const answer = await pick([one, two]).admin.put(`/database/schemas/Place/docs/${id}`, {
      changedDocument,
    });
    expect(answer.status, answer.text).toBe(200);
  }
  for (let i = 0; i < 5; i++) {
    const [id] = pick([...world]);
    world.delete(id);
    expect((await two.admin.delete(`/database/schemas/Place/docs/${id}`)).status).toBe(200);
  }
  for (let i = 0; i < 5; i++) {
    const [id, doc] = pick([...world]);
    const reader = Math.floor(random() * 3);
    if (doc.readers.has(reader)) continue;
    doc.readers.add(reader);
    const shared = await pick([one, two]).admin.post('/authorization/relations', {
      subject: `User:${users[reader]?.userId}`,
      relation: 'reader',
      resource: `Place:${id}`,
    });
    expect(shared.status, shared.text).toBe(200);
  }
  // Last: when these have vectors, everything before them was heard of.
  await create(Math.floor(random() * 3), 6);
}

type Totals = Map<string, [number, number]>;

async function compareAll(totals: Totals): Promise<void> {
  const cases = [one, two].flatMap((node) =>
    [0, 1, 2].flatMap((reader) => [
      { node, reader },
      { node, reader, filter: { rank: { $lt: 3 } } },
    ]),
  );
  for (const { node, ...given } of cases) {
    const asked = { ...given, limit: 1 + Math.floor(random() * 15) };
    const [right, all] = await compare(node, asked);
    const name = `reader ${asked.reader}${asked.filter ? ', filtered' : ''}`;
    const total = totals.get(name) ?? [0, 0];
    totals.set(name, [total[0] + right, total[1] + all]);
  }
}

it('is put in order as if there were nothing else, on each node, while everything changes', async () => {
  const totals: Totals = new Map();
  for (let round = 0; round < ROUNDS; round++) {
    await compareAll(totals);
    await changeWorld();
    await settled();
  }
  for (const [name, [right, all]] of totals) expect(right / all, name).toBeGreaterThanOrEqual(0.95);
  for (const node of [one, two]) {
    // A search reads what came since the last one.
    await compare(node, { reader: 0, limit: 10 });
    await waitFor(async () => (await indexOf(node)).state === 'ready');
    const index = await indexOf(node);
    expect(index).toMatchObject({ kind: 'usearch', state: 'ready', passages: world.size });
    expect(index.recall).toBeGreaterThan(0.9);
    expect(index.megabytes).toBeGreaterThan(0);
  }
});

it('tells of a record that is gone or closed at once, before any index has heard of it', async () => {
  const [id, doc] = [...world].find(([, { readers }]) => readers.has(2)) as [string, Doc];
  const body = { schemaName: 'Place', text: textOf(doc.at), userId: users[2]?.userId, limit: 1 };
  const first = async () =>
    (await two.admin.post('/embeddings/search', body)).body.hits[0]?.document._id;
  expect(await first()).toBe(id);
  await one.admin.delete(`/database/schemas/Place/docs/${id}`);
  world.delete(id);
  expect(await first()).not.toBe(id);
});

it('reads everything again when its thread is killed, also for those who search at that moment', async () => {
  const scans = workers.filter(
    ({ resourceLimits }) => resourceLimits?.maxOldGenerationSizeMb === 4_096,
  );
  expect(scans.length).toBeGreaterThan(0);
  const before = [0, 1, 2].map((reader) => compare(one, { reader, limit: 10 }));
  await Promise.all(scans.map((scan) => scan.terminate()));
  await Promise.all(before);
  let [right, all] = [0, 0];
  for (let i = 0; i < 9; i++) {
    const [found, expected] = await compare(i % 2 === 0 ? one : two, { reader: i % 3, limit: 10 });
    right += found;
    all += expected;
  }
  expect(right / all).toBeGreaterThanOrEqual(0.95);
  for (const node of [one, two]) {
    await waitFor(async () => (await indexOf(node)).state === 'ready');
    expect(await indexOf(node)).toMatchObject({ kind: 'usearch', passages: world.size });
  }
});

it('gives up the index for a search of every vector when it is told to, and keeps its memory', async () => {
  const patched = await one.admin.patch('/config/embeddings', {
    config: { search: { index: 'exact' } },
  });
  expect(patched.status, patched.text).toBe(200);
  await settled();
  for (let i = 0; i < 6; i++) {
    const [right, all] = await compare(one, { reader: i % 3, limit: 10 });
    expect(right).toBe(all);
  }
  const tight = { search: { index: 'auto', maxIndexMegabytes: 1 } };
  expect((await one.admin.patch('/config/embeddings', { config: tight })).status).toBe(400);
});
