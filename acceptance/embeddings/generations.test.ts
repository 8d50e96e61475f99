/** Models that are changed while providers fail: when searches move on, what a backfill goes on with, and what is kept of deleted records. */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
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
let database: pg.Client;

const embeddingsOf = (request: ServiceRequest): ServiceAnswer => {
  const { model, input } = request.json();
  const embedding = Array.from({ length: model === 'three' ? 3 : 4 }, (_, i) => i + 1);
  return { body: { data: input.map((_: string, index: number) => ({ index, embedding })) } };
};
/** The new model fails, for texts that have a word. */
const failing =
  (word: string, status: number) =>
  (request: ServiceRequest): ServiceAnswer =>
    request.json().model === 'three' && request.text.includes(word)
      ? { status, body: {} }
      : embeddingsOf(request);

const configured = async (config: object): Promise<void> => {
  const answer = await platform.admin.patch('/config/embeddings', { config });
  expect(answer.status, answer.text).toBe(200);
};
const NEVER = 600_000;

beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
  database = new pg.Client(platform.databaseUrl);
  await database.connect();
  const models = [
    { name: 'four', dimensions: 4 },
    { name: 'three', dimensions: 3 },
  ];
  const endpoint = `${fake.url}/v1/embeddings`;
  await configured({
    providers: { 'openai-compatible': { endpoint, models, allowInternal: true } },
    defaultProvider: 'openai-compatible',
  });
});
beforeEach(async () => {
  fake.answer = embeddingsOf;
  await configured({ enabled: true, queue: { attempts: 1, retryFailedMs: NEVER } });
});
afterAll(async () => {
  await database?.end();
  await platform?.close();
  await fake?.close();
});

const until = <T>(what: string, probe: () => Promise<T | false>) =>
  waitFor(probe, { timeoutMs: 30_000, everyMs: 50, what });

