/** spec/database.md section 8, rows 18 to 28: what is asked for is what happens. Checks of section 10 stand beside. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { compare, input, location, operation } from '../../test/support/endpoints.ts';
import { openBench, owned, type WeakSpotBench } from './bench.ts';

describe('weak spots: correctness', () => {
  let bench: WeakSpotBench;
  beforeAll(async () => {
    bench = await openBench();
  });
  afterAll(() => bench.close());

  test('row 18, check 4: each outcome of a write has its status', async () => {
    const { client, registerUser } = bench.platform;
    const schema = await bench.schema({ code: { type: 'String', required: true, unique: true } });
    const path = `/database/${schema.name}`;
    const [first] = await bench.fill(schema, [{ code: 'a' }, { code: 'b' }]);
    const nobody = randomUUID();
    const outcomes = [
      [await client.post(path, { code: 'a' }), 409],
      [await client.patch(`${path}/${first._id}`, { code: 'b' }), 409],
      [await client.post(path, {}), 400],
      [await client.get(`${path}/${nobody}`), 404],
      [await client.patch(`${path}/${nobody}`, { code: 'c' }), 404],
      [await client.put(`${path}/${nobody}`, { code: 'c' }), 404],
      [await client.delete(`${path}/${nobody}`), 404],
      [await client.get(`${path}/nonsense`), 404],
      [await client.patch(`${path}/nonsense`, { code: 'c' }), 400],
      [await client.delete(`${path}/nonsense`), 400],
    ] as const;
    expect(outcomes.map(([{ status }]) => status)).toEqual(outcomes.map(([, status]) => status));
    const guarded = await bench.schema({ a: 'String' }, owned);
    const [anna, ben] = [await registerUser(), await registerUser()];
    const { _id } = (await anna.api.post(`/database/${guarded.name}`, { a: 'x' })).body;
    const foreign = `/database/${guarded.name}/${_id}`;
    expect((await ben.api.patch(foreign, { a: 'y' })).status).toBeOneOf([403, 404]);
    const granted = {
      subject: `User:${ben.userId}`,
      relation: 'reader',
      resource: `${guarded.name}:${_id}`,
    };
    expect((await bench.platform.admin.post('/authorization/relations', granted)).status).toBe(200);
    expect([
      (await ben.api.get(foreign)).status,
      (await ben.api.patch(foreign, { a: 'y' })).status,
    ]).toEqual([200, 403]);
  });

  test('row 19, check 3: a comma in a text stays in the text', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({ title: 'String' });
    await bench.fill(schema, [{ title: 'one, two' }, { title: 'one' }]);
    const inputs = [input('title', 'String', location.query)];
    await bench.endpoint(schema, 'titled', {
      operation: operation.get,
      inputs,
      query: compare('title', 0, ['Input', 'title']),
    });
    const found = await client.get('/database/function/titled', { query: { title: 'one, two' } });
    expect(found.body).toMatchObject([{ title: 'one, two' }]);
  });

  test('row 20, check 3: null clears an optional field, and a key that is no field is dropped', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({
      a: 'String',
      b: { type: 'String', required: true },
      n: 'Number',
    });
    const [record] = await bench.fill(schema, [{ a: 'x', b: 'y', n: 1, other: 1 }]);
    const path = `/database/${schema.name}/${record._id}`;
    const cleared = await client.patch(path, { a: null, n: null, unknown: 'key' });
    expect(cleared.body).toMatchObject({ a: null, b: 'y', n: null });
    expect(cleared.body).not.toHaveProperty('unknown');
    expect(record).not.toHaveProperty('other');
    expect(await client.patch(path, { b: null })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'b' }] },
    });
  });

  test('row 21: one validator for every writer, and PATCH lifts nothing for anybody else', async () => {
    const { client, admin } = bench.platform;
    const fields = {
      name: { type: 'String', required: true },
      kind: { type: 'String', enum: ['a', 'b'] },
      mail: { type: 'String', validate: { format: 'email' } },
      inner: { code: { type: 'String', required: true }, other: 'String' },
    };
    const schema = await bench.schema(fields);
    const path = `/database/${schema.name}`;
    const [record] = await bench.fill(schema, [{ name: 'n', kind: 'a', inner: { code: 'c' } }]);
    const places = ({ body }: Json): string[] =>
      body.errors.map((problem: Json) => problem.path.split('.').slice(-1)[0]);
    expect((await client.patch(`${path}/${record._id}`, { inner: { other: 'x' } })).status).toBe(
      200,
    );
    for (let turn = 0; turn < 2; turn += 1) {
      expect(places(await client.post(path, { kind: 'z', inner: {} })).sort()).toEqual([
        'code',
        'kind',
        'name',
      ]);
    }
    for (const bad of [{ kind: 'z' }, { mail: 'no' }]) {
      const writers = [
        await client.post(path, { name: 'n', ...bad }),
        await client.patch(`${path}/${record._id}`, bad),
        await client.put(`${path}/${record._id}`, { name: 'n', ...bad }),
        await client.post(`${path}/many`, { docs: [{ name: 'n', ...bad }] }),
        await client.post('/database/batch', {
          operations: [{ op: 'create', schema: schema.name, data: { name: 'n', ...bad } }],
        }),
        await admin.post(`/database/schemas/${schema.name}/docs`, {
          inputDocument: { name: 'n', ...bad },
        }),
        await admin.put(`/database/schemas/${schema.name}/docs/${record._id}`, {
          changedDocument: bad,
        }),
      ];
      expect(writers.map((answer) => [answer.status, ...places(answer)])).toEqual(
        writers.map(() => [400, ...Object.keys(bad)]),
      );
    }
    expect((await client.get(path)).body).toMatchObject({
      count: 1,
      documents: [{ name: 'n', kind: 'a', inner: { code: 'c', other: 'x' } }],
    });
  });

  test('row 22: permissions are stored, toggling on restores routes, what is removed is gone, and changes are checked', async () => {
    const { client, admin } = bench.platform;
    const schema = await bench.schema({ a: 'String' });
    const path = `/database/schemas/${schema._id}`;
    expect(
      (await admin.patch(`${path}/permissions`, { canDelete: false, canModify: 'Nothing' })).status,
    ).toBe(200);
    expect((await admin.get(path)).body.modelOptions.conduit.permissions).toMatchObject({
      canDelete: false,
      canModify: 'Nothing',
    });
    const refused = await admin.post('/database/customEndpoints', {
      name: 'noDelete',
      operation: operation.delete,
      selectedSchemaName: schema.name,
      query: compare('a', 0, ['Custom', 'x']),
    });
    expect(refused.status).toBeOneOf([400, 403]);
    const { _id } = await bench.endpoint(schema, 'looker', {
      operation: operation.get,
      query: compare('a', 0, ['Custom', 'x']),
    });
    const statuses = async () => [
      (await client.get(`/database/${schema.name}`)).status,
      (await client.get('/database/function/looker')).status,
    ];
    await admin.post(`${path}/toggle`);
    expect(await statuses()).toEqual([404, 404]);
    await admin.post(`${path}/toggle`);
    expect(await statuses()).toEqual([200, 200]);
    const wrong = {
      selectedSchemaName: schema.name,
      query: compare('nothing', 0, ['Input', 'gone']),
    };
    expect((await admin.patch(`/database/customEndpoints/${_id}`, wrong)).status).toBe(400);
    expect((await admin.delete(`${path}?deleteData=true`)).status).toBe(409);
    expect((await admin.delete(`/database/customEndpoints/${_id}`)).status).toBe(200);
    expect((await admin.delete(`${path}?deleteData=true`)).status).toBe(200);
    expect(await statuses()).toEqual([404, 404]);
  });

  test('row 23: the owner of a record is written and forgotten with it', async () => {
    const { admin, registerUser } = bench.platform;
    const schema = await bench.schema(
      { code: { type: 'String', required: true, unique: true } },
      owned,
    );
    const user = await registerUser();
    const path = `/database/${schema.name}`;
    const tuples = async (): Promise<number> =>
      (await admin.get(`/authorization/relations?resourceType=${schema.name}`)).body.count;
    const { _id } = (await user.api.post(path, { code: 'a' })).body;
    expect((await user.api.get(`${path}/${_id}`)).status).toBe(200);
    expect(await tuples()).toBe(1);
    expect((await user.api.post(path, { code: 'a' })).status).toBe(409);
    expect(await tuples()).toBe(1);
    expect((await user.api.delete(`${path}/${_id}`)).status).toBe(200);
    expect(await tuples()).toBe(0);
    const left = await admin.get(`/authorization/relations?resource=${schema.name}:${_id}`);
    expect(left.body.count ?? left.body.relations?.length).toBe(0);
  });

  test('row 24: names that differ in case only are one name', async () => {
    const { admin } = bench.platform;
    const schema = await bench.platform.createSchema({
      name: 'UserProfile',
      fields: { a: 'String' },
    });
    for (const name of ['Userprofile', 'USERPROFILE', 'userProfile']) {
      expect(
        (await admin.post('/database/schemas', { name, fields: { a: 'String' } })).status,
      ).toBe(409);
    }
    await bench.endpoint(schema, 'activePosts', { operation: operation.get, query: {} });
    for (const name of ['activeposts', 'active_posts']) {
      const body = { name, operation: operation.get, selectedSchemaName: schema.name, query: {} };
      expect((await admin.post('/database/customEndpoints', body)).status).toBe(409);
    }
  });

  test('row 25: a minus means descending only in front, and every list has its limit', async () => {
    const { client, admin } = bench.platform;
    const schema = await bench.schema({ a: 'String', b: 'Number' });
    await bench.fill(
      schema,
      Array.from({ length: 30 }, (_, b) => ({ a: `a${b}`, b })),
    );
    for (const sort of ['a-b', 'b-', '--b'])
      expect((await client.get(`/database/${schema.name}?sort=${sort}`)).status).toBe(400);
    const { documents } = (await client.get(`/database/${schema.name}?sort=-b&limit=2`)).body;
    expect(documents.map(({ b }: Json) => b)).toEqual([29, 28]);
    expect((await client.get(`/database/${schema.name}`)).body).toMatchObject({
      count: 30,
      documents: { length: 25 },
    });
    expect(
      (await admin.post(`/database/schemas/${schema.name}/query`, { query: {} })).body.documents,
    ).toHaveLength(25);
    for (let i = 0; i < 26; i += 1)
      await bench.endpoint(schema, `many${i}`, { operation: operation.get, query: {} });
    const endpoints = (await admin.get('/database/customEndpoints')).body;
    expect(endpoints.customEndpoints).toHaveLength(25);
    expect(endpoints.count).toBeGreaterThan(25);
  });

  test('row 26: versions of a schema follow each other without a gap and none is used twice', async () => {
    const { admin } = bench.platform;
    const schema = await bench.schema({ f0: 'String' });
    const fields: Record<string, string> = { f0: 'String' };
    const changes = Array.from({ length: 6 }, (_, i) => {
      fields[`f${i + 1}`] = 'String';
      return { ...fields };
    });
    const answers = await Promise.all(
      changes.map((map) => admin.put(`/database/schemas/${schema._id}`, { fields: map })),
    );
    for (const { status } of answers) expect(status).toBeOneOf([200, 409, 503]);
    const { migrations } = (await admin.get(`/database/schemas/${schema._id}/migrations?limit=100`))
      .body;
    const versions: number[] = migrations
      .map(({ to }: Json) => to)
      .sort((a: number, b: number) => a - b);
    expect(new Set(versions).size).toBe(versions.length);
    versions.forEach((version, i) => {
      if (i > 0) expect(version).toBe((versions[i - 1] ?? 0) + 1);
    });
  });

  test('row 27: lists keep their elements, whatever stands in them', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({ tags: ['String'], numbers: ['Number'] });
    const tags = ['a;b', ';', '', '"', "'", '\\', '{}', ',', 'null', ' x '];
    const [record] = await bench.fill(schema, [{ tags, numbers: [1.5, -2, 0] }]);
    const { body } = await client.get(`/database/${schema.name}/${record._id}`);
    expect(body).toMatchObject({ tags, numbers: [1.5, -2, 0] });
  });

  test('row 28: after an import everything is as the import says, extensions of what it makes included', async () => {
    const { admin, client } = bench.platform;
    const schema = await bench.schema({ a: 'String' });
    const closed = { cms: { enabled: true, crudOperations: { create: { enabled: false } } } };
    const imported = {
      name: schema.name,
      fields: { a: 'String' },
      modelOptions: { conduit: closed },
    };
    const fresh = { name: 'FreshOne', fields: { a: 'String' } };
    const extensions = [{ schemaName: 'FreshOne', extension: { fields: { more: 'Number' } } }];
    const answer = await admin.post('/database/schemas/import', {
      schemas: [imported, fresh],
      extensions,
    });
    expect(answer.status, answer.text).toBe(200);
    expect((await client.post(`/database/${schema.name}`, { a: 'x' })).status).toBeOneOf([
      404, 405,
    ]);
    expect((await client.post('/database/FreshOne', { a: 'x', more: 3 })).body).toMatchObject({
      a: 'x',
      more: 3,
    });
    const before = (await admin.get('/database/schemas/export')).text;
    expect((await admin.post('/database/schemas/import', JSON.parse(before))).status).toBe(200);
    expect((await admin.get('/database/schemas/export')).text).toBe(before);
  });
});
