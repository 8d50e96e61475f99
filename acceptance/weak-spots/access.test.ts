/** spec/database.md section 8, rows 9 to 17: nobody sees or does what they may not. Checks of section 10 stand beside. */
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { compare, input, location, operation } from '../../test/support/endpoints.ts';
import { openBench, owned, type WeakSpotBench } from './bench.ts';

describe('weak spots: access control', () => {
  let bench: WeakSpotBench;
  beforeAll(async () => {
    bench = await openBench();
  });
  afterAll(() => bench.close());

  test('row 9, check 5: populate never shows a row or a field that the caller could not read directly', async () => {
    const { client, registerUser } = bench.platform;
    const [anna, ben] = [await registerUser(), await registerUser()];
    const diary = await bench.schema(
      { text: 'String', hidden: { type: 'String', select: false } },
      owned,
    );
    const post = await bench.schema({
      author: { type: 'Relation', model: 'User' },
      diary: { type: 'Relation', model: diary.name },
    });
    const secret = (
      await anna.api.post(`/database/${diary.name}`, { text: 'of anna', hidden: 'never' })
    ).body;
    const { body: made } = await anna.api.post(`/database/${post.name}`, {
      author: anna.userId,
      diary: secret._id,
    });
    const path = `/database/${post.name}/${made._id}`;
    for (const api of [client, ben.api]) {
      const answer = await api.get(`${path}?populate=author`);
      expect([answer.status, answer.text.includes(anna.email)]).toEqual([403, false]);
    }
    expect((await ben.api.get(`${path}?populate=diary`)).body.diary).toBe(secret._id);
    const own = await anna.api.get(`${path}?populate=diary`);
    expect(own.body.diary).toMatchObject({ text: 'of anna' });
    expect(own.text).not.toContain('never');
    expect((await client.get(`${path}?populate=diary`)).status).toBeOneOf([401, 403]);
  });

  test('row 10: a hidden field is in no answer, and nothing can be sorted or filtered by it', async () => {
    const { client, admin } = bench.platform;
    const schema = await bench.schema({ a: 'String', secret: { type: 'String', select: false } });
    const path = `/database/${schema.name}`;
    const created = await client.post(path, { a: 'x', secret: 'hidden-value' });
    const answers = [
      created,
      await client.get(path),
      await client.get(`${path}/${created.body._id}`),
      await client.patch(`${path}/${created.body._id}`, { secret: 'hidden-value-2' }),
      await client.put(`${path}/${created.body._id}`, { a: 'y', secret: 'hidden-value-3' }),
      await client.post(`${path}/many`, { docs: [{ secret: 'hidden-value-4' }] }),
    ];
    for (const { status, text } of answers)
      expect([status, text.includes('hidden-value')]).toEqual([200, false]);
    for (const sort of ['secret', '-secret', 'a,secret']) {
      expect(await client.get(`${path}?sort=${sort}`)).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'sort' }] },
      });
    }
    expect(
      (
        await admin.post(`/database/schemas/${schema.name}/query`, {
          query: { secret: 'hidden-value' },
        })
      ).status,
    ).toBe(400);
  });

  test('row 11, check 8: a record that looks like an instruction to the server comes back as it is, and steers nothing', async () => {
    const schema = await bench.schema({
      result: 'String',
      redirect: 'String',
      setCookies: 'JSON',
      removeCookies: 'JSON',
    });
    const record = {
      result: 'x',
      redirect: 'https://evil.example',
      setCookies: [{ name: 'a', value: 'b' }],
      removeCookies: ['c'],
    };
    const created = await bench.platform.client.post(`/database/${schema.name}`, record);
    const read = await bench.platform.client.get(`/database/${schema.name}/${created.body._id}`);
    for (const { status, headers, body } of [created, read]) {
      expect([status, headers.get('location'), headers.get('set-cookie')]).toEqual([
        200,
        null,
        null,
      ]);
      expect(body).toMatchObject(record);
    }
  });

  test('row 12: without a user nothing of a schema with row authorization is shown or done', async () => {
    const { client, admin, registerUser } = bench.platform;
    const schema = await bench.schema({ a: 'String' }, owned);
    const path = `/database/${schema.name}`;
    const { _id } = (await (await registerUser()).api.post(path, { a: 'x' })).body;
    const answers = [
      await client.get(path),
      await client.get(`${path}/${_id}`),
      await client.post(path, { a: 'y' }),
      await client.patch(`${path}/${_id}`, { a: 'z' }),
      await client.delete(`${path}/${_id}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401]);
    const open = {
      name: 'openOwned',
      operation: operation.get,
      selectedSchemaName: schema.name,
      query: {},
      authentication: false,
    };
    expect((await admin.post('/database/customEndpoints', open)).status).toBe(400);
    const graphql = await client.post('/graphql', {
      query: `{ getDatabase${schema.name} { documents { a } } }`,
    });
    expect(graphql.text).not.toContain('"x"');
  });

  test('row 13: input is never an operator, patterns are escaped and bounded, and scripts do not exist', async () => {
    const { client, admin } = bench.platform;
    const schema = await bench.schema({ meta: 'JSON', title: 'String' });
    await bench.fill(schema, [
      { title: '100% sure', meta: { a: 1 } },
      { title: '100 x', meta: { a: 2 } },
    ]);
    const inputs = [
      input('meta', 'JSON', location.query, { optional: true }),
      input('part', 'String', location.query, { optional: true }),
    ];
    const query = {
      AND: [
        compare('meta', 0, ['Input', 'meta']),
        compare('title', 0, ['Input', 'part'], { like: true }),
      ],
    };
    await bench.endpoint(schema, 'seek', { operation: operation.get, inputs, query });
    const found = async (search: Record<string, string>): Promise<Json[]> =>
      (await client.get('/database/function/seek', { query: search })).body;
    for (const meta of ['{"$ne":null}', '{"$gt":""}', '{"$where":"1"}', '{"$regex":"."}'])
      expect(await found({ meta })).toEqual([]);
    expect(await found({ meta: '{"a":1}' })).toHaveLength(1);
    expect((await found({ part: '0%' })).map(({ title }) => title)).toEqual(['100% sure']);
    expect(await found({ part: '_00' })).toEqual([]);
    const ask = (condition: Json) =>
      admin.post(`/database/schemas/${schema.name}/query`, { query: condition });
    for (const condition of [
      { $where: 'sleep(1000)' },
      { title: { $where: '1' } },
      { $expr: {} },
      { title: { $function: {} } },
    ]) {
      expect((await ask(condition)).status, JSON.stringify(condition)).toBe(400);
    }
    const catastrophic = await ask({ title: { $regex: '^(a+)+$' } });
    expect(catastrophic.status).toBeOneOf([200, 400]);
    expect((await ask({ title: { $regex: '(?=x)' } })).status).toBe(400);
  });

  test('row 14: an answer that depends on the user is never public, and never old', async () => {
    const { registerUser } = bench.platform;
    const schema = await bench.schema({ a: 'String' }, owned);
    await bench.endpoint(schema, 'mineOnly', {
      operation: operation.get,
      query: {},
      authentication: true,
    });
    const user = await registerUser();
    const { _id } = (await user.api.post(`/database/${schema.name}`, { a: 'x' })).body;
    for (const path of [
      `/database/${schema.name}`,
      `/database/${schema.name}/${_id}`,
      '/database/function/mineOnly',
    ]) {
      const { status, headers } = await user.api.get(path);
      expect(status).toBe(200);
      expect(headers.get('cache-control') ?? 'no-store', path).not.toMatch(/public|max-age=[1-9]/);
    }
  });

  test('row 15: what the database says about itself reaches no client', async () => {
    const { client } = bench.platform;
    const target = await bench.schema({ a: 'String' });
    const schema = await bench.schema({
      code: { type: 'String', required: true, unique: true },
      link: { type: 'Relation', model: target.name },
      n: 'Number',
    });
    const [record] = await bench.fill(schema, [{ code: 'a' }]);
    const path = `/database/${schema.name}`;
    const answers = [
      await client.post(path, { code: 'a' }),
      await client.post(path, { code: 'b', link: randomUUID() }),
      await client.post(path, { code: null }),
      await client.post(path, { code: randomBytes(20_000).toString('hex') }),
      await client.patch(`${path}/${record._id}`, { n: 'many' }),
      await client.get(`${path}/not-an-id`),
      await client.get(`${path}?sort=nothing`),
    ];
    for (const { status, text } of answers) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
      expect(text).not.toMatch(
        /duplicate key|violates|constraint|app\.|penstock\.|relation "|select |insert |column "|\bux_|\bfk_|\bpg_/i,
      );
    }
  });

  test('row 16: a schema that anybody may write to says so, and new ones can be closed by default', async () => {
    const { admin, client } = bench.platform;
    const open = await bench.schema({ a: 'String' });
    expect(JSON.stringify(open.warnings)).toMatch(/create/i);
    const closed = {
      create: { authenticated: true },
      read: { authenticated: true },
      update: { authenticated: true },
      delete: { authenticated: true },
    };
    const quiet = await bench.schema({ a: 'String' }, { cms: { crudOperations: closed } });
    expect(quiet.warnings ?? []).toEqual([]);
    expect(
      (await admin.patch('/config/database', { security: { defaultAuthenticated: true } })).status,
    ).toBe(200);
    const safe = await bench.schema({ a: 'String' });
    expect((await client.post(`/database/${safe.name}`, { a: 'x' })).status).toBe(401);
    expect(
      (await admin.patch('/config/database', { security: { defaultAuthenticated: false } })).status,
    ).toBe(200);
  });

  // Inside the process modules reach records through `kernel.records` alone, with an explicit caller.
  test('row 17: no route on any surface takes SQL, and no port is open beside the three surfaces', async () => {
    const { admin, client, addresses } = bench.platform;
    for (const api of [admin, client]) {
      const { paths } = (await api.get('/swagger.json')).body;
      expect(Object.keys(paths).length).toBeGreaterThan(10);
      expect(Object.keys(paths).filter((path) => /raw|sql/i.test(path))).toEqual([]);
    }
    expect(
      Object.keys(addresses)
        .filter((name) => !/docs/i.test(name))
        .sort(),
    ).toEqual(['admin', 'client', 'realtime']);
  });
});
