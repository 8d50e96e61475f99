/** spec/database.md section 8, rows 1 to 8: no way to lose data without having said so. Checks of section 10 stand beside. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import { openBench, type WeakSpotBench } from './bench.ts';

describe('weak spots: data loss and safety', () => {
  let bench: WeakSpotBench;
  beforeAll(async () => {
    bench = await openBench();
  });
  afterAll(() => bench.close());

  const listed = async (schema: Json, query = ''): Promise<Json> =>
    (await bench.platform.client.get(`/database/${schema.name}${query}`)).body;

  test('row 1, check 2: deleteData=false keeps the rows, booleans are strict, and enabled=false lists only what is disabled', async () => {
    const { admin } = bench.platform;
    const kept = await bench.schema({ a: 'String' });
    await bench.fill(kept, [{ a: 'stays' }]);
    for (const query of ['?deleteData=no', '?deleteData=', '?deleteData=0x']) {
      expect((await admin.delete(`/database/schemas/${kept._id}${query}`)).status, query).toBe(400);
    }
    // Nothing is destroyed unless somebody asks for it.
    for (const query of ['?deleteData=false', '']) {
      const { schemas } = (await admin.get(`/database/schemas?search=${kept.name}`)).body;
      expect((await admin.delete(`/database/schemas/${schemas[0]._id}${query}`)).status).toBe(200);
      await bench.platform.createSchema({ name: kept.name, fields: { a: 'String' } });
    }
    expect(await listed(kept)).toMatchObject({ count: 1, documents: [{ a: 'stays' }] });

    const disabled = await bench.schema({ a: 'String' }, { cms: { enabled: false } });
    const { schemas } = (await admin.get('/database/schemas?enabled=false&owner=database')).body;
    expect(schemas.map(({ name }: Json) => name)).toEqual([disabled.name]);
  });

  test('row 2: switching row authorization on deletes nothing, and says what becomes of the records before it does it', async () => {
    const { admin } = bench.platform;
    const schema = await bench.schema({ a: 'String' });
    await bench.fill(schema, [{ a: 'one' }, { a: 'two' }]);
    const change = (authorization: Json) =>
      admin.patch(`/database/schemas/${schema._id}`, { conduitOptions: { authorization } });
    expect(await change({ enabled: true })).toMatchObject({
      status: 400,
      body: { code: 'ADOPTION_MISSING' },
    });
    expect(
      (await change({ enabled: true, mode: 'assignOwner', ownerField: 'nothing' })).status,
    ).toBe(400);
    expect((await listed(schema)).count).toBe(2);
    expect((await change({ enabled: true, mode: 'leaveUnowned' })).status).toBe(200);
    const all = await admin.post(`/database/schemas/${schema.name}/query`, { query: {} });
    expect(all.body.count).toBe(2);
  });

  test('row 3, check 6: an endpoint whose optional inputs are absent never writes to more than was meant', async () => {
    const schema = await bench.schema({ title: 'String' });
    await bench.fill(schema, [{ title: 'a' }, { title: 'b' }]);
    const inputs = ['one', 'two'].map((name) =>
      input(name, 'String', location.query, { optional: true }),
    );
    const query = {
      OR: [compare('title', 0, ['Input', 'one']), { AND: [compare('title', 0, ['Input', 'two'])] }],
    };
    await bench.endpoint(schema, 'wipe', { operation: operation.delete, inputs, query });
    expect(await bench.platform.client.delete('/database/function/wipe')).toMatchObject({
      status: 400,
      body: { code: 'EMPTY_FILTER' },
    });
    expect((await bench.platform.client.delete('/database/function/wipe?one=a')).body).toEqual({
      deletedCount: 1,
    });
    expect((await listed(schema)).documents).toMatchObject([{ title: 'b' }]);
    await bench.endpoint(schema, 'look', { operation: operation.get, inputs, query });
    expect((await bench.platform.client.get('/database/function/look')).body).toEqual([]);
  });

  test('row 4, check 10: a field that is left out of a PUT is hidden, not destroyed, and comes back with its data', async () => {
    const { admin } = bench.platform;
    const schema = await bench.schema({ a: 'String', b: 'Number' });
    await bench.fill(schema, [{ a: 'x', b: 7 }]);
    const path = `/database/schemas/${schema._id}`;
    const plan = await admin.post(`${path}/plan`, { fields: { a: 'String' } });
    expect(plan.body).toMatchObject({ destructive: false });
    expect((await admin.put(`${path}?dryRun=true`, { fields: { a: 'String' } })).status).toBe(200);
    expect((await listed(schema)).documents[0].b).toBe(7);
    expect((await admin.put(path, { fields: { a: 'String' } })).status).toBe(200);
    expect((await listed(schema)).documents[0]).not.toHaveProperty('b');
    expect((await admin.post(`${path}/fields/b/restore`, {})).status).toBe(200);
    expect((await listed(schema)).documents[0].b).toBe(7);
    for (const a of [
      'Number',
      { type: 'Number' },
      ['String'],
      { type: ['String'] },
      { x: 'String' },
    ]) {
      const refused = await admin.put(path, { fields: { a, b: 'Number' } });
      expect(refused.status, JSON.stringify(a)).toBe(403);
    }
  });

  test('row 5: writes of many, imports, batches and endpoint imports happen as a whole or not at all', async () => {
    const { admin, client } = bench.platform;
    const schema = await bench.schema({ code: { type: 'String', required: true, unique: true } });
    const [first] = await bench.fill(schema, [{ code: 'a' }, { code: 'b' }]);
    const path = `/database/${schema.name}`;
    expect(
      (await client.post(`${path}/many`, { docs: [{ code: 'c' }, { code: 'a' }] })).status,
    ).toBe(409);
    expect(
      (
        await client.patch(`${path}/many`, {
          docs: [
            { _id: first._id, code: 'z' },
            { _id: crypto.randomUUID(), code: 'y' },
          ],
        })
      ).status,
    ).toBe(404);
    const operations = [
      { op: 'create', schema: schema.name, data: { code: 'd' } },
      { op: 'create', schema: schema.name, data: { code: 'a' } },
    ];
    expect((await client.post('/database/batch', { operations })).status).toBe(409);
    expect((await listed(schema)).documents.map(({ code }: Json) => code)).toEqual(['a', 'b']);

    const good = { name: 'ImportedGood', fields: { a: 'String' } };
    expect(
      (
        await admin.post('/database/schemas/import', {
          schemas: [good, { name: 'Imported Bad', fields: {} }],
        })
      ).status,
    ).toBe(400);
    expect((await client.get('/database/ImportedGood')).status).toBe(404);
    const endpoint = { name: 'fine', operation: 0, selectedSchemaName: schema.name, query: {} };
    const endpoints = [endpoint, { ...endpoint, name: 'broken', selectedSchemaName: 'Nowhere' }];
    expect(
      (await admin.post('/database/customEndpoints/import', { endpoints })).status,
    ).toBeGreaterThanOrEqual(400);
    expect((await client.get('/database/function/fine')).status).toBe(404);
  });

  test('row 6, check 7: 100 parallel appends keep 100 items, and of 50 parallel changes of one version one wins', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({ tags: ['String'], n: 'Number', m: 'Number' });
    const [record] = await bench.fill(schema, [{ tags: [], n: 0, m: 0 }]);
    const inputs = [
      input('id', 'ObjectId', location.query),
      input('tag', 'String', location.query),
    ];
    const query = compare('_id', 0, ['Input', 'id']);
    const assignments = [
      assign('tags', 3, 'Input', 'tag'),
      assign('n', 1, 'Custom', 1),
      assign('m', 2, 'Custom', 2),
    ];
    await bench.endpoint(schema, 'append', {
      operation: operation.put,
      inputs,
      query,
      assignments,
    });
    const calls = Array.from({ length: 100 }, (_, i) =>
      client.put(`/database/function/append?id=${record._id}&tag=t${i}`),
    );
    expect((await Promise.all(calls)).every(({ status }) => status === 200)).toBe(true);
    const path = `/database/${schema.name}/${record._id}`;
    const { body } = await client.get(path);
    expect(new Set(body.tags).size).toBe(100);
    expect(body).toMatchObject({ n: 100, m: -200, __v: 100 });
    const races = Array.from({ length: 50 }, (_, n) =>
      client.patch(path, { n }, { headers: { 'if-match': '"100"' } }),
    );
    const statuses = (await Promise.all(races)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 412)).toHaveLength(49);
  });

  test('row 7: changing and deleting many records is one statement each', async () => {
    const { admin, client } = bench.platform;
    const schema = await bench.schema({ n: 'Number' });
    await bench.fill(
      schema,
      Array.from({ length: 500 }, (_, n) => ({ n })),
    );
    const query = compare('n', 3, ['Custom', 0]);
    await bench.endpoint(schema, 'raiseAll', {
      operation: operation.patch,
      query,
      assignments: [assign('n', 0, 'Custom', 1)],
    });
    await bench.endpoint(schema, 'dropAll', { operation: operation.delete, query });
    expect((await client.patch('/database/function/raiseAll', {})).body).toEqual({
      matchedCount: 500,
      modifiedCount: 500,
    });
    expect((await client.delete('/database/function/dropAll')).body).toEqual({ deletedCount: 500 });
    const { statements } = (await admin.get('/database/insights')).body;
    const counts = statements
      .filter((each: Json) => each.schema === schema.name)
      .map(({ operation: name, count }: Json) => [name, count]);
    expect(Object.fromEntries(counts)).toMatchObject({ update: 1, delete: 1, insert: 1 });
  });

  test('row 8: names in mixed case work everywhere, and what was answered is committed', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({
      likeCount: 'Number',
      Select: 'Number',
      userName: { type: 'String', index: { type: 'Ascending' } },
    });
    const [record] = await bench.fill(schema, [{ likeCount: 1, Select: 1, userName: 'a' }]);
    await bench.endpoint(schema, 'like', {
      operation: operation.put,
      query: compare('userName', 0, ['Custom', 'a']),
      assignments: [assign('likeCount', 1, 'Custom', 1), assign('Select', 2, 'Custom', 1)],
    });
    expect((await client.put('/database/function/like')).body).toEqual(['Ok']);
    expect((await listed(schema, '?sort=-likeCount,userName,Select')).documents).toMatchObject([
      { likeCount: 2, Select: 0 },
    ]);
    const [stored] = await bench.rows(
      `select "likeCount", __v from app."${schema.name}" where _id = $1`,
      [record._id],
    );
    expect(stored).toEqual({ likeCount: 2, __v: 1 });
  });
});
