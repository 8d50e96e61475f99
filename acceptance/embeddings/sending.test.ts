/** What a provider is sent, and how fast: tokens of a call and of a minute, instructions of models, lengths; and limits of searches. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceRequest,
  startFakeService,
} from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** A text says its vector, `(1,0)`, wherever that stands in it. */
const answerTo = (request: ServiceRequest) => {
  const data = request.json().input.map((text: string, index: number) => {
    const [, x = '0', y = '1'] = /\(([-\d.]+),([-\d.]+)\)/.exec(text) ?? [];
    return { index, embedding: [Number(x), Number(y)] };
  });
  return { body: { data, usage: { total_tokens: 5 * data.length } } };
};

let platform: TestPlatform;
let fake: FakeService;
let metricsPort: number;
beforeAll(async () => {
  metricsPort = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  fake = await startFakeService();
  await configured({ providers: modelOf({}), defaultProvider: 'openai-compatible' });
  await configured({ cache: { queryTtlMs: 0 }, queue: { concurrency: 1 } });
});
beforeEach(() => {
  fake.answer = answerTo;
  fake.requests.length = 0;
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

const modelOf = (more: object) => ({
  'openai-compatible': {
    endpoint: `${fake.url}/v1/embeddings`,
    models: [{ name: 'two', dimensions: 2, ...more }],
    allowInternal: true,
  },
});
async function configured(config: object): Promise<void> {
  const answer = await platform.admin.patch('/config/embeddings', { config });
  expect(answer.status, answer.text).toBe(200);
}
async function searchable(schemaName: string): Promise<void> {
  await platform.createSchema({
    name: schemaName,
    fields: { text: 'String' },
    conduitOptions: { cms: { enabled: true } },
  });
  await save(schemaName);
}
async function save(schemaName: string): Promise<Json> {
  const own = { schemaName, sourceFields: ['text'], targetField: 'meaning' };
  const answer = await platform.admin.post('/embeddings/configs', own);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.config;
}
async function create(schema: string, texts: readonly string[]): Promise<void> {
  const docs = texts.map((text) => ({ text }));
  const answer = await platform.client.post(`/database/${schema}/many`, { docs });
  expect(answer.status, answer.text).toBe(200);
}
const queueOf = async (schemaName: string): Promise<Json> =>
  (await platform.admin.get('/embeddings/status', { query: { schemaName } })).body.generationQueue;
const done = (schemaName: string, records: number) =>
  waitFor(
    async () => {
      const { completed, waiting, active, delayed } = await queueOf(schemaName);
      return completed >= records && waiting + active + delayed === 0;
    },
    { timeoutMs: 60_000, everyMs: 50, what: `embeddings of ${schemaName}` },
  );
const search = (schemaName: string, body: object) =>
  platform.admin.post('/embeddings/search', { schemaName, ...body });
const batches = (): string[][] => fake.requests.map((request) => request.json().input);

it('puts no more tokens into a call than it may, and a text that has more goes alone', async () => {
  await configured({ batch: { maxTokens: 10 } });
  await searchable('Tokens');
  const short = Array.from({ length: 7 }, (_, i) => `(1,${i}) 12 chars`.padEnd(16, '.'));
  await create('Tokens', [...short, 'x'.repeat(200)]);
  await done('Tokens', 8);
  expect(batches().flat()).toHaveLength(8);
  for (const batch of batches())
    expect(batch.length === 1 || batch.join('').length <= 40, batch.join()).toBe(true);
  expect(batches().some((batch) => batch.length === 2)).toBe(true);
  await configured({ batch: { maxTokens: 0 } });
});

it('sends no passage again because one behind it was not taken', async () => {
  await configured({ batch: { maxInputs: 1 } });
  await searchable('Pieces');
  const isRefused = (): boolean => [2, 4].includes(fake.requests.length);
  fake.answer = (request) =>
    isRefused() ? { status: 503, headers: { 'retry-after': '1' } } : answerTo(request);
  await create('Pieces', [Array.from({ length: 1_900 }, (_, i) => `word${i}`).join(' ')]);
  await done('Pieces', 1);
  const sent = batches().flat();
  expect(new Set(sent).size).toBeGreaterThan(4);
  expect(sent.length - new Set(sent).size).toBe(2);
  await configured({ batch: { maxInputs: 64 } });
});

it('waits when the tokens of a minute are sent, without giving up a record', async () => {
  await searchable('Slow');
  await configured({ rate: { tokensPerMinute: 1 } });
  await create('Slow', ['(1,0) first']);
  await done('Slow', 1);
  await create('Slow', ['(0,1) second']);
  await waitFor(async () => (await queueOf('Slow')).delayed === 1);
  const refused = await search('Slow', { text: 'anything' });
  expect([refused.status, refused.body.code]).toEqual([503, 'PROVIDER_UNAVAILABLE']);
  expect(refused.headers.get('retry-after')).toBe('30');
  const words = await search('Slow', { text: 'second', fallback: 'keyword' });
  expect(words.body).toMatchObject({
    degraded: true,
    hits: [{ document: { text: '(0,1) second' } }],
  });
  expect(fake.requests).toHaveLength(1);
  expect((await queueOf('Slow')).failed).toBe(0);
  await configured({ rate: { tokensPerMinute: 0 } });
  await platform.admin.post('/embeddings/backfills', { schemaName: 'Slow' });
  await done('Slow', 2);
  await waitFor(async () => {
    const { text } = await createApi(`http://127.0.0.1:${metricsPort}`).get('/metrics');
    const isCounted = /embedding_backfill_jobs_total\{[^}]*result="completed"[^}]*\} [1-9]/.test(
      text,
    );
    return isCounted && /embeddings_lag_seconds(?:\{[^}]*\})? \d/.test(text);
  });
});

