/**
 * What is typed, written and answered badly: texts of every kind, limits, and models that are wrong; and what is said of
 * the texts that leave the platform (specification embeddings.md 7 and 9).
 */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceRequest,
  startFakeService,
} from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** Two dimensions: an angle that a text names, or none. */
const embeddingsOf = (request: ServiceRequest) => {
  const { input } = request.json();
  const data = input.map((text: string, index: number) => {
    const angle = (Number(/#(\d+)/.exec(text)?.[1] ?? 0) * Math.PI) / 20_000;
    return { index, embedding: [Math.cos(angle), Math.sin(angle)] };
  });
  return { body: { data, usage: { total_tokens: 3 * input.length } } };
};

let platform: TestPlatform;
let fake: FakeService;
let ann: TestUser;
let bob: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
  fake.answer = embeddingsOf;
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
  const models = [{ name: 'two', dimensions: 2 }];
  const own = { endpoint: `${fake.url}/v1/embeddings`, models, allowInternal: true };
  const config = {
    providers: { 'openai-compatible': own },
    defaultProvider: 'openai-compatible',
    search: { exactUpTo: 0 },
    batch: { maxInputs: 500 },
    queue: { retryFailedMs: 1_000 },
    cache: { queryTtlMs: 0 },
  };
  const patched = await platform.admin.patch('/config/embeddings', { config });
  expect(patched.status, patched.text).toBe(200);
});
beforeEach(() => {
  fake.answer = embeddingsOf;
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

async function searchable(name: string, authorization = false): Promise<void> {
  await platform.createSchema({
    name,
    fields: { text: 'String', rank: 'Number' },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: authorization } },
  } as Json);
  const config = { schemaName: name, sourceFields: ['text'], targetField: 'meaning' };
  const answer = await platform.admin.post('/embeddings/configs', config);
  expect(answer.status, answer.text).toBe(200);
}
const status = async (schemaName: string): Promise<Json> =>
  (await platform.admin.get('/embeddings/status', { query: { schemaName } })).body;
/** Nothing waits any more. */
const done = (schemaName: string, records: number) =>
  waitFor(
    async () => {
      const { generationQueue: queue } = await status(schemaName);
      const waiting = queue.waiting + queue.active + queue.delayed;
      return waiting === 0 && queue.completed + queue.failed >= records;
    },
    { timeoutMs: 60_000, what: `embeddings of ${schemaName}` },
  );
const search = (schemaName: string, body: object) =>
  platform.admin.post('/embeddings/search', { schemaName, ...body });
const texts = ({ body }: { body: Json }): string[] =>
  body.hits.map(({ document }: Json) => document.text);
const create = async (schemaName: string, docs: readonly object[], user = ann) => {
  const answer = await user.api.post(`/database/${schemaName}/many`, { docs });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.docs;
};

it('takes texts of every kind, and none of them holds up the others', async () => {
  await searchable('Any');
  const huge = `${'a long text with many words. '.repeat(6_000)}#9000`;
  const odd = ['', '   ', '\u0001\u0007\u001f', '🎉🎉', 'مرحبا بالعالم #100', '検索 #200', huge];
  await create(
    'Any',
    [...odd, 'plain #300'].map((text) => ({ text })),
  );
  await create('Any', [{ rank: 1 }, { text: null }]);
  const binary = await ann.api.post('/database/Any', { text: 'a\u0000b' });
  expect([binary.status, binary.body.errors?.[0]?.path]).toEqual([400, 'text']);
  await done('Any', 10);
  expect((await status('Any')).generationQueue).toMatchObject({ completed: 10, failed: 0 });
  expect(texts(await search('Any', { text: '#200', limit: 1 }))).toEqual(['検索 #200']);
  const [long] = (await search('Any', { text: '#9000', limit: 1 })).body.hits;
  expect(long.document.text).toHaveLength(huge.length);
  expect(long.matchedChunk.end).toBeGreaterThan(100_000);
  for (const mode of ['vector', 'keyword', 'hybrid'])
    for (const text of ['', ' \n ', 'a\u0000b', 'x'.repeat(40_000), 'ش'.repeat(20_000), 7, null]) {
      const { status: code, body } = await search('Any', { text, mode });
      expect([code, body.errors?.[0]?.path], `${mode} ${String(text).slice(0, 9)}`).toEqual([
        400,
        'text',
      ]);
    }
  for (const text of ['\ud800', '\u0001\u0007', 'עברית', '🎉', '%_\\', '<script>'])
    expect([200, 400]).toContain((await search('Any', { text, mode: 'hybrid' })).status);
});

