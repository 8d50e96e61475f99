/** Of texts whose records are gone nothing is kept: no words, no vectors, no pieces of words, whatever was switched off meanwhile. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { system } from '../../src/kernel/caller.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../src/platform.ts';
import type { Json } from '../../test/support/api.ts';
import type { TestDatabase } from '../../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  testAdminPassword,
  testMasterKey,
} from '../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let node: TestNode;
let running: Platform;
let server: TestDatabase;
let database: pg.Client;
let folder: string;
beforeAll(async () => {
  server = await platformDatabase('embedded');
  folder = await temporaryFolder('embeddings-removed');
  running = await startPlatform({ settings: readSettings(testEnvironment(folder, server.url)) });
  node = createTestNode(running.addresses, {
    masterKey: testMasterKey,
    adminPassword: testAdminPassword,
  });
  database = new pg.Client({ connectionString: server.url });
  await database.connect();
});
afterAll(async () => {
  await database?.end();
  await running?.close();
  await removeFolder(folder);
  await server?.drop();
});

/** By words alone, so that no model is needed. */
async function searchable(schemaName: string): Promise<Json> {
  const fields = { title: 'String', body: 'String' };
  const conduitOptions = { cms: { enabled: true } };
  const made = await node.admin.post('/database/schemas', {
    ...{ name: schemaName, fields, conduitOptions },
  });
  expect(made.status, made.text).toBe(200);
  return save({ schemaName });
}
async function save(body: object): Promise<Json> {
  const sources = { sourceFields: ['title', 'body'], targetField: 'words', provider: 'none' };
  const answer = await node.admin.post('/embeddings/configs', { ...sources, ...body });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.config;
}
async function create(schema: string, titles: readonly string[]): Promise<readonly string[]> {
  const docs = titles.map((title) => ({ title }));
  const answer = await node.client.post(`/database/${schema}/many`, { docs });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.docs.map(({ _id }: Json) => _id);
}

const table = (name: 'terms' | 'words' | 'vectors') => `penstock.embeddings_${name}`;
async function kept(generation: string): Promise<readonly string[]> {
  const text = `select term from ${table('terms')} where generation_id = $1 order by term`;
  return (await database.query(text, [generation])).rows.map(({ term }) => term);
}
/** Records of which words, and of which vectors or places for them, are kept. */
async function counts(generation: string): Promise<readonly number[]> {
  const count = async (of: string, where = '') =>
    Number(
      (
        await database.query(`select count(*) as n from ${of} where generation_id = $1 ${where}`, [
          generation,
        ])
      ).rows[0].n,
    );
  return [await count(table('words')), await count(table('vectors'), 'and hash is not null')];
}
const until = (what: string, probe: () => Promise<boolean>) =>
  waitFor(probe, { timeoutMs: 60_000, everyMs: 50, what });
const words = (generation: string, expected: readonly string[]) =>
  until(
    `words ${expected.join()}`,
    async () => (await kept(generation)).join() === expected.join(),
  );

it('forgets a word with the last record that has it', async () => {
  const { generation } = await searchable('Note');
  const [first = '', second = '', third = ''] = await create('Note', [
    'walnut walnut hazel',
    'walnut chestnut',
    'almond',
  ]);
  await words(generation, ['almond', 'chestnut', 'hazel', 'walnut']);
  await node.client.patch(`/database/Note/${first}`, { title: 'walnut pecan' });
  await words(generation, ['almond', 'chestnut', 'pecan', 'walnut']);
  expect((await node.client.delete(`/database/Note/${third}`)).status).toBe(200);
  await words(generation, ['chestnut', 'pecan', 'walnut']);
  await node.client.delete(`/database/Note/${first}`);
  await words(generation, ['chestnut', 'walnut']);
  await node.client.patch(`/database/Note/${second}`, { title: '' });
  await words(generation, []);
  await node.client.patch(`/database/Note/${second}`, { title: 'chestnut' });
  await words(generation, ['chestnut']);
  const search = { schemaName: 'Note', mode: 'keyword', text: 'chesnut' };
  const found = await node.admin.post('/embeddings/search', search);
  expect(found.body.hits).toHaveLength(1);
});

it('counts words of many records that are written and deleted at the same time', async () => {
  const { generation } = await searchable('Crowd');
  const ids = await create(
    'Crowd',
    Array.from({ length: 90 }, (_, i) => `common word${String.fromCharCode(97 + (i % 3))}`),
  );
  await Promise.all([
    ...ids.slice(0, 60).map((id) => node.client.delete(`/database/Crowd/${id}`)),
    ...ids.slice(60).map((id) => node.client.patch(`/database/Crowd/${id}`, { body: 'common' })),
    create('Crowd', ['common late']),
  ]);
  // On the way there the counts may be these for a moment too, of other records.
  const text = `select term || ' ' || uses as word from ${table('terms')} where generation_id = $1 order by term`;
  const uses = async () =>
    (await database.query(text, [generation])).rows.map(({ word }) => word).join();
  const expected = 'common 31,late 1,worda 10,wordb 10,wordc 10';
  await until(`the uses ${expected}`, async () => (await uses()) === expected);
  await until('counts', async () => (await counts(generation)).join() === '31,31');
  expect(await uses()).toBe(expected);
});

it('forgets records that are deleted while their configuration is switched off', async () => {
  const { generation } = await searchable('Off');
  const [first = ''] = await create('Off', ['walnut', 'hazel']);
  await words(generation, ['hazel', 'walnut']);
  await save({ schemaName: 'Off', enabled: false });
  await node.client.delete(`/database/Off/${first}`);
  await words(generation, ['hazel']);
  expect(await counts(generation)).toEqual([1, 1]);
});