it('tells a model what it is to do with a text, and makes other vectors when that changes', async () => {
  await searchable('Told');
  await create('Told', ['(1,0) text']);
  await done('Told', 1);
  expect(batches()).toEqual([['(1,0) text']]);
  expect(fake.requests[0]?.json()).not.toHaveProperty('dimensions');
  const told = { queryPrefix: 'query: ', passagePrefix: 'passage: ', sendDimensions: true };
  await configured({ providers: modelOf(told) });
  // What is there goes on as it was made, until its configuration is saved again.
  await search('Told', { text: 'asked' });
  expect(batches().at(-1)).toEqual(['asked']);
  expect(await save('Told')).toMatchObject({
    ...{ queryPrefix: '', passagePrefix: '' },
    next: { queryPrefix: 'query: ', passagePrefix: 'passage: ' },
  });
  await waitFor(
    async () => {
      const { configs } = (await platform.admin.get('/embeddings/configs')).body;
      const own = configs.find((one: Json) => one.schemaName === 'Told');
      return own.next === null && own.queryPrefix === 'query: ';
    },
    { timeoutMs: 60_000, everyMs: 50 },
  );
  expect(batches().at(-1)).toEqual(['passage: (1,0) text']);
  expect(fake.requests.at(-1)?.json()).toMatchObject({ dimensions: 2 });
  const { hits } = (await search('Told', { text: '(1,0)' })).body;
  expect(batches().at(-1)).toEqual(['query: (1,0)']);
  expect(hits[0].matchedChunk).toEqual({ start: 0, end: 10, preview: '(1,0) text' });
  await configured({ providers: modelOf({}) });
});

it('refuses a search for more hits than are answered, or answers that many', async () => {
  await searchable('Crowded');
  await create(
    'Crowded',
    Array.from({ length: 60 }, (_, i) => `(1,${i}) text`),
  );
  await done('Crowded', 60);
  const user = await platform.registerUser();
  const body = { schemaName: 'Crowded', text: '(1,0)', limit: 51 };
  const refused = await user.api.post('/embeddings/search', body);
  expect([refused.status, refused.body.errors]).toEqual([
    400,
    [{ path: 'limit', rule: 'maximum', message: 'must be between 1 and 50' }],
  ]);
  expect((await search('Crowded', { ...body, limit: 1_001 })).status).toBe(400);
  expect((await search('Crowded', { ...body, limit: 60 })).body.hits).toHaveLength(60);
  await configured({ search: { clampLimit: true } });
  expect((await user.api.post('/embeddings/search', body)).body.hits).toHaveLength(50);
  const other = await platform.registerUser();
  for (const limit of [0, -1, 1.5, '5'])
    expect((await other.api.post('/embeddings/search', { ...body, limit })).status).toBe(400);
  await configured({ search: { clampLimit: false, minScore: 0.9 } });
  const near = (await search('Crowded', { text: '(1,0)', limit: 60 })).body.hits;
  expect(near.length).toBeGreaterThan(0);
  expect(near.every(({ score }: Json) => score >= 0.9)).toBe(true);
  const all = await search('Crowded', { text: '(1,0)', limit: 60, minScore: 0 });
  expect(all.body.hits).toHaveLength(60);
  // A score of words is another measure.
  expect((await search('Crowded', { text: 'text', mode: 'keyword' })).body.hits).toHaveLength(10);
  await configured({ search: { minScore: 0 } });
});
