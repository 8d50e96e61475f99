/** Models that answer nonsense, filters and vectors of every kind, and generations that change while everything else does. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceAnswer,
  type ServiceRequest,
  startFakeService,
} from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

interface Entry {
  index?: unknown;
  embedding: unknown;
}
/** The angle that a text names. */
const entriesOf = (request: ServiceRequest): Entry[] =>
  request.json().input.map((text: string, index: number) => {
    const angle = Number(/#(\d+)/.exec(text)?.[1] ?? 0) / 100;
    return { index, embedding: [Math.cos(angle), Math.sin(angle)] };
  });
const good = (request: ServiceRequest): ServiceAnswer => ({ body: { data: entriesOf(request) } });
const data = (change: (entries: Entry[]) => unknown) => (request: ServiceRequest) => ({
  body: { data: change(entriesOf(request)) },
});
const every = (change: object) => data((entries) => entries.map((one) => ({ ...one, ...change })));

let platform: TestPlatform;
let fake: FakeService;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
  fake.answer = good;
  const config = { rateLimit: { maxRequests: 1_000_000 } };
  expect((await platform.admin.patch('/config/router', { config })).status).toBe(200);
  await fresh();
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

/** A provider that nobody has had trouble with yet. */
async function fresh(): Promise<void> {
  const models = [
    { name: 'two', dimensions: 2 },
    { name: 'other', dimensions: 2 },
  ];
  const own = { endpoint: `${fake.url}/v1/embeddings`, models, allowInternal: true };
  const config = {
    providers: { 'openai-compatible': own },
    defaultProvider: 'openai-compatible',
    cache: { queryTtlMs: 0 },
    queue: { retryFailedMs: 1_000 },
  };
  const answer = await platform.admin.patch('/config/embeddings', { config });
  expect(answer.status, answer.text).toBe(200);
}
async function save(schemaName: string, more: object = {}): Promise<void> {
  const own = { schemaName, sourceFields: ['text'], targetField: 'meaning', ...more };
  const answer = await platform.admin.post('/embeddings/configs', own);
  expect(answer.status, answer.text).toBe(200);
}
async function searchable(schemaName: string): Promise<void> {
  await platform.createSchema({
    name: schemaName,
    fields: {
      text: 'String',
      rank: 'Number',
      tags: ['String'],
      inner: { deep: 'String' },
      v: { type: 'Vector', dimensions: 3 },
    } as Json,
    conduitOptions: { cms: { enabled: true } },
  });
  await save(schemaName);
}
async function create(schema: string, docs: readonly object[]): Promise<readonly string[]> {
  const answer = await platform.client.post(`/database/${schema}/many`, { docs });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.docs.map(({ _id }: Json) => _id);
}
const search = (schemaName: string, body: object = {}) =>
  platform.admin.post('/embeddings/search', { schemaName, text: '#0', limit: 500, ...body });
const count = async (schemaName: string) => (await search(schemaName)).body.hits?.length;

const nonsense: readonly (readonly [string, (request: ServiceRequest) => ServiceAnswer])[] = [
  ['a page', () => ({ body: '<!doctype html><h1>Sign in</h1>' })],
  ['nothing', () => ({ body: '' })],
  ['an empty object', () => ({ body: {} })],
  ['an error', () => ({ body: { error: { message: 'no' } } })],
  ['no vector', data(() => [])],
  ['one too many', data((entries) => [...entries, ...entries])],
  ['null', data((entries) => entries.map(() => null))],
  ['no numbers', every({ embedding: 'AAAA' })],
  ['numbers as texts', every({ embedding: ['1', '0'] })],
  ['other dimensions', every({ embedding: [1, 0, 0] })],
  ['no dimension', every({ embedding: [] })],
  ['not a number', every({ embedding: [null, 1] })],
  ['infinity', every({ embedding: [1e39, 0] })],
  ['lists in lists', every({ embedding: [[1], [0]] })],
  ['far too much', () => ({ body: { data: [], filler: 'x'.repeat(9_000_000) } })],
  ['places far away', every({ index: 4_294_967_294 })],
  ['places before', every({ index: -1 })],
  ['broken places', every({ index: 0.5 })],
  ['places by name', every({ index: '__proto__' })],
];

it('makes nothing of what is no answer, says so to who searches, and goes on when it is one', async () => {
  await searchable('Nonsense');
  const statuses = new Set<number>();
  for (const [name, answer] of nonsense) {
    await fresh();
    fake.answer = answer;
    const [found] = await Promise.all([
      search('Nonsense'),
      create('Nonsense', [{ text: `#1 ${name}` }, { text: `#2 ${name}` }]),
    ]);
    expect([412, 503], `${name}: ${found.text}`).toContain(found.status);
    expect(['DIMENSION_MISMATCH', 'PROVIDER_UNAVAILABLE']).toContain(found.body.code);
    expect(found.text).not.toContain('Sign in');
    statuses.add(found.status);
  }
  expect(statuses.size).toBe(2);
  // The same place for every text: one of two is not there.
  await fresh();
  fake.answer = every({ index: 0 });
  await create('Nonsense', [{ text: '#3' }, { text: '#4' }]);
  await waitFor(async () => {
    const { body } = await platform.admin.get('/embeddings/status');
    return body.generationQueue.delayed + body.generationQueue.failed > 0;
  });
  fake.answer = good;
  await fresh();
  // Where the first backfill still waits for the model, there is no second one.
  const run = await platform.admin.post('/embeddings/backfills', { schemaName: 'Nonsense' });
  expect([200, 409], run.text).toContain(run.status);
  const all = 2 * nonsense.length + 2;
  await waitFor(async () => (await count('Nonsense')) === all, { timeoutMs: 60_000 });
});

it('believes no count of tokens that cannot be', async () => {
  await searchable('Counted');
  for (const total_tokens of [-1, 1.5, 1e300, '7', null, 9_007_199_254_740_991]) {
    fake.answer = (request) => ({ body: { data: entriesOf(request), usage: { total_tokens } } });
    const found = await search('Counted', { text: 'four' });
    expect(found.status, found.text).toBe(200);
    expect(found.body.usage.tokens).toBe(1);
  }
  fake.answer = good;
});

it('answers filters of every kind, or says which field is wrong', async () => {
  await searchable('Filtered');
  await create('Filtered', [{ text: '#1', rank: 1, tags: ['a'], inner: { deep: 'x' } }]);
  await waitFor(async () => (await count('Filtered')) === 1, { timeoutMs: 30_000 });
  const values = [
    'a',
    '',
    7,
    -0.5,
    1e300,
    true,
    null,
    [],
    ['a'],
    [[]],
    {},
    { $eq: 1 },
    '\u0000',
    '%',
  ];
  const operators = [
    ...['$eq', '$ne', '$gt', '$gte', '$lt', '$lte', '$in', '$nin', '$exists', '$regex', '$like'],
    ...['$ilike', '$contains', '$all', '$size', '$elemMatch', '$not', '$and', '$or', '$nor'],
    ...['$search', '$where', '$expr', '$type', '$mod', '$near', '__proto__', 'constructor'],
  ];
  const filters: unknown[] = [
    0,
    'x',
    [],
    null,
    [{ rank: 1 }],
    { 'inner.deep': 'x' },
    { v: [1, 0, 0] },
  ];
  for (const operator of operators)
    for (const value of values) {
      filters.push({ rank: { [operator]: value } }, { tags: { [operator]: value } });
    }
  for (const operator of operators)
    filters.push(
      { [operator]: 1 },
      { [operator]: [{ rank: 1 }] },
      { 'inner.deep': { [operator]: 'x' } },
    );
  let deep: object = { rank: 1 };
  for (let i = 0; i < 500; i += 1) deep = { $and: [deep] };
  filters.push(deep, { $or: Array.from({ length: 5_000 }, (_, rank) => ({ rank })) });
  // One request at a time is what a caller has; some at once are enough.
  const odd: string[] = [];
  for (let at = 0; at < filters.length; at += 20)
    await Promise.all(
      filters.slice(at, at + 20).map(async (filter) => {
        const { status, text } = await search('Filtered', { filter, mode: 'keyword', text: '1' });
        if (status !== 200 && status !== 400) odd.push(`${JSON.stringify(filter)}: ${text}`);
      }),
    );
  expect(odd.slice(0, 10)).toEqual([]);
}, 60_000);

it('takes raw vectors of numbers alone', async () => {
  const raw = (vector: string, field = 'v') =>
    platform.admin.post(
      '/database/schemas/Filtered/vector-search',
      `{"field":${JSON.stringify(field)},"vector":${vector}}`,
      { headers: { 'content-type': 'application/json' } },
    );
  expect((await raw('[1,0,0]')).status).toBe(200);
  const wrong = [
    ...['[1,0]', '[1,0,0,0]', '[]', '[0,0,0]', '[1e999,0,0]', '[-1e999,0,0]', '[NaN,0,0]'],
    ...['["1",0,0]', '[null,0,0]', '[[1],0,0]', '"1,0,0"', '{"0":1}', 'null', '[true,0,0]'],
    ...['[1e39,0,0]', '[Infinity,0,0]', `[${'0,'.repeat(16_000)}1]`, `[${'0,'.repeat(200_000)}1]`],
  ];
  for (const vector of wrong)
    expect([400, 413], vector.slice(0, 20)).toContain((await raw(vector)).status);
  for (const field of ['text', 'rank', 'meaning', '_id', 'v"', '__proto__', ''])
    expect((await raw('[1,0,0]', field)).status, field).toBe(400);
});

it('switches to other vectors while everything is searched, written and deleted', async () => {
  await searchable('Moving');
  const ids = await create(
    'Moving',
    Array.from({ length: 120 }, (_, i) => ({ text: `#${i} text` })),
  );
  await waitFor(async () => (await count('Moving')) === 120, { timeoutMs: 60_000 });
  const gone = new Set<string>();
  let isOver = false;
  const searching = (async () => {
    let searches = 0;
    while (!isOver) {
      for (const mode of ['vector', 'keyword', 'hybrid']) {
        const before = new Set(gone);
        const { status, text, body } = await search('Moving', { text: '#5 text', mode });
        expect(status, text).toBe(200);
        for (const { document } of body.hits) expect(before.has(document._id)).toBe(false);
        searches += 1;
      }
    }
    return searches;
  })();
  for (const [round, model] of ['other', 'two', 'other', 'two'].entries()) {
    await save('Moving', { model });
    for (const id of ids.slice(round * 20, round * 20 + 20)) {
      expect((await platform.client.delete(`/database/Moving/${id}`)).status).toBe(200);
      gone.add(id);
    }
    await create('Moving', [{ text: `#${200 + round} late` }]);
  }
  const settled = async () => {
    const { body } = await platform.admin.get('/embeddings/configs?schemaName=Moving');
    return body.configs[0].next === null && (await count('Moving')) === 44;
  };
  await waitFor(settled, { timeoutMs: 60_000, everyMs: 100 });
  isOver = true;
  expect(await searching).toBeGreaterThan(3);
  const { configs } = (await platform.admin.get('/embeddings/configs?schemaName=Moving')).body;
  expect(configs[0]).toMatchObject({ model: 'two', next: null });
}, 90_000);

it('tells nothing of a hidden field while it is hidden and shown, and configurations come and go', async () => {
  const fields = { text: 'String', other: { type: 'String' }, kind: 'String' } as Json;
  const options = { conduitOptions: { cms: { enabled: true } } };
  const { _id } = await platform.createSchema({ name: 'Going', fields, ...options });
  const sourceFields = ['text', 'other'];
  await save('Going', { sourceFields });
  await create(
    'Going',
    Array.from({ length: 60 }, (_, i) => ({
      text: `#${i} text`,
      other: 'planted',
      kind: `${i % 3}`,
    })),
  );
  await waitFor(async () => (await count('Going')) === 60, { timeoutMs: 60_000 });
  const { userId } = await platform.registerUser();
  let [isOver, isHidden] = [false, false];
  const seen = new Set<number>();
  const searching = ['vector', 'keyword', 'hybrid'].map(async (mode) => {
    while (!isOver) {
      const before = isHidden;
      const asked = { text: 'planted', mode, highlight: true, facets: ['kind'], userId };
      const { status, text } = await search('Going', { ...asked, targetField: 'meaning' });
      seen.add(status);
      expect([200, 403, 404], text).toContain(status);
      if (before && isHidden) expect(text).not.toContain('planted');
    }
  });
  const change = async (hidden: boolean): Promise<void> => {
    if (!hidden) isHidden = false;
    const other = { type: 'String', ...(hidden && { select: false }) };
    const path = `/database/schemas/${_id}`;
    const answer = await platform.admin.patch(path, { fields: { ...fields, other } });
    expect(answer.status, answer.text).toBe(200);
    isHidden = hidden;
  };
  const pause = () => new Promise((resolve) => setTimeout(resolve, 150));
  const going = async () => {
    for (let round = 0; round < 4; round += 1) {
      await change(true);
      await pause();
      await change(false);
      const { configs } = (await platform.admin.get('/embeddings/configs?schemaName=Going')).body;
      const gone = await platform.admin.delete(`/embeddings/configs/${configs[0].id}`);
      expect(gone.status, gone.text).toBe(200);
      await pause();
      await save('Going', { sourceFields });
      await pause();
    }
    const destroyed = await platform.admin.delete(`/database/schemas/${_id}?deleteData=true`);
    expect(destroyed.status, destroyed.text).toBe(200);
    await pause();
  };
  await going().finally(() => {
    isOver = true;
  });
  await Promise.all(searching);
  expect([...seen].toSorted()).toEqual([200, 403, 404]);
}, 90_000);
