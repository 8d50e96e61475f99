import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());

it('a large table gets its index by a job, and is written to meanwhile', async () => {
  const schema = await platform.createSchema({ name: 'Heap', fields: { code: 'String' } });
  for (let i = 0; i < 11; i++) {
    const docs = Array.from({ length: 1_000 }, (_, n) => ({ code: `c${i}-${n}` }));
    expect((await platform.client.post('/database/Heap/many', { docs })).status).toBe(200);
  }
  const path = `/database/schemas/${schema._id}`;
  const index = { fields: ['code'], options: { name: 'one', unique: true } };
  expect(
    (await platform.admin.post(`${path}/indexes?dryRun=true`, { indexes: [index] })).body.steps,
  ).toMatchObject([{ later: true }]);
  expect((await platform.admin.post(`${path}/indexes`, { indexes: [index] })).status).toBe(200);
  expect((await platform.client.post('/database/Heap', { code: 'meanwhile' })).status).toBe(200);
  const state = async () => (await platform.admin.get(`${path}/indexes`)).body.indexes[0];
  await waitFor(async () => (await state()).state === 'ready');
  expect((await platform.client.post('/database/Heap', { code: 'meanwhile' })).status).toBe(409);
  const { body } = await platform.admin.get(`${path}/migrations?limit=1`);
  expect(body.migrations[0]).toMatchObject({
    state: 'applied',
    statements: [expect.stringContaining('index concurrently')],
  });
});