it('answers as many as were asked for, ten unless told, of what fits and may be read', async () => {
  await searchable('Angle', true);
  const rank = (i: number): number => (i < 2 ? 1 : i < 72 ? 2 : 3);
  for (let from = 0; from < 1_200; from += 200) {
    const docs = Array.from({ length: 200 }, (_, i) => ({
      // Those that fit a filter are the farthest from what is searched for.
      ...{ text: `#${9_999 - from - i}`, rank: rank(from + i) },
    }));
    await create('Angle', docs);
  }
  const own = await create('Angle', [{ text: '#7000' }, { text: '#9500' }, { text: '#8000' }], bob);
  await done('Angle', 1_203);
  expect(texts(await search('Angle', { text: '#0' }))).toHaveLength(10);
  const filtered = async (of: number, more: object = {}) =>
    texts(await search('Angle', { text: '#0', limit: 50, filter: { rank: of }, ...more }));
  // The first are few among very many, and the others more than are asked for.
  expect(await filtered(1)).toEqual(['#9998', '#9999']);
  expect(await filtered(2)).toEqual(Array.from({ length: 50 }, (_, i) => `#${9_928 + i}`));
  expect(await filtered(1, { userId: ann.userId })).toEqual(['#9998', '#9999']);
  expect(await filtered(1, { userId: bob.userId })).toEqual([]);
  const theirs = await bob.api.post('/embeddings/search', { schemaName: 'Angle', text: '#0' });
  expect(texts(theirs)).toEqual(['#7000', '#8000', '#9500']);
  expect(own).toHaveLength(3);
  for (const body of [{ limit: 0 }, { limit: '5' }, { limit: 51 }]) {
    const refused = await bob.api.post('/embeddings/search', {
      ...{ schemaName: 'Angle', text: '#0', ...body },
    });
    expect([refused.status, refused.body.errors?.[0]?.path]).toEqual([400, 'limit']);
  }
});

it('takes two statements of an operator, and those of permissions beside them of a user', async () => {
  const ttl = (queryTtlMs: number) =>
    platform.admin.patch('/config/embeddings', { config: { cache: { queryTtlMs } } });
  await ttl(60_000);
  const sent = vi.spyOn(pg.Client.prototype, 'query');
  const costs = async (more: object) => {
    const counts: number[] = [];
    for (let i = 0; i < 10; i += 1) {
      const before = sent.mock.calls.length;
      expect(texts(await search('Angle', { text: '#0', ...more })).length).toBeGreaterThan(2);
      counts.push(sent.mock.calls.length - before);
    }
    // Jobs send theirs in between.
    return Math.min(...counts);
  };
  expect(await costs({})).toBe(2);
  expect(await costs({ userId: ann.userId })).toBeLessThanOrEqual(4);
  expect(await costs({ userId: bob.userId })).toBeLessThanOrEqual(5);
  sent.mockRestore();
  await ttl(0);
});

it('waits for a model that makes vectors of another length, and takes every write meanwhile', async () => {
  await searchable('Wrong');
  fake.answer = (request) => ({
    body: {
      data: request.json().input.map((_: string, index: number) => ({ index, embedding: [1] })),
    },
  });
  const docs = [{ text: '#10 walnut' }, { text: '#20 hazel' }];
  const [first, second] = await create('Wrong', docs);
  await waitFor(async () => {
    const { generationQueue: queue } = await status('Wrong');
    return queue.delayed + queue.failed > 0;
  });
  const run = await platform.admin.post('/embeddings/backfills', { schemaName: 'Wrong' });
  // Where that of the configuration has met these records, it goes on still.
  expect([200, 409], run.text).toContain(run.status);
  // Words need no model, and who searches is told that not everything may be there.
  const words = await search('Wrong', { text: 'walnut', mode: 'keyword' });
  expect(texts(words)).toEqual(['#10 walnut']);
  expect(words.body.incomplete).toBe(true);
  const patched = await ann.api.patch(`/database/Wrong/${first._id}`, { text: '#3000' });
  expect(patched.status, patched.text).toBe(200);
  expect((await ann.api.delete(`/database/Wrong/${second._id}`)).status).toBe(200);
  expect((await search('Wrong', { text: '#1', mode: 'keyword' })).status).toBe(200);
  fake.answer = embeddingsOf;
  await waitFor(
    async () => {
      const answer = await search('Wrong', { text: '#3000' });
      const { incomplete } = answer.body;
      return answer.status === 200 && texts(answer).join() === '#3000' && incomplete === undefined;
    },
    { timeoutMs: 60_000 },
  );
});

it('notes in the audit log of which records texts were sent, and not what they say', async () => {
  await searchable('Sent');
  const docs = await create('Sent', [{ text: 'a private matter #1' }, { text: '' }]);
  await done('Sent', 2);
  const rows = await waitFor(async () => {
    const query = { action: 'embeddings.send', target: 'schema:Sent' };
    const { body } = await platform.admin.get('/audit-logs', { query });
    return body.entries.length > 0 && body.entries;
  });
  expect(rows).toMatchObject([
    {
      outcome: 'success',
      changes: {
        ...{ provider: 'openai-compatible', model: 'two', fields: ['text'] },
        ...{ records: [docs[0]._id], texts: 1, tokens: 3 },
      },
    },
  ]);
  expect(JSON.stringify(rows)).not.toContain('private');
});
