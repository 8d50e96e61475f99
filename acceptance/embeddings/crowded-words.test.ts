/** A word that more records have than a search puts in order: who may read some of them finds the best of these. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** Of Ann's and Cyd's, more than are looked at (20,000); of Bob's, more than are put in order one by one (5,000). */
const ANNS = 20_500;
const BOBS = 5_200;
const CYDS = 20_100;

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;
let cyd: TestUser;

const indexed = (records: number) =>
  waitFor(
    async () => {
      const { body } = await platform.admin.get('/embeddings/status?schemaName=Paper');
      return body.generationQueue.completed === records;
    },
    { timeoutMs: 30_000 },
  );
async function create({ api }: TestUser, title: string, shelf: number): Promise<string> {
  const answer = await api.post('/database/Paper', { title, shelf });
  expect(answer.status, answer.text).toBe(200);
  return answer.body._id;
}

beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
  cyd = await platform.registerUser();
  await platform.createSchema({
    name: 'Paper',
    fields: { title: 'String', shelf: 'Number' },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
  } as Json);
  const made = await platform.admin.post('/embeddings/configs', {
    ...{ schemaName: 'Paper', sourceFields: ['title'], targetField: 'words', provider: 'none' },
  });
  expect(made.status, made.text).toBe(200);
  const first = await create(ann, 'common paper', 1);
  const second = await create(bob, 'common paper', 2);
  const third = await create(cyd, 'common paper', 3);
  await indexed(3);
  const database = new pg.Client(platform.databaseUrl);
  await database.connect();
  // Records with their words, as if they had been written one by one.
  for (const [id, copies] of [
    [first, ANNS],
    [second, BOBS],
    [third, CYDS],
  ] as const)
    await database.query({
      text: `with copies as materialized (select gen_random_uuid() as id from generate_series(1, ${copies})),
        records as (insert into app."Paper" select r.* from copies c, app."Paper" t,
          jsonb_populate_record(t, jsonb_build_object('_id', c.id)) r where t."_id" = '${id}')
        insert into penstock.embeddings_words select r.* from copies c, penstock.embeddings_words w,
          jsonb_populate_record(w, jsonb_build_object('record_id', c.id::text)) r where w.record_id = '${id}'`,
    });
  await database.query('analyze app."Paper"');
  await database.query('analyze penstock.embeddings_words');
  await database.end();
  await create(bob, 'common, common, common and common', 2);
  await indexed(4);
});
afterAll(() => platform?.close());

const search = async (more: object): Promise<Json> => {
  const answer = await platform.admin.post('/embeddings/search', {
    ...{ schemaName: 'Paper', mode: 'keyword', text: 'common', ...more },
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const best = 'common, common, common and common';

it('finds the best of theirs for somebody who may read some', async () => {
  const { hits } = await search({ userId: bob.userId });
  expect(hits).toHaveLength(10);
  expect(hits[0].document.title).toBe(best);
  for (const { document } of hits) expect(document.shelf).toBe(2);
});

it('finds the best of those that fit a filter, for somebody who may read all', async () => {
  const { hits } = await search({ filter: { shelf: 2 } });
  expect(hits).toHaveLength(10);
  expect(hits[0].document.title).toBe(best);
});

it('finds records of somebody who may read more than are put in order, behind those of others', async () => {
  const { hits } = await search({ userId: cyd.userId });
  expect(hits).toHaveLength(10);
  for (const { document } of hits) expect(document.shelf).toBe(3);
});

it('counts values in more records than a filter names', async () => {
  const counted = [{ value: 2, count: BOBS + 2 }];
  const facets = ['shelf'];
  expect((await search({ userId: bob.userId, facets })).facets.shelf).toEqual(counted);
  expect((await search({ filter: { shelf: 2 }, facets })).facets.shelf).toEqual(counted);
});
