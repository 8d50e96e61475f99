/**
 * The largest requests that every door takes: none of them keeps the event loop from others for long. The limit is
 * generous, for slow machines; the same requests took many times as long, or all memory, before they were bounded.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Answer } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

/** Milliseconds without a turn of the event loop: of the platform and of this test, which share one. */
const MAX_MS = 1_500;

let platform: TestPlatform;
const crud = {
  create: { enabled: true },
  read: { enabled: true },
  update: { enabled: true },
  delete: { enabled: true },
};
beforeAll(async () => {
  platform = await createTestPlatform();
  await platform.admin.patch('/config/router', { config: { graphql: { maxComplexity: 100_000 } } });
  const fields = { title: 'String', data: 'JSON', n: 'Number' } as const;
  await platform.createSchema({
    name: 'Doc',
    fields,
    conduitOptions: { cms: { enabled: true, crudOperations: crud } },
  });
  await post('/database/Doc/many', { docs: docs(900, 'x'.repeat(7_800)) });
});
afterAll(() => platform?.close());

const post = (path: string, body: unknown) => platform.client.post(path, JSON.stringify(body));
const docs = (count: number, data: unknown) =>
  Array.from({ length: count }, (_, n) => ({ title: `t${n}`, n, data }));
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
const objects = (count: number) => Array.from({ length: count }, (_, n) => ({ k: `v${n}`, n }));
const many = (body: object[]) => post('/database/Doc/many', { docs: body });
const batch = (body: object[]) =>
  post('/database/batch', {
    operations: body.map((data) => ({ op: 'create', schema: 'Doc', data })),
  });
const graphql = (query: string) => post('/graphql', { query });

const doors: readonly (readonly [string, () => Promise<Answer>, number])[] = [
  ['a thousand records of 7.8 KB', () => many(docs(1_000, 'x'.repeat(7_800))), 200],
  ['records with objects in them', () => many(docs(300, objects(400))), 200],
  ['one record of 7.5 MB', () => many(docs(1, 'x'.repeat(7_500_000))), 200],
  ['more numbers than a body may hold', () => many(docs(1_000, numbers(1_500))), 413],
  [
    'two million empty lists',
    () => many([{ title: 't', data: Array.from({ length: 2_000_000 }, () => []) }]),
    413,
  ],
  ['a batch of a hundred records of 78 KB', () => batch(docs(100, 'x'.repeat(78_000))), 200],
  [
    'a megabyte of numbers in one record',
    () => post('/database/Doc', { data: Array.from({ length: 480_000 }, () => 1) }),
    200,
  ],
  [
    'a megabyte of unknown names',
    () => post('/database/Doc', Object.fromEntries(numbers(80_000).map((n) => [`k${n}`, 1]))),
    200,
  ],
  ['a page of 7 MB', () => platform.client.get('/database/Doc?limit=900'), 200],
  [
    'the same by GraphQL',
    () => graphql('{ getDatabaseDoc(limit: 900) { documents { _id title n data } } }'),
    200,
  ],
];

test.each(doors)('%s', async (_name, send, status) => {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const answer = await send();
  delay.disable();
  expect(answer.status).toBe(status);
  expect(delay.max / 1e6).toBeLessThan(MAX_MS);
});
