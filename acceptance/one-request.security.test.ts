/**
 * Requests that cause much more than they look like (security review 2026-11-22, F2, F3, F9, F10): each ends within
 * the account of its request, and with 400, 413, 429 or 503.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectStatus, type TestUser } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

let platform: TestPlatform;
let user: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  await platform.admin.patch('/config/router', { config: { rateLimit: { maxRequests: 100_000 } } });
  const open = { cms: { enabled: true, crudOperations: crud } };
  await platform.createSchema({
    name: 'Doc',
    fields: { title: 'String', data: 'JSON' },
    conduitOptions: open,
  });
  user = await platform.registerUser();
});
afterAll(() => platform?.close());

const crud = {
  create: { enabled: true },
  read: { enabled: true },
  update: { enabled: true },
  delete: { enabled: true },
};
const create = (data: object, ref?: string) => ({
  op: 'create',
  schema: 'Doc',
  data,
  ...(ref && { ref }),
});
const batch = (operations: readonly object[], more: object = {}) =>
  platform.client.post('/database/batch', { operations, ...more });
const count = async () => (await platform.client.get('/database/Doc?limit=1')).body.count as number;

describe('references inside a batch', () => {
  test('stand for ids and single values, not for objects: nothing multiplies', async () => {
    const before = await count();
    const tenfold = (n: number) =>
      create({ title: 'x', data: Array.from({ length: 10 }, () => ({ $ref: `${n}.data` })) });
    const levels = [
      create({ title: 'x', data: ['aaaaaaaaaa'] }),
      tenfold(0),
      tenfold(1),
      tenfold(2),
      tenfold(3),
      tenfold(4),
      tenfold(5),
    ];
    const refused = await batch(levels);
    expect(refused.status).toBe(400);
    expect(refused.body.errors).toMatchObject([
      { path: 'operations.1.data.data.0', rule: 'reference' },
    ]);
    expect(await count()).toBe(before);
    const fine = await batch([
      create({ title: 'one', data: { n: 7 } }, 'a'),
      create({ title: { $ref: 'a.title' }, data: { of: { $ref: 'a' }, n: { $ref: 'a.data.n' } } }),
    ]);
    expectStatus(fine, 200, 'references to single values');
    expect(fine.body.results[1].document.data).toEqual({
      of: fine.body.results[0].document._id,
      n: 7,
    });
  });

  test('count with their length: a record that grows beyond what its route takes is 413', async () => {
    const text = 'x'.repeat(8_000);
    const many = { title: 'x', data: Array.from({ length: 200 }, () => ({ $ref: 'a.title' })) };
    const refused = await batch([create({ title: text }, 'a'), create(many)]);
    expect(refused.status).toBe(413);
    expect(refused.body.message).toMatch(/^operations\.1: /);
    expect(
      (
        await batch([
          create({ title: 'x'.repeat(9_000) }, 'a'),
          create({ title: { $ref: 'a.title' } }),
        ])
      ).body.errors,
    ).toMatchObject([{ path: 'operations.1.data.title', rule: 'reference' }]);
  });

  test('count all together: a hundred records below that limit are 413 too', async () => {
    const text = 'x'.repeat(8_000);
    const many = { title: 'x', data: Array.from({ length: 120 }, () => ({ $ref: 'a.title' })) };
    expect(
      (
        await batch([
          create({ title: text }, 'a'),
          ...Array.from({ length: 40 }, () => create(many)),
        ])
      ).status,
    ).toBe(413);
  });
});

describe('the answer to one request', () => {
  let id: string;
  beforeAll(async () => {
    const made = await platform.client.post('/database/Doc', {
      title: 'large',
      data: 'y'.repeat(1_000_000),
    });
    id = expectStatus(made, 200, 'a large record').body._id;
  });

  test('of a batch of reads has one bound of bytes, whatever the number of reads', async () => {
    const reads = Array.from({ length: 100 }, () => ({ op: 'read', schema: 'Doc', id }));
    expect((await batch(reads)).status).toBe(400);
    const each = expectStatus(await batch(reads, { atomic: false }), 200, 'each for itself');
    expect(each.text.length).toBeLessThan(17 * 1_048_576);
    expect(each.body.results.at(-1).error.status).toBe(400);
    expect((await batch(reads.slice(0, 10))).status).toBe(200);
  });

  test('of GraphQL has one for all fields', async () => {
    const fields = Array.from(
      { length: 20 },
      (_, i) => `a${i}: getDatabaseDoc_Id(id: "${id}") { _id data }`,
    );
    const asked = await platform.client.post('/graphql', { query: `{ ${fields.join('\n')} }` });
    expect(asked.text.length).toBeLessThan(9 * 1_048_576);
    expect(
      asked.body.errors.some(
        (error: { extensions: { status: number } }) => error.extensions.status === 400,
      ),
    ).toBe(true);
  });

  test('counts a GraphQL variable each time that it is used', async () => {
    const fields = Array.from(
      { length: 20 },
      (_, i) => `m${i}: postDatabaseDoc(params: { title: $title }) { _id }`,
    );
    const asked = await platform.client.post('/graphql', {
      query: `mutation ($title: String) { ${fields.join('\n')} }`,
      variables: { title: 'z'.repeat(1_000_000) },
    });
    expect(
      asked.body.errors.some(
        (error: { extensions: { status: number } }) => error.extensions.status === 413,
      ),
    ).toBe(true);
  });
});

describe('MCP', () => {
  const call = (id: number, limit: number) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: {
      name: 'get_database_schemas_schemaname_docs',
      arguments: { schemaName: 'Doc', limit },
    },
  });
  const mcp = (message: object) => platform.admin.post('/mcp?modules=database', message);

  test('has one bound of bytes for all messages of a batch', async () => {
    await platform.client.post('/database/Doc/many', {
      docs: Array.from({ length: 20 }, () => ({ title: 'm', data: 'm'.repeat(50_000) })),
    });
    const answer = await mcp(Array.from({ length: 20 }, (_, id) => call(id, 10)));
    expectStatus(answer, 200, 'a batch of calls');
    const refused = answer.body.filter(
      ({ result }: { result: { isError?: boolean } }) => result.isError,
    );
    expect(refused.length).toBeGreaterThan(0);
    expect(refused[0].result.structuredContent.error.status).toBe(400);
    expect(answer.text.length).toBeLessThan(6 * 1_048_576);
    expect((await mcp(call(1, 1))).body.result.isError).toBeUndefined();
  });
});

describe('locks of a batch', () => {
  test('are never taken on records that the caller may not change, and rights are asked first', async () => {
    await platform.createSchema({
      name: 'Mine',
      fields: { n: 'Number' },
      conduitOptions: {
        cms: { enabled: true, crudOperations: crud },
        authorization: { enabled: true },
      },
    });
    const make = async () =>
      expectStatus(await user.api.post('/database/Mine', { n: 0 }), 200, 'own record').body
        ._id as string;
    const ids = [await make(), await make()];
    const updates = ids.map((id) => ({ op: 'update', schema: 'Mine', id, data: { n: 1 } }));
    const stranger = await platform.registerUser();
    expect((await platform.client.post('/database/batch', { operations: updates })).status).toBe(
      401,
    );
    // A record of their own, then slow reading, then what is not theirs: the owner waits for nothing of it.
    const own = expectStatus(
      await stranger.api.post('/database/Mine', { n: 0 }),
      200,
      'their record',
    ).body._id;
    const reading = Array.from({ length: 90 }, () => ({ op: 'read', schema: 'Mine', id: own }));
    const attack = {
      operations: [
        { op: 'update', schema: 'Mine', id: own, data: { n: 2 } },
        ...reading,
        ...updates,
      ],
    };
    const order: string[] = [];
    const attacking = stranger.api
      .post('/database/batch', attack)
      .then(({ status }) => void order.push(`attack ${status}`));
    const working = user.api
      .post('/database/batch', { operations: updates })
      .then(({ status }) => void order.push(`owner ${status}`));
    await Promise.all([attacking, working]);
    expect(order).toEqual(['owner 200', 'attack 404']);
  });

  test('are taken in one order for everybody, so two batches over the same records both succeed', async () => {
    const made = await platform.client.post('/database/Doc/many', {
      docs: Array.from({ length: 10 }, (_, i) => ({ title: `${i}` })),
    });
    const ids: string[] = made.body.docs.map(({ _id }: { _id: string }) => _id);
    const changing = (order: readonly string[]) =>
      batch(order.map((id) => ({ op: 'update', schema: 'Doc', id, data: { title: 'n' } })));
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => changing(i % 2 ? ids : ids.toReversed())),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  });
});