it('forgets with a backfill what somebody else has deleted', async () => {
  const { id: configId, generation } = await searchable('Foreign');
  // The one that it began itself looks for what is gone too.
  await until('its first backfill', async () => {
    const { body } = await node.admin.get('/embeddings/backfills', { query: { configId } });
    return body.runs[0]?.state === 'completed';
  });
  const [first = ''] = await create('Foreign', ['walnut', 'hazel']);
  await words(generation, ['hazel', 'walnut']);
  // As a program of the operator's does that knows nothing of us.
  await database.query('delete from app."Foreign" where "_id" = $1', [first]);
  const narrow = { schemaName: 'Foreign', filter: { title: 'hazel' } };
  const backfill = async (body: object) => {
    const started = await node.admin.post('/embeddings/backfills', body);
    expect(started.status, started.text).toBe(200);
    const [{ id }] = started.body.runs;
    return waitFor(
      async () => {
        const run = (await node.admin.get(`/embeddings/backfills/${id}`)).body;
        return run.state === 'completed' && run;
      },
      { timeoutMs: 60_000, everyMs: 50 },
    );
  };
  // One that looks at some records says nothing of the others.
  expect(await backfill(narrow)).toMatchObject({ scannedCount: 1, queuedCount: 1 });
  expect(await kept(generation)).toEqual(['hazel', 'walnut']);
  expect(await backfill({ schemaName: 'Foreign' })).toMatchObject({
    ...{ scannedCount: 1, queuedCount: 2, processedCount: 2 },
  });
  await words(generation, ['hazel']);
  expect(await counts(generation)).toEqual([1, 1]);
});

/** Lets what has a schedule run now. */
async function purge(): Promise<void> {
  const { database: kernel, jobs } = running.kernel;
  await kernel.transaction((transaction) => jobs.enqueue('embeddings.purge', {}, { transaction }));
}

it('keeps nothing of a configuration that is deleted, or of a schema that is destroyed', async () => {
  const config = await searchable('Deleted');
  const destroyed = await searchable('Destroyed');
  await create('Deleted', ['walnut']);
  await create('Destroyed', ['hazel']);
  await words(config.generation, ['walnut']);
  await words(destroyed.generation, ['hazel']);
  expect((await node.admin.delete(`/embeddings/configs/${config.id}`)).status).toBe(200);
  const { schemas } = (
    await node.admin.get('/database/schemas', { query: { search: 'Destroyed' } })
  ).body;
  const gone = await node.admin.delete(`/database/schemas/${schemas[0]._id}`, {
    query: { deleteData: true },
  });
  expect(gone.status, gone.text).toBe(200);
  await until('another generation', async () => {
    const { body } = await node.admin.get(`/embeddings/configs/${destroyed.id}`);
    return body.config.generation !== destroyed.generation;
  });
  await until('nothing is kept', async () => {
    await purge();
    const { rows } = await database.query(
      `select 1 from penstock.embeddings_generations where id = any($1::uuid[])`,
      [[config.generation, destroyed.generation]],
    );
    return rows.length === 0;
  });
  for (const { generation } of [config, destroyed]) {
    expect(await kept(generation)).toEqual([]);
    expect(await counts(generation)).toEqual([0, 0]);
  }
  // The records of the one are still there, and can be searched anew.
  const again = await save({ schemaName: 'Deleted' });
  await words(again.generation, ['walnut']);
});

it('removes what a configuration had at once where that is asked for', async () => {
  const { id, generation } = await searchable('Purged');
  await create('Purged', ['walnut']);
  await words(generation, ['walnut']);
  const gone = await node.admin.delete(`/embeddings/configs/${id}`, { query: { purge: true } });
  expect([gone.status, gone.body.config.id]).toEqual([200, id]);
  // Nobody lets the schedule run here.
  await words(generation, []);
  await until('counts', async () => (await counts(generation)).join() === '0,0');
});

it('goes on when more files are gone at once than a filter names', async () => {
  const fields = { title: 'String', attached: { type: 'Relation', model: 'File' } };
  const conduitOptions = { cms: { enabled: true } };
  const made = await node.admin.post('/database/schemas', {
    ...{ name: 'Holder', fields, conduitOptions },
  });
  expect(made.status, made.text).toBe(200);
  const { generation } = await save({
    ...{ schemaName: 'Holder', sourceFields: ['title', 'attached'] },
  });
  const { database: kernel, events } = running.kernel;
  const ids = Array.from({ length: 1_500 }, () => crypto.randomUUID());
  await kernel.transaction((transaction) =>
    events.emit(transaction, system('test'), { topic: 'storage:delete:File', ids }),
  );
  await create('Holder', ['walnut']);
  await words(generation, ['walnut']);
});

it('takes as many records in one step as the configuration allows', async () => {
  await searchable('Steps');
  const queue = { maxBatchSize: 20 };
  const changed = await node.admin.patch('/config/embeddings', { config: { queue } });
  expect(changed.status, changed.text).toBe(200);
  const start = (batchSize?: number) =>
    node.admin.post('/embeddings/backfills', { schemaName: 'Steps', batchSize });
  const refused = await start(21);
  expect(refused.status).toBe(400);
  expect(refused.body.errors).toMatchObject([{ path: 'batchSize', rule: 'maximum' }]);
  // The one that its configuration began is over, or is in the way of another.
  const run = await waitFor(
    async () => {
      const { status, body } = await start();
      return status === 200 && body.runs[0];
    },
    { timeoutMs: 60_000, what: 'a backfill' },
  );
  expect(run.batchSize).toBe(20);
});
