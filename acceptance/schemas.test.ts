/** Changes of schemas, over HTTP, at two processes on one database. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';
import { describeWithPostgres15 } from '../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../test/support/two-nodes.ts';
import { waitFor } from '../test/support/wait-for.ts';

await describeWithPostgres15('schemas at two nodes', () => {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
  }, 120_000);
  afterAll(() => nodes?.close(), 60_000);

  const find = async (name: string): Promise<Json> => {
    const { body } = await nodes.first.admin.get('/database/schemas', { query: { search: name } });
    return body.schemas.find((schema: Json) => schema.name === name);
  };

  it('an extension, a new name and a restored field made at one serve at the other when the call returns', async () => {
    const { first, second } = nodes;
    const { _id } = await first.createSchema({
      name: 'Track',
      fields: { title: 'String', length: 'Number' },
    });
    const path = `/database/schemas/${_id}`;
    const { body: track } = expectStatus(
      await second.client.post('/database/Track', { title: 'a', length: 3 }),
      200,
      'create',
    );
    expectStatus(
      await first.admin.post(`${path}/extensions`, { fields: { mood: 'String' } }),
      200,
      'extension',
    );
    const patched = await second.client.patch(`/database/Track/${track._id}`, { mood: 'calm' });
    expect(patched).toMatchObject({ status: 200, body: { title: 'a', mood: 'calm' } });

    const fields = { name: 'String', length: 'Number' };
    expectStatus(
      await second.admin.put(path, { fields, renames: { title: 'name' } }),
      200,
      'rename',
    );
    expect((await first.client.get(`/database/Track/${track._id}`)).body).toMatchObject({
      name: 'a',
      length: 3,
      mood: 'calm',
    });
    const query = '{ getDatabaseTrack { documents { name mood } } }';
    expect(
      (await first.client.post('/graphql', { query })).body.data.getDatabaseTrack.documents,
    ).toEqual([{ name: 'a', mood: 'calm' }]);

    expectStatus(await first.admin.delete(`${path}/fields/length`), 200, 'take out');
    expect((await second.client.get(`/database/Track/${track._id}`)).body).not.toHaveProperty(
      'length',
    );
    expectStatus(await second.admin.post(`${path}/fields/length/restore`), 200, 'restore');
    expect((await first.client.get(`/database/Track/${track._id}`)).body.length).toBe(3);
  });

  it('the same import at both at once is one change', async () => {
    const { first, second } = nodes;
    const body = {
      schemas: [
        { name: 'Band', fields: { name: 'String', best: { type: 'Relation', model: 'Album' } } },
        {
          name: 'Album',
          fields: {
            by: { type: 'Relation', model: 'Band' },
            cover: { type: 'Vector', dimensions: 2 },
          },
        },
      ],
      extensions: [{ schemaName: 'Band', extension: { fields: { country: 'String' } } }],
    };
    const answers = await Promise.all(
      [first, second, first, second].map(({ admin }) =>
        admin.post('/database/schemas/import', body),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    for (const name of ['Band', 'Album']) {
      const schema = await find(name);
      const { body: log } = await second.admin.get(`/database/schemas/${schema._id}/migrations`);
      expect([name, schema.__v, log.count]).toEqual([name, 0, 1]);
    }
  });

  it('of conflicting changes at both at once each is done as a whole or refused', async () => {
    const { first, second } = nodes;
    const { _id } = await first.createSchema({ name: 'Race', fields: { a: 'String' } });
    const rename = (to: string) => ({ fields: { [to]: 'String' }, renames: { a: to } });
    const put = await Promise.all([
      first.admin.put(`/database/schemas/${_id}`, rename('b')),
      second.admin.put(`/database/schemas/${_id}`, rename('c')),
    ]);
    expect(put.map(({ status }) => status).sort()).toEqual([200, 400]);
    const names = await Promise.all(
      [first, second].map(async ({ client }) =>
        Object.keys((await client.post('/database/Race', {})).body),
      ),
    );
    expect(names[0]).toEqual(names[1]);
  });

  it('a large table gets its index while both write', async () => {
    const { first, second } = nodes;
    const { _id } = await first.createSchema({ name: 'Large', fields: { code: 'String' } });
    for (let round = 0; round < 11; round += 1) {
      const docs = Array.from({ length: 1_000 }, (_, n) => ({ code: `${round}-${n}` }));
      expectStatus(await first.client.post('/database/Large/many', { docs }), 200, 'fill');
    }
    const indexes = [{ fields: ['code'], options: { name: 'codes', unique: true } }];
    expectStatus(
      await second.admin.post(`/database/schemas/${_id}/indexes`, { indexes }),
      200,
      'index',
    );
    const writes = [first, second].map(({ client }, n) =>
      client.post('/database/Large', { code: `beside-${n}` }),
    );
    expect((await Promise.all(writes)).map(({ status }) => status)).toEqual([200, 200]);
    await waitFor(
      async () =>
        (await first.admin.get(`/database/schemas/${_id}/indexes`)).body.indexes[0].state ===
        'ready',
    );
    expect((await second.client.post('/database/Large', { code: '0-0' })).status).toBe(409);
  });
});
