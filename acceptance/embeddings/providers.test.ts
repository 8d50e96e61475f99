/** Providers over HTTP: batches, pauses, failures, another model, and an order that is that of a search by hand. */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceAnswer,
  type ServiceRequest,
  startFakeService,
} from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let fake: FakeService;

/** A text says its vector: `(1,0,0.5,0) whatever`. */
const vectorOf = (text: string, dimensions: number): number[] => {
  const said = /\(([-\d.,]+)\)/.exec(text)?.[1]?.split(',').map(Number) ?? [];
  return Array.from({ length: dimensions }, (_, i) => said[i] ?? 0.01);
};

const embeddingsOf = (request: ServiceRequest): ServiceAnswer => {
  const { model, input } = request.json();
  const dimensions = model === 'three' ? 3 : 4;
  const data = input.map((text: string, index: number) => ({
    index,
    embedding: vectorOf(text, dimensions),
  }));
  // In any order: the numbers say which is which.
  return { body: { data: data.toReversed(), usage: { total_tokens: input.length * 2 } } };
};

const configured = async (config: object) => {
  const answer = await platform.admin.patch('/config/embeddings', { config });
  expect(answer.status, answer.text).toBe(200);
};
const own = (settings: object) => ({ providers: { 'openai-compatible': settings } });

beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
  fake.answer = embeddingsOf;
  await configured({
    ...own({
      endpoint: `${fake.url}/v1/embeddings`,
      apiKey: 'the-key',
      models: [
        { name: 'four', dimensions: 4 },
        { name: 'three', dimensions: 3 },
      ],
      allowInternal: true,
    }),
    defaultProvider: 'openai-compatible',
    batch: { maxInputs: 16 },
    queue: { retryFailedMs: 1_000 },
    cache: { queryTtlMs: 0 },
  });
});
beforeEach(() => {
  fake.answer = embeddingsOf;
  fake.requests.length = 0;
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

const status = async (schemaName: string): Promise<Json> =>
  (await platform.admin.get('/embeddings/status', { query: { schemaName } })).body;

/** So many records were looked at or given up, and nothing waits. */
const indexed = (schemaName: string, records = 0) =>
  waitFor(
    async () => {
      const { generationQueue: queue, backfillQueue: runs } = await status(schemaName);
      const waiting = queue.waiting + queue.active + queue.delayed + runs.waiting + runs.active;
      return waiting === 0 && queue.completed + queue.failed >= records;
    },
    { timeoutMs: 30_000, everyMs: 50, what: `embeddings of ${schemaName}` },
  );

const configure = async (schemaName: string, body: object = {}): Promise<Json> => {
  const answer = await platform.admin.post('/embeddings/configs', {
    schemaName,
    sourceFields: ['text'],
    targetField: 'meaning',
    ...body,
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.config;
};

const schemaOf = (name: string, conduitOptions: object = {}) =>
  platform.createSchema({
    name,
    fields: { text: 'String', rank: 'Number' },
    conduitOptions: { cms: { enabled: true }, ...conduitOptions },
  });
const createAll = async (schema: string, docs: readonly object[], api = platform.client) => {
  const answer = await api.post(`/database/${schema}/many`, { docs });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.docs ?? answer.body;
};
const search = (schemaName: string, body: object) =>
  platform.admin.post('/embeddings/search', { schemaName, ...body });
const texts = (answer: { body: Json }): string[] =>
  answer.body.hits.map(({ document }: Json) => document.text);
/** What was told to subscribers and endpoints, or will be. */
async function eventsOf(topic: string): Promise<readonly Json[]> {
  const database = new pg.Client(platform.databaseUrl);
  await database.connect();
  const text = 'select ids, payload from penstock.outbox where topic = $1 order by seq';
  const { rows } = await database.query(text, [topic]);
  await database.end();
  return rows;
}
const sent = (): string[] => fake.requests.flatMap((request) => request.json().input);

describe('what a provider is sent', () => {
  it('are batches with the key, each text once, and nothing when only other fields change', async () => {
    await schemaOf('Batched');
    await createAll(
      'Batched',
      Array.from({ length: 40 }, (_, i) => ({ text: `(1,${i},0,0) text ${i}`, rank: i })),
    );
    await configure('Batched');
    await indexed('Batched', 40);
    expect(sent()).toHaveLength(40);
    expect(new Set(sent()).size).toBe(40);
    for (const request of fake.requests) {
      expect(request.json()).toMatchObject({ model: 'four' });
      expect(request.json().input.length).toBeLessThanOrEqual(16);
      expect(request.headers.authorization).toBe('Bearer the-key');
    }
    fake.requests.length = 0;
    const { body } = await platform.client.get('/database/Batched', { query: { limit: 1 } });
    const [first] = body.documents;
    await platform.client.patch(`/database/Batched/${first._id}`, { rank: 99 });
    const run = await platform.admin.post('/embeddings/backfills', { schemaName: 'Batched' });
    expect(run.body).toMatchObject({ queued: 1 });
    expect(['queued', 'running', 'completed']).toContain(run.body.runs[0].state);
    await indexed('Batched');
    expect(sent()).toEqual([]);
    await platform.client.patch(`/database/Batched/${first._id}`, { text: '(0,0,0,1) new' });
    await waitFor(async () =>
      texts(await search('Batched', { text: '(0,0,0,1)', limit: 1 }))[0]?.includes('new'),
    );
    await configured({ cache: { queryTtlMs: 60_000 } });
    const asked = async () => (await search('Batched', { text: '(1,2,0,0)' })).body;
    expect(await asked()).toMatchObject({
      took: expect.any(Number),
      usage: { cachedQuery: false, tokens: 2 },
    });
    expect((await asked()).usage).toEqual({ cachedQuery: true, tokens: 0 });
    // Whether somebody has searched for a text before, nobody else is told, unless an operator shares what is known.
    const { userId } = await platform.registerUser();
    const byUser = async () => (await search('Batched', { text: '(1,2,0,0)', userId })).body.usage;
    expect(await byUser()).toEqual({ cachedQuery: false, tokens: 2 });
    expect(await byUser()).toEqual({ cachedQuery: true, tokens: 0 });
    await configured({ cache: { shareQueries: true } });
    await asked();
    expect(await byUser()).toEqual({ cachedQuery: true, tokens: 0 });
    await configured({ cache: { queryTtlMs: 0, shareQueries: false } });
    const { usage } = await status('Batched');
    expect(usage[0]).toMatchObject({ provider: 'openai-compatible' });
    expect(usage[0].tokens).toBe(2 * usage[0].texts);
  });

  it('never comes without permission to addresses inside, nor over a redirect', async () => {
    await schemaOf('Guarded');
    await configure('Guarded');
    await configured(own({ endpoint: fake.url.replace('http:', 'https:'), allowInternal: false }));
    expect((await search('Guarded', { text: 'a' })).body).toMatchObject({
      status: 503,
      code: 'PROVIDER_UNAVAILABLE',
    });
    expect(fake.requests).toEqual([]);
    for (const endpoint of ['http://example.com/', 'https://user:pass@example.com/', 'nowhere'])
      expect(
        (await platform.admin.patch('/config/embeddings', { config: own({ endpoint }) })).status,
      ).toBe(400);
    await configured(own({ endpoint: `${fake.url}/v1/embeddings`, allowInternal: true }));
    fake.answer = () => ({ status: 302, headers: { location: `${fake.url}/elsewhere` } });
    expect((await search('Guarded', { text: 'a' })).status).toBe(503);
    expect(fake.requests.map(({ path }) => path)).toEqual(['/v1/embeddings']);
  });
});

describe('a provider that fails', () => {
  it('leaves writes alone: records wait, searches say so or use words, and all is made up for', async () => {
    await schemaOf('Waiting');
    await configure('Waiting');
    fake.answer = () => ({ status: 503, headers: { 'retry-after': '1' } });
    await createAll('Waiting', [{ text: '(1,0,0,0) needle' }, { text: '(0,1,0,0) hay' }]);
    await waitFor(async () => (await status('Waiting')).generationQueue.delayed > 0);
    const refused = await search('Waiting', { text: '(1,0,0,0)' });
    expect([refused.status, refused.body.code]).toEqual([503, 'PROVIDER_UNAVAILABLE']);
    expect(refused.headers.get('retry-after')).toBe('1');
    fake.answer = embeddingsOf;
    await indexed('Waiting', 2);
    const words = await search('Waiting', { text: 'needle', mode: 'keyword' });
    expect(texts(words)).toEqual(['(1,0,0,0) needle']);
    fake.answer = () => ({ cut: true });
    const degraded = await search('Waiting', { text: 'needle', fallback: 'keyword' });
    expect(degraded.body).toMatchObject({ degraded: true, hits: [{ score: expect.any(Number) }] });
  });

  it('by saying nothing holds up no write: a search is told, records wait, and all is made up for', async () => {
    await schemaOf('Silent');
    await configure('Silent');
    await configured({ security: { embedTimeoutMs: 200 } });
    fake.answer = () => ({ silent: true });
    const refused = await search('Silent', { text: '(1,0,0,0)' });
    expect([refused.status, refused.body.code]).toEqual([504, 'PROVIDER_TIMEOUT']);
    const [first, second] = await createAll('Silent', [
      { text: '(1,0,0,0) first' },
      { text: '(0,1,0,0) second' },
    ]);
    await waitFor(async () => (await status('Silent')).generationQueue.delayed > 0);
    const path = `/database/Silent/${first._id}`;
    const patched = await platform.client.patch(path, { text: '(0,0,1,0) changed' });
    expect(patched.status, patched.text).toBe(200);
    expect((await platform.client.delete(`/database/Silent/${second._id}`)).status).toBe(200);
    fake.answer = embeddingsOf;
    await configured({ security: { embedTimeoutMs: 10_000 } });
    await waitFor(
      async () => {
        const answer = await search('Silent', { text: '(0,0,1,0)' });
        return answer.status === 200 && texts(answer).join() === '(0,0,1,0) changed';
      },
      { timeoutMs: 30_000 },
    );
  });

  it('is away, and words follow all the same', async () => {
    await schemaOf('Away');
    await configure('Away');
    const [first] = await createAll('Away', [{ text: '(1,0,0,0) needle' }]);
    await indexed('Away', 1);
    fake.answer = () => ({ status: 503, headers: { 'retry-after': '3600' } });
    expect((await search('Away', { text: '(1,0,0,0)' })).status).toBe(503);
    const asked = fake.requests.length;
    const changeTo = async (text: string) =>
      expect((await platform.client.patch(`/database/Away/${first._id}`, { text })).status).toBe(
        200,
      );
    const found = (text: string) =>
      waitFor(async () => texts(await search('Away', { text, mode: 'keyword' })).length === 1);
    const isGone = async (text: string) =>
      expect(texts(await search('Away', { text, mode: 'keyword', typos: false }))).toEqual([]);
    await changeTo('(0,1,0,0) thread');
    await found('thread');
    await isGone('needle');
    // Also of a record that gets the text again of which its vectors are.
    await changeTo('(1,0,0,0) needle');
    await found('needle');
    await isGone('thread');
    await createAll('Away', [{ text: '(0,0,1,0) cotton' }]);
    await found('cotton');
    expect(fake.requests).toHaveLength(asked);
    fake.answer = embeddingsOf;
    await configured(own({ endpoint: `${fake.url}/v1/embeddings?again` }));
    await indexed('Away', 2);
    expect(texts(await search('Away', { text: '(1,0,0.5,0)' }))).toEqual([
      '(1,0,0,0) needle',
      '(0,0,1,0) cotton',
    ]);
    await configured(own({ endpoint: `${fake.url}/v1/embeddings` }));
  });

  it('by refusing a text takes nothing from the others', async () => {
    await schemaOf('Refused');
    await configure('Refused');
    fake.answer = (request) =>
      request.text.includes('poison') ? { status: 400, body: {} } : embeddingsOf(request);
    await createAll('Refused', [
      { text: '(1,0,0,0) one' },
      { text: 'poison' },
      { text: '(0,1,0,0) two' },
    ]);
    await indexed('Refused', 3);
    expect(texts(await search('Refused', { text: '(1,0.5,0,0)' }))).toEqual([
      '(1,0,0,0) one',
      '(0,1,0,0) two',
    ]);
    const told = (await eventsOf('embeddings:document:failed')).filter(
      ({ payload }) => payload.schemaName === 'Refused',
    );
    const failed = { schemaName: 'Refused', reason: expect.stringContaining('refused') };
    // The first backfill may meet it as well as its own change: it is told of both times, and given up once.
    expect(told.length).toBeGreaterThan(0);
    for (const event of told) expect(event).toMatchObject({ ids: told[0]?.ids, payload: failed });
    const { generationQueue, warnings } = await status('Refused');
    expect(generationQueue.failed).toBe(1);
    expect(warnings.join()).toContain('1 records were given up');
    const failures = async (query: Json) =>
      (await platform.admin.get('/embeddings/failures', { query })).body;
    const listed = await failures({ schemaName: 'Refused' });
    expect(listed).toMatchObject({
      failures: [
        {
          schemaName: 'Refused',
          recordId: told[0]?.ids[0],
          attempts: expect.any(Number),
          permanent: true,
        },
      ],
      count: 1,
    });
    expect(listed.failures[0].reason).toContain('refused');
    expect(await failures({ schemaName: 'Waiting' })).toEqual({ failures: [], count: 0 });
    // One that had a text before is not found by that any more.
    const one = await search('Refused', { text: '(1,0,0,0)', limit: 1 });
    const changed = { text: 'poison in place of it' };
    await platform.client.patch(`/database/Refused/${one.body.hits[0].document._id}`, changed);
    await waitFor(async () => (await failures({ schemaName: 'Refused' })).count === 2);
    expect(texts(await search('Refused', { text: '(1,0.5,0,0)' }))).toEqual(['(0,1,0,0) two']);
    // A backfill tries it again.
    fake.answer = embeddingsOf;
    await platform.admin.post('/embeddings/backfills', { schemaName: 'Refused' });
    await waitFor(async () => (await failures({ schemaName: 'Refused' })).count === 0);
  });

  it('by vectors of another length is named, and by too many tokens too', async () => {
    await schemaOf('Wrong');
    await configure('Wrong');
    fake.answer = () => ({ body: { data: [{ index: 0, embedding: [1, 2] }] } });
    expect((await search('Wrong', { text: 'a' })).body).toMatchObject({
      status: 412,
      code: 'DIMENSION_MISMATCH',
    });
    fake.answer = embeddingsOf;
    await configured({ budget: { dailyTokens: 1 } });
    const spent = await search('Wrong', { text: 'a' });
    await configured({ budget: { dailyTokens: 0 } });
    expect([spent.status, spent.body.code]).toEqual([503, 'PROVIDER_BUDGET_EXCEEDED']);
  });
});

describe('another model', () => {
  it('is searched from the moment at which all of its vectors are there', async () => {
    await schemaOf('Moved');
    await createAll('Moved', [{ text: '(1,0,0,0) east' }, { text: '(0,1,0,0) north' }]);
    const { generation } = await configure('Moved');
    await indexed('Moved', 2);
    fake.answer = (request) =>
      request.json().model === 'three'
        ? { status: 503, headers: { 'retry-after': '1' } }
        : embeddingsOf(request);
    const changed = await configure('Moved', { model: 'three' });
    expect(changed).toMatchObject({ generation, model: 'four', next: { model: 'three' } });
    await createAll('Moved', [{ text: '(0,0,0,1) up' }]);
    await waitFor(
      async () => (await search('Moved', { text: '(0,0,0,1)' })).body.hits.length === 3,
    );
    expect(texts(await search('Moved', { text: '(0,0,0,1)', limit: 1 }))).toEqual(['(0,0,0,1) up']);
    fake.answer = embeddingsOf;
    const moved = await waitFor(
      async () => {
        const { body } = await platform.admin.get(`/embeddings/configs/${changed.id}`);
        return body.config.next === null && body.config;
      },
      { timeoutMs: 30_000 },
    );
    expect(moved).toMatchObject({ model: 'three', dimensions: 3 });
    expect(moved.generation).not.toBe(generation);
    expect((await search('Moved', { text: '(1,0,0)' })).body.hits).toHaveLength(3);
  });
});

describe('long texts and many records', () => {
  it('are found by the passage that fits', async () => {
    await schemaOf('Long');
    await configure('Long');
    const filler = 'plain words that say little. '.repeat(200);
    await createAll('Long', [{ text: `${filler} (0,0,1,0) needle ${filler}` }, { text: filler }]);
    await indexed('Long', 2);
    const [hit] = (await search('Long', { text: '(0,0,1,0)', limit: 1 })).body.hits;
    expect(hit.distance).toBeCloseTo(0, 3);
    expect(hit.matchedChunk.start).toBeGreaterThan(1_000);
    expect(hit.document.text.slice(hit.matchedChunk.start, hit.matchedChunk.end)).toContain(
      'needle',
    );
  });

  it('are backfilled in pages, ended and gone on with, each once', async () => {
    await schemaOf('Filled');
    await createAll(
      'Filled',
      Array.from({ length: 60 }, (_, i) => ({ text: `(1,${i},0,0) ${i}`, rank: i })),
    );
    const { id: configId } = await configure('Filled', { backfill: 'none' });
    const start = async (body: object = {}) =>
      platform.admin.post('/embeddings/backfills', { schemaName: 'Filled', ...body });
    expect((await start({ filter: { nowhere: 1 }, configId })).status).toBe(400);
    const { runs } = (await start({ batchSize: 7, filter: { rank: { $lt: 30 } } })).body;
    const run = () => platform.admin.get(`/embeddings/backfills/${runs[0].id}`);
    const canceled = await platform.admin.post(`/embeddings/backfills/${runs[0].id}/cancel`);
    if (canceled.status === 200) {
      expect((await platform.admin.post(`/embeddings/backfills/${runs[0].id}/cancel`)).status).toBe(
        409,
      );
      await platform.admin.post(`/embeddings/backfills/${runs[0].id}/resume`);
    }
    await waitFor(async () => (await run()).body.state === 'completed', { timeoutMs: 30_000 });
    expect((await run()).body).toMatchObject({
      scannedCount: 30,
      queuedCount: 30,
      processedCount: 30,
      failedCount: 0,
    });
    const told = await eventsOf('embeddings:run:completed');
    expect(told.filter(({ ids }) => ids[0] === runs[0].id)).toMatchObject([
      { payload: { schemaName: 'Filled', configId, queuedCount: 30, failedCount: 0 } },
    ]);
    await start({ onlyMissing: true });
    await indexed('Filled', 60);
    expect(new Set(sent()).size).toBe(sent().length);
    expect((await search('Filled', { text: '(1,0,0,0)', limit: 100 })).body.hits).toHaveLength(60);
    expect((await search('Filled', { text: '(1,0,0,0)' })).body.hits).toHaveLength(10);
    expect((await platform.admin.delete(`/embeddings/configs/${configId}`)).status).toBe(200);
    expect((await search('Filled', { text: '(1,0,0,0)' })).status).toBe(404);
  });
});

describe('what may be read', () => {
  const random = (seed: number) => () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed / 2_147_483_648;
  };
  const next = random(7);
  const round = (x: number): number => Math.round(x * 1_000) / 1_000;
  const point = (): number[] => Array.from({ length: 4 }, () => round(next() * 2 - 1));
  const users: TestUser[] = [];
  const docs: {
    readonly id: string;
    readonly at: number[];
    readonly rank: number;
    owner: number;
  }[] = [];

  beforeAll(async () => {
    await schemaOf('Private', { authorization: { enabled: true } });
    await configure('Private');
    for (let owner = 0; owner < 3; owner++) users.push(await platform.registerUser());
    // Of the third user there are few, so that their records are put in order one by one.
    for (const [owner, count] of [120, 60, 3].entries()) {
      const made = Array.from({ length: count }, (_, rank) => ({ at: point(), rank: rank % 5 }));
      const created = await createAll(
        'Private',
        made.map(({ at, rank }) => ({ text: `(${at.join()}) doc`, rank })),
        users[owner]?.api,
      );
      for (const record of created) {
        const at = vectorOf(record.text, 4);
        docs.push({ id: record._id, at, rank: record.rank, owner });
      }
    }
    await indexed('Private', 183);
  });

  const cosine = (a: readonly number[], b: readonly number[]): number => {
    const dot = (x: readonly number[], y: readonly number[]) =>
      x.reduce((sum, one, i) => sum + one * (y[i] ?? 0), 0);
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  };
  const byHand = (
    query: readonly number[],
    { owner, rank, limit }: { owner: number; rank: number | undefined; limit: number },
  ) =>
    docs
      .filter((doc) => doc.owner === owner && (rank === undefined || doc.rank === rank))
      .sort((a, b) => cosine(b.at, query) - cosine(a.at, query))
      .slice(0, limit);

  it('is put in order as if there were nothing else, with a filter too', async () => {
    for (let round = 0; round < 24; round++) {
      const owner = round % 3;
      const rank = round % 2 === 0 ? undefined : round % 5;
      const limit = 1 + (round % 12);
      const query = point();
      const answer = await search('Private', {
        userId: users[owner]?.userId,
        text: `(${query.join()})`,
        limit,
        ...(rank !== undefined && { filter: { rank } }),
      });
      expect(answer.status, answer.text).toBe(200);
      const expected = byHand(query, { owner, rank, limit });
      expect(answer.body.hits.map(({ document }: Json) => document._id)).toEqual(
        expected.map(({ id }) => id),
      );
      for (const [i, hit] of answer.body.hits.entries())
        expect(hit.score).toBeCloseTo((1 + cosine(expected[i]?.at ?? [], query)) / 2, 5);
    }
  });

  it('comes in pages that repeat nothing and leave nothing out, in every mode', async () => {
    const [owner] = users;
    const question = { text: '(0.3,-0.2,0.9,0.1) doc', userId: owner?.userId, limit: 25 };
    const pages = async (more: Json, between?: () => Promise<unknown>): Promise<string[]> => {
      const ids: string[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const answer = await search('Private', { ...question, ...more, ...(cursor && { cursor }) });
        expect(answer.status, answer.text).toBe(200);
        ids.push(...answer.body.hits.map(({ document }: Json) => document._id));
        if (cursor === undefined) await between?.();
        cursor = answer.body.nextCursor;
      }
      expect(new Set(ids).size).toBe(ids.length);
      return ids;
    };
    const query = vectorOf(question.text, 4);
    const byMeaning = byHand(query, { owner: 0, rank: undefined, limit: 200 }).map(({ id }) => id);
    expect(await pages({})).toEqual(byMeaning);
    const words = await pages({ mode: 'keyword', text: 'doc' });
    expect(words.toSorted()).toEqual(byMeaning.toSorted());
    const both = await pages({ mode: 'hybrid' });
    expect(both.length).toBeGreaterThanOrEqual(100);
    // With something nearer than everything: it does not push others onto a page twice.
    const nearer = async () => {
      const [made] = await createAll('Private', [{ text: '(0.3,-0.2,0.9,0.1) doc' }], owner?.api);
      docs.push({ id: made._id, at: query, rank: -1, owner: 0 });
      await indexed('Private', docs.length);
    };
    expect(await pages({}, nearer)).toEqual(byMeaning);
    const { nextCursor } = (await search('Private', question)).body;
    const other = async (more: Json) =>
      (await search('Private', { ...question, cursor: nextCursor, ...more })).status;
    expect(await other({})).toBe(200);
    for (const more of [{ text: 'doc' }, { userId: users[1]?.userId }, { filter: { rank: 1 } }])
      expect(await other(more)).toBe(400);
    expect(await other({ cursor: `x${nextCursor}` })).toBe(400);
    expect((await search('Private', { ...question, minScore: 0.95 })).body.nextCursor).toBeNull();
  });

  it('is grouped by a field that is seen: of each value the best', async () => {
    const query = '(0.3,-0.2,0.9,0.1)';
    const asked = { text: query, userId: users[1]?.userId, groupBy: 'rank', limit: 10 };
    const answer = await search('Private', asked);
    expect(answer.status, answer.text).toBe(200);
    const order = byHand(vectorOf(query, 4), { owner: 1, rank: undefined, limit: 200 });
    const best = order.filter(({ rank }, at) => order.findIndex((x) => x.rank === rank) === at);
    expect(answer.body.hits.map(({ document, group }: Json) => [document._id, group])).toEqual(
      best.map(({ id, rank }) => [id, rank]),
    );
    expect(answer.body.nextCursor).toBeNull();
    expect((await search('Private', { ...asked, limit: 2 })).body.hits).toHaveLength(2);
    for (const groupBy of ['nowhere', 'text.x', ''])
      expect((await search('Private', { ...asked, groupBy })).status).toBe(400);
    expect((await search('Private', { ...asked, cursor: 'x' })).status).toBe(400);
  });

  it('follows permissions at once, whoever a body says one is', async () => {
    const [, second, third] = users;
    const text = '(1,0,0,0)';
    const body = { schemaName: 'Private', text, limit: 50 };
    const before = await third?.api.post('/embeddings/search', body);
    expect(before?.body.hits).toHaveLength(3);
    const disguised = { ...body, userId: second?.userId, scope: 'User:x', adminOperator: true };
    const same = await third?.api.post('/embeddings/search', disguised);
    expect(same?.body.hits).toEqual(before?.body.hits);
    const given = docs.find(({ owner }) => owner === 0);
    const shared = await platform.admin.post('/authorization/relations', {
      subject: `User:${third?.userId}`,
      relation: 'reader',
      resource: `Private:${given?.id}`,
    });
    expect(shared.status, shared.text).toBe(200);
    expect((await third?.api.post('/embeddings/search', body))?.body.hits).toHaveLength(4);
    const words = { ...body, text: 'doc', mode: 'keyword' };
    expect((await third?.api.post('/embeddings/search', words))?.body.hits).toHaveLength(4);
    await platform.admin.delete(
      `/authorization/relations/${shared.body._id ?? shared.body.relation?._id}`,
    );
    await waitFor(async () => {
      const hits = (await search('Private', { ...body, userId: third?.userId })).body.hits;
      return hits.length === 3;
    });
    const both = await search('Private', { text: '(1,0,0,0) doc', mode: 'hybrid', limit: 5 });
    expect(both.body.hits).toHaveLength(5);
    expect(both.body.hits[0].score).toBeLessThanOrEqual(1);
  });
});