async function save(schemaName: string, more: object = {}): Promise<Json> {
  const answer = await platform.admin.post('/embeddings/configs', {
    ...{ schemaName, sourceFields: ['text'], targetField: 'meaning', model: 'four', ...more },
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.config;
}
const configOf = async ({ id }: Json): Promise<Json> =>
  (await platform.admin.get(`/embeddings/configs/${id}`)).body.config;
const runsOf = async ({ id: configId }: Json): Promise<Json[]> =>
  (await platform.admin.get('/embeddings/backfills', { query: { configId } })).body.runs;
const change = (run: Json, verb: 'cancel' | 'resume') =>
  platform.admin.post(`/embeddings/backfills/${run.id}/${verb}`);
/** The youngest backfill of a configuration is in a state. */
const youngest = (config: Json, state: string): Promise<Json> =>
  until(`a backfill that is ${state}`, async () => {
    const [run] = await runsOf(config);
    return run?.state === state && run;
  });

/** A schema of so many texts, which end with a number, with their vectors. */
async function filled(name: string, records: number): Promise<Json> {
  const conduitOptions = { cms: { enabled: true } };
  await platform.createSchema({ name, fields: { text: 'String' }, conduitOptions } as Json);
  const docs = Array.from({ length: records }, (_, i) => ({ text: `text number${i}` }));
  expect((await platform.client.post(`/database/${name}/many`, { docs })).status).toBe(200);
  const config = await save(name);
  await youngest(config, 'completed');
  return config;
}

it('moves on to another model when what failed in its backfill is made up for', async () => {
  const before = await filled('Failed', 40);
  fake.answer = failing('number7', 503);
  const changed = await save('Failed', { model: 'three' });
  expect(changed.next).toMatchObject({ model: 'three' });
  const run = await youngest(changed, 'completed');
  expect(run.failedCount).toBeGreaterThan(0);
  expect((await configOf(changed)).generation).toBe(before.generation);
  fake.answer = embeddingsOf;
  await configured({ queue: { retryFailedMs: 1_000 } });
  const moved = await until('the new model', async () => {
    const config = await configOf(changed);
    return config.next === null && config;
  });
  expect(moved).toMatchObject({ model: 'three', dimensions: 3 });
  const found = await platform.admin.post('/embeddings/search', {
    ...{ schemaName: 'Failed', text: 'anything', limit: 100 },
  });
  expect(found.body.hits).toHaveLength(40);
});

it('moves on without a text that the new model never takes, but not without many of them', async () => {
  await filled('Refused', 40);
  // 10 to 19, and 1.
  fake.answer = failing('number1', 400);
  const changed = await save('Refused', { model: 'three' });
  expect((await youngest(changed, 'completed')).failedCount).toBe(11);
  // By then the background has looked at it more than once.
  const started = await platform.admin.post('/embeddings/backfills', { schemaName: 'Refused' });
  expect(started.status, started.text).toBe(200);
  await youngest(changed, 'completed');
  expect((await configOf(changed)).next).toMatchObject({ model: 'three' });
  fake.answer = failing('number11', 400);
  expect(
    (await platform.admin.post('/embeddings/backfills', { schemaName: 'Refused' })).status,
  ).toBe(200);
  await until('the new model', async () => (await configOf(changed)).next === null);
  const { body } = await platform.admin.get('/embeddings/failures?schemaName=Refused');
  expect(body).toMatchObject({ count: 1, failures: [{ permanent: true }] });
});

it('goes on with a backfill that has failed, or was ended when all of it was queued', async () => {
  const config = await filled('Resumed', 3);
  fake.answer = failing('number', 503);
  const changed = await save('Resumed', { model: 'three' });
  const failed = await youngest(changed, 'failed');
  expect((await configOf(config)).model).toBe('four');
  await configured({ queue: { attempts: 9 } });
  expect((await change(failed, 'resume')).body.run).toMatchObject({ failedCount: 0 });
  expect((await change(failed, 'cancel')).body.run.state).toBe('canceled');
  expect((await change(failed, 'resume')).body.run.state).toBe('queued');
  fake.answer = embeddingsOf;
  // The provider is asked anew.
  await configured({ queue: { attempts: 8 } });
  expect(await youngest(changed, 'completed')).toMatchObject({ id: failed.id, processedCount: 3 });
  await until('the new model', async () => (await configOf(changed)).next === null);
  expect((await change(failed, 'resume')).body.code).toBe('RUN_STATE_INVALID');
});

it('fills nothing that was given up, and goes on with no backfill beside another one', async () => {
  const config = await filled('Given', 3);
  const [first = {}] = await runsOf(config);
  fake.answer = () => ({ status: 503, headers: { 'retry-after': '600' } });
  await configured({ queue: { attempts: 9 } });
  await save('Given', { model: 'three' });
  const [given = {}] = await runsOf(config);
  expect(['queued', 'running']).toContain(given.state);
  // The old recipe again: what is made beside it is wanted no more.
  expect((await save('Given')).next).toBe(null);
  expect((await runsOf(config))[0]).toMatchObject({ id: given.id, state: 'canceled' });
  expect((await change(given, 'resume')).body.code).toBe('RUN_STATE_INVALID');
  const start = () => platform.admin.post('/embeddings/backfills', { schemaName: 'Given' });
  const second = await start();
  expect(second.status, second.text).toBe(200);
  expect((await change(second.body.runs[0], 'cancel')).status).toBe(200);
  expect((await start()).status).toBe(200);
  const beside = await Promise.all(
    Array.from({ length: 5 }, () => change(second.body.runs[0], 'resume')),
  );
  for (const { status, body } of beside) expect([status, body.code]).toEqual([409, 'RUN_ACTIVE']);
  expect((await change(first, 'resume')).body.code).toBe('RUN_STATE_INVALID');
  expect((await platform.admin.delete(`/embeddings/configs/${config.id}`)).status).toBe(200);
  for (const run of await runsOf(config)) expect(['completed', 'canceled']).toContain(run.state);
});

it('begins a backfill for each configuration of a schema, or for none where one goes on', async () => {
  const config = await filled('Both', 3);
  const words = await save('Both', { targetField: 'words', backfill: 'none' });
  fake.answer = () => ({ status: 503, headers: { 'retry-after': '600' } });
  await configured({ queue: { attempts: 9 } });
  const start = (configId?: string) =>
    platform.admin.post('/embeddings/backfills', { schemaName: 'Both', configId });
  // It goes on, because nothing of it is there yet, and comes behind the other one.
  const begun = await start(words.id);
  expect(begun.status, begun.text).toBe(200);
  const idsOf = async () => (await runsOf(config)).map(({ id }) => id);
  const before = await idsOf();
  expect((await start()).body.code).toBe('RUN_ACTIVE');
  expect(await idsOf()).toEqual(before);
  expect((await change(begun.body.runs[0], 'cancel')).status).toBe(200);
  expect((await start()).body.queued).toBe(2);
});

it('keeps nothing of a deleted record, however long its provider is away', async () => {
  await filled('Away', 3);
  const { rows } = await database.query(`select "_id" as id from app."Away" order by text`);
  const [first, second, third] = rows.map(({ id }) => id);
  const kept = async (id: string): Promise<number> => {
    const text = `select from penstock.embeddings_words where record_id = $1
      union all select from penstock.embeddings_vectors where record_id = $1 and hash is not null`;
    return (await database.query(text, [id])).rows.length;
  };
  const remove = async (id: string) =>
    expect((await platform.client.delete(`/database/Away/${id}`)).status).toBe(200);
  const { generation } = await save('Away');
  expect(generation).toBeTypeOf('string');
  // Both in one batch, when it goes on.
  await configured({ enabled: false, queue: { attempts: 9 } });
  fake.answer = () => ({ status: 503, headers: { 'retry-after': '600' } });
  await remove(first);
  const changed = await platform.client.patch(`/database/Away/${second}`, { text: 'another one' });
  expect(changed.status, changed.text).toBe(200);
  await configured({ enabled: true });
  await until('the end of the first', async () => (await kept(first)) === 0);
  // Now nobody asks the provider for ten minutes.
  await until('a pause', async () => {
    const { body } = await platform.admin.get('/embeddings/status?schemaName=Away');
    return body.warnings.join().includes('gets time to recover');
  });
  await remove(third);
  await until('the end of the third', async () => (await kept(third)) === 0);
  expect(await kept(second)).toBe(2);
});
