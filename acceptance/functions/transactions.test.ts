/** Transactions of functions that meet others. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());

it('two that wait for each other: one is done, one is told to try again', async () => {
  await platform.createSchema({ name: 'Tally', fields: { n: 'Number' } });
  const add = async (): Promise<string> => {
    const inputDocument = { n: 0 };
    const answer = await platform.admin.post('/database/schemas/Tally/docs', { inputDocument });
    return expectStatus(answer, 200, 'a record').body._id;
  };
  const [one, other] = [await add(), await add()];
  const inputs = { method: 'POST', auth: false, rights: 'system' };
  for (const [name, first, last] of [
    ['onwards', one, other],
    ['back', other, one],
  ] as const) {
    const functionCode = `await ctx.system.db.transaction(async (db) => {
      await db.update('Tally', '${first}', { n: 1 });
      await new Promise((resolve) => setTimeout(resolve, 300));
      await db.update('Tally', '${last}', { n: 2 });
    });
    return { done: true };`;
    const upload = { name, functionType: 'request', functionCode, inputs };
    expectStatus(await platform.admin.post('/functions/upload', upload), 200, name);
  }
  const call = async (name: string) => platform.client.post(`/functions/${name}`, {});
  const answers = await Promise.all(['onwards', 'back'].map(call));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  const refused = answers.find(({ status }) => status === 409);
  expect(refused?.body).toMatchObject({ code: 'WRITE_CONFLICT' });
  expect(refused?.headers.get('retry-after')).toBe('1');
});
