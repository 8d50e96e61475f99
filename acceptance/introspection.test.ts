/** A database that is there already, over HTTP, at two processes: found, finalised and served in place. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadSample, type Sample } from '../test/samples/index.ts';
import type { Json } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';
import { describeWithPostgres15 } from '../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../test/support/two-nodes.ts';

await describeWithPostgres15('an existing database at two nodes', () => {
  let nodes: TwoNodes;
  let sample: Sample;
  let before: Awaited<ReturnType<Sample['fingerprint']>>;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
    sample = await loadSample('northwind', nodes.databaseUrl);
    before = await sample.fingerprint();
  }, 120_000);
  afterAll(async () => {
    await sample?.close();
    await nodes?.close();
  }, 60_000);

  const base = '/database/introspection';

  it('is introspected by both at once without harm', async () => {
    const { first, second } = nodes;
    expect((await first.admin.get(base)).body).toMatchObject({
      foreignSchemaCount: 11,
      pendingSchemasCount: 0,
      importedSchemaCount: 0,
    });
    const answers = await Promise.all(
      [first, second, first, second].map(({ admin }) => admin.post(base)),
    );
    for (const { status, body } of answers)
      expect([status, body.result ?? body.code]).toEqual(
        status === 200
          ? [200, 'Schemas successfully introspected']
          : [409, 'INTROSPECTION_RUNNING'],
      );
    expect((await second.admin.get(base)).body).toMatchObject({
      foreignSchemas: [],
      pendingSchemasCount: 11,
    });
  });

  it('is finalised once, and served by the other node when the call returns', async () => {
    const { first, second } = nodes;
    const { body } = expectStatus(
      await second.admin.get(`${base}/schemas`, { query: { limit: 100 } }),
      200,
      'pending',
    );
    expect(body.count).toBe(11);
    const answers = await Promise.all(
      [first, second].map(({ admin }) =>
        admin.post(`${base}/schemas/finalize`, { schemas: body.schemas }),
      ),
    );
    expect(answers.map(({ status }) => status)).toContain(200);
    for (const { status } of answers) expect([200, 404, 409]).toContain(status);
    expect((await second.admin.get('/database/schemas/imp_products/docs/1')).body).toMatchObject({
      _id: '1',
      product_name: 'Mint tea',
    });

    const schemas: Json[] = (
      await first.admin.get('/database/schemas', { query: { limit: 100, search: 'imp_' } })
    ).body.schemas;
    const { _id } = schemas.find(({ name }) => name === 'imp_products');
    const on = { enabled: true };
    const options = { cms: { enabled: true, crudOperations: { read: on, update: on } } };
    expectStatus(
      await first.admin.patch(`/database/schemas/${_id}`, { conduitOptions: options }),
      200,
      'exposure',
    );
    expect(
      (
        await second.client.get('/database/imp_products', {
          query: { sort: '-unit_price', limit: 1 },
        })
      ).body,
    ).toMatchObject({
      count: 3,
      documents: [{ product_name: 'Oat syrup' }],
    });
    const etag = (await second.client.get('/database/imp_products/1')).headers.get('etag') ?? '';
    const patches = await Promise.all(
      [first, second, first, second].map(({ client }, i) =>
        client.patch(
          '/database/imp_products/1',
          { units_in_stock: i },
          { headers: { 'if-match': etag } },
        ),
      ),
    );
    expect(patches.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412]);
    expectStatus(
      await first.client.patch('/database/imp_products/1', { units_in_stock: 39 }),
      200,
      'back',
    );
  });

  it('is as it was', async () => {
    expect(await sample.fingerprint()).toEqual(before);
  });
});
