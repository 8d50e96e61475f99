/** Random worlds with an index in the memory of two nodes. What is found is what a search by hand finds. */
import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import { openPlaces, type Places, textOf } from './places.ts';

let places: Places;
const workers: Worker[] = [];
const noteWorker = (worker: Worker): void => void workers.push(worker);
process.on('worker', noteWorker);

beforeAll(async () => {
  places = await openPlaces();
});
afterAll(async () => {
  process.off('worker', noteWorker);
  await places.close();
});

it('is put in order as if there were nothing else, on each node, while everything changes', async () => {
  const { one, two, world, indexOf } = places;
  await places.compareWhileChanging();
  for (const node of [one, two]) {
    await waitFor(async () => (await indexOf(node)).state === 'ready');
    const index = await indexOf(node);
    expect(index).toMatchObject({ kind: 'usearch', state: 'ready', passages: world.size });
    expect(index.recall).toBeGreaterThan(0.9);
    expect(index.megabytes).toBeGreaterThan(0);
  }
});

it('tells of a record that is gone or closed at once, before any index has heard of it', async () => {
  const { one, two, users, world } = places;
  const [id, doc] = [...world].find(([, { readers }]) => readers.has(2)) ?? [];
  const body = {
    schemaName: 'Place',
    text: textOf(doc?.at ?? []),
    userId: users[2]?.userId,
    limit: 1,
  };
  const first = async () =>
    (await two.admin.post('/embeddings/search', body)).body.hits[0]?.document._id;
  expect(await first()).toBe(id);
  await one.admin.delete(`/database/schemas/Place/docs/${id}`);
  world.delete(String(id));
  expect(await first()).not.toBe(id);
});

it('reads everything again when its thread is killed, also for those who search at that moment', async () => {
  const { one, two, world, compare, indexOf } = places;
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
  const { one, compare, settled } = places;
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
