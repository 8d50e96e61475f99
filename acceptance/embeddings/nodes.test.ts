/** Every way to write, on two nodes: searches of both follow. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let one: TestPlatform;
let two: TestPlatform;
beforeAll(async () => {
  one = await createTestPlatform();
  if (one.databaseUrl === undefined) throw new Error('The database has no address');
  two = await createTestPlatform({ databaseUrl: one.databaseUrl });
  await one.createSchema({
    name: 'Note',
    fields: { title: 'String', rank: 'Number' },
    conduitOptions: { cms: { enabled: true }, softDelete: true } as Json,
  });
  const config = { schemaName: 'Note', sourceFields: ['title'], targetField: 'meaning' };
  expect((await one.admin.post('/embeddings/configs', config)).status).toBe(200);
});
afterAll(async () => {
  await two.close();
  await one.close();
});

const search = (node: TestPlatform, body: object) =>
  node.admin.post('/embeddings/search', { schemaName: 'Note', limit: 100, ...body });
const found = async (node: TestPlatform, word: string): Promise<string[]> => {
  const { body } = await search(node, { text: word, mode: 'keyword' });
  return body.hits.map(({ document }: Json) => document.title).sort();
};
/** Both nodes find these. */
const follows = (word: string, titles: readonly string[]) =>
  waitFor(
    async () => {
      for (const node of [one, two])
        if (JSON.stringify(await found(node, word)) !== JSON.stringify(titles)) return false;
      return true;
    },
    { what: `${word} on both nodes`, everyMs: 100 },
  );

it('follows what clients, operators, batches and imports write, wherever they do', async () => {
  const { body: note } = await two.client.post('/database/Note', { title: 'created alpha' });
  await follows('alpha', ['created alpha']);
  await one.client.patch(`/database/Note/${note._id}`, { title: 'patched beta' });
  await follows('beta', ['patched beta']);
  await two.client.put(`/database/Note/${note._id}`, { title: 'replaced gamma' });
  await follows('gamma', ['replaced gamma']);
  expect(await found(one, 'alpha')).toEqual([]);
  await one.client.post('/database/Note/many', {
    docs: [{ title: 'first delta' }, { title: 'second delta' }],
  });
  await follows('delta', ['first delta', 'second delta']);
  const inputDocument = { title: 'operator epsilon' };
  await two.admin.post('/database/schemas/Note/docs', { inputDocument });
  await follows('epsilon', ['operator epsilon']);
  const operations = [{ op: 'create', schema: 'Note', data: { title: 'batch zeta' } }];
  const batch = await one.client.post('/database/batch', { operations });
  expect(batch.status, batch.text).toBe(200);
  await follows('zeta', ['batch zeta']);
  const rows = await two.admin.post('/database/schemas/Note/docs/import', 'title\nimported eta\n', {
    headers: { 'content-type': 'text/csv' },
  });
  expect(rows.status, rows.text).toBe(200);
  await follows('eta', ['imported eta']);
  await one.client.delete(`/database/Note/${note._id}`);
  expect(await found(two, 'gamma')).toEqual([]);
  const restored = await two.admin.post(`/database/schemas/Note/docs/${note._id}/restore`);
  expect(restored.status, restored.text).toBe(200);
  await follows('gamma', ['replaced gamma']);
});

it('ends with the vector of the last text, however fast they follow each other', async () => {
  const { body: note } = await one.client.post('/database/Note', { title: 'a red bicycle' });
  const titles = ['the price of gold', 'rain in April', 'a lecture on whales'];
  for (const [i, title] of titles.entries())
    await (i % 2 === 0 ? one : two).client.patch(`/database/Note/${note._id}`, { title });
  for (const node of [one, two])
    await waitFor(async () => {
      const [hit] = (await search(node, { text: 'a lecture on whales', limit: 1 })).body.hits;
      return hit.document._id === note._id && Math.abs(hit.distance) < 1e-5;
    });
  const [ofOne, ofTwo] = await Promise.all(
    [one, two].map((node) => search(node, { text: 'animals of the sea' })),
  );
  expect(ofOne?.body.hits).toEqual(ofTwo?.body.hits);
});

it('stops and goes on with the configuration, and with a node less', async () => {
  await one.admin.patch('/config/embeddings', { config: { enabled: false } });
  expect((await search(two, { text: 'x' })).body).toMatchObject({
    status: 412,
    code: 'EMBEDDINGS_DISABLED',
  });
  expect(
    (await two.client.post('/database/Note', { title: 'while it was off theta' })).status,
  ).toBe(200);
  await two.admin.patch('/config/embeddings', { config: { enabled: true } });
  await follows('theta', ['while it was off theta']);
  for (const active of [false, true])
    expect((await one.admin.patch('/config/embeddings', { config: { active } })).status).toBe(200);
  await one.client.post('/database/Note', { title: 'after it iota' });
  await follows('iota', ['after it iota']);
});
