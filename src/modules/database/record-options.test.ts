import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

const uuid = '01890000-0000-7000-8000-000000000000';

describe('options of records over HTTP', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  it('keeps deleted records in a trash', async () => {
    const schema = await platform.createSchema({
      name: 'Trashed',
      fields: { title: { type: 'String', required: true, unique: true } },
      conduitOptions: { softDelete: { retainDays: 7 } },
    });
    expect(schema.modelOptions.conduit.softDelete).toEqual({ retainDays: 7 });
    const { body: made } = await platform.client.post('/database/Trashed', { title: 'a' });
    const path = `/database/Trashed/${made._id}`;
    const docs = '/database/schemas/Trashed/docs';
    await platform.client.delete(path);
    expect((await platform.client.get(path)).status).toBe(404);
    expect((await platform.admin.get(docs)).body).toMatchObject({ documents: [], count: 0 });
    const trash = await platform.admin.get(docs, { query: { deleted: true, sort: '-deletedAt' } });
    expect(trash.body).toMatchObject({
      count: 1,
      documents: [{ _id: made._id, title: 'a', deletedAt: expect.any(String) }],
    });
    expect(
      (await platform.client.get('/database/Trashed', { query: { deleted: true } })).body.count,
    ).toBe(0);

    const refused = await platform.client.post(`${path}/restore`, undefined, {
      headers: { 'if-match': '"0"' },
    });
    expect(refused.status).toBe(412);
    const restored = await platform.client.post(`${path}/restore`);
    expect(restored).toMatchObject({ status: 200, body: { _id: made._id, title: 'a', __v: 2 } });
    expect(restored.headers.get('etag')).toMatch(/^"2-/);
    expect((await platform.client.post(`${path}/restore`)).body).toMatchObject({
      status: 404,
      code: 'TRASHED_RECORD_NOT_FOUND',
    });

    await platform.client.delete(path);
    const twin = (await platform.client.post('/database/Trashed', { title: 'a' })).body;
    expect((await platform.admin.post(`${docs}/${made._id}/restore`)).body).toMatchObject({
      status: 409,
      errors: [{ path: 'title', rule: 'unique' }],
    });
    const purged = await platform.admin.post(`${docs}/purge`, { ids: [made._id, twin._id, uuid] });
    expect(purged.body).toEqual({ purged: 1 });
    expect((await platform.admin.get(docs, { query: { deleted: true } })).body.count).toBe(0);
    expect(
      (await platform.admin.post('/database/schemas/User/docs/purge', { ids: [uuid] })).status,
    ).toBe(404);
    expect((await platform.client.post(`${docs}/purge`, { ids: [uuid] })).status).toBe(404);

    const off = await platform.admin.patch(`/database/schemas/${schema._id}`, {
      conduitOptions: { softDelete: false },
    });
    expect(off.status).toBe(200);
    expect((await platform.client.post(`${path}/restore`)).status).toBe(404);
    expect((await platform.admin.get(docs, { query: { deleted: true } })).body.code).toBe(
      'TRASH_DISABLED',
    );
  });

  it('hides the trash from endpoints, queries, batches and GraphQL too', async () => {
    await platform.createSchema({
      name: 'Everywhere',
      fields: { title: 'String', n: 'Number' },
      conduitOptions: { softDelete: true, cms: { query: { enabled: true, fields: ['title'] } } },
    });
    const create = async (n: number) =>
      (await platform.client.post('/database/Everywhere', { title: 'x', n })).body._id;
    const [gone, stays] = [await create(1), await create(2)];
    await platform.client.delete(`/database/Everywhere/${gone}`);
    const query = {
      AND: [
        { schemaField: 'title', operation: 0, comparisonField: { type: 'Custom', value: 'x' } },
      ],
    };
    const endpoint = {
      selectedSchemaName: 'Everywhere',
      query,
      inputs: [],
      authentication: false,
      sorted: false,
      paginated: false,
    };
    const define = (name: string, rest: Json) =>
      platform.admin.post('/database/customEndpoints', { name, ...endpoint, ...rest });
    expect((await define('everyOne', { operation: 0 })).status).toBe(200);
    expect(
      (
        await define('everySum', {
          operation: 5,
          aggregate: { groupBy: [], values: [{ as: 's', function: 'sum', field: 'n' }] },
        })
      ).status,
    ).toBe(200);
    expect(
      (await platform.client.get('/database/function/everyOne')).body.map(({ _id }: Json) => _id),
    ).toEqual([stays]);
    expect((await platform.client.get('/database/function/everySum')).body).toEqual([{ s: 2 }]);
    const asked = await platform.client.post('/database/Everywhere/query', {
      query: { title: 'x' },
    });
    const beside = { query: { title: 'x' }, limit: 2, sort: '-title', where: {} };
    expect(await platform.client.post('/database/Everywhere/query', beside)).toMatchObject({
      status: 400,
      body: {
        errors: [
          { path: 'limit', message: 'belongs in the URL: ?limit=' },
          { path: 'sort', message: 'belongs in the URL: ?sort=' },
          { path: 'where', rule: 'unknown' },
        ],
      },
    });
    expect(asked.body).toMatchObject({ count: 1, documents: [{ _id: stays }] });
    expect(
      (await platform.admin.post('/database/schemas/Everywhere/query', { query: {} })).body.count,
    ).toBe(1);
    const batch = await platform.client.post('/database/batch', {
      operations: [{ op: 'read', schema: 'Everywhere', id: gone }],
    });
    expect(batch.status).toBe(404);
    const graph = await platform.client.post('/graphql', {
      query: '{ getDatabaseEverywhere { count documents { _id } } }',
    });
    expect(graph.body.data.getDatabaseEverywhere).toEqual({
      count: 1,
      documents: [{ _id: stays }],
    });
  });

  it('tells the history of a record and turns it back', async () => {
    await platform.createSchema({
      name: 'Told',
      fields: {
        title: { type: 'String', required: true },
        secret: { type: 'String', select: false },
        inner: { type: 'String', access: { read: 'admin' } },
      },
      conduitOptions: { history: true },
    });
    const user = await platform.registerUser();
    const { body: made } = await user.api.post('/database/Told', {
      title: 'a',
      secret: 's1',
      inner: 'i1',
    });
    const path = `/database/Told/${made._id}`;
    await user.api.patch(path, { title: 'b', secret: 's2', inner: 'i2' });
    const list = await user.api.get(`${path}/history`);
    expect(list.body).toEqual({
      versions: [
        { version: 0, operation: 'update', at: expect.any(String), by: `user:${user.userId}` },
      ],
      count: 1,
    });
    const one = await user.api.get(`${path}/history/0`, { query: { compare: 'current' } });
    expect(one.body).toMatchObject({
      version: 0,
      document: { title: 'a' },
      changes: [{ field: 'title', from: 'a', to: 'b' }],
    });
    expect(one.text).not.toMatch(/s1|s2|i1|i2/);
    const seen = await platform.admin.get(`/database/schemas/Told/docs/${made._id}/history/0`);
    expect(seen.body.changes.map(({ field }: Json) => field).sort()).toEqual(['inner', 'title']);
    expect(seen.text).not.toMatch(/s1|s2/);
    const stale = await user.api.post(`${path}/history/0/restore`, undefined, {
      headers: { 'if-match': '"0"' },
    });
    expect(stale.status).toBe(412);
    const back = await user.api.post(`${path}/history/0/restore`, undefined, {
      headers: { 'if-match': '"1"' },
    });
    expect(back).toMatchObject({ status: 200, body: { title: 'a', __v: 2 } });
    expect((await user.api.get(`${path}/history/9`)).body.code).toBe('VERSION_NOT_FOUND');
    expect((await user.api.get(`${path}/history/x`)).status).toBe(400);
    await user.api.delete(path);
    expect((await user.api.get(`${path}/history`)).status).toBe(404);
    const admin = `/database/schemas/Told/docs/${made._id}/history`;
    expect((await platform.admin.get(admin)).body.count).toBe(3);
    expect((await platform.admin.post(`${admin}/1/restore`)).body).toMatchObject({
      _id: made._id,
      title: 'b',
      inner: 'i2',
      __v: 3,
    });
  });

  it('sets the owner and keeps everybody else away', async () => {
    const limit = ['read', 'update', 'delete'] as const;
    await platform.createSchema({
      name: 'Private',
      fields: { text: 'String', by: { type: 'Relation', model: 'User' } },
      conduitOptions: { owner: { field: 'by', limit } },
    });
    const [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
    expect((await platform.client.post('/database/Private', { text: 'x' })).status).toBe(401);
    expect((await platform.client.get('/database/Private')).status).toBe(401);
    const { body: made } = await ann.api.post('/database/Private', { text: 'x' });
    expect(made.by).toBe(ann.userId);
    const path = `/database/Private/${made._id}`;
    const forbidden = {
      status: 403,
      code: 'FIELD_FORBIDDEN',
      errors: [{ path: 'by', rule: 'access' }],
    };
    expect((await bob.api.post('/database/Private', { by: ann.userId })).body).toMatchObject(
      forbidden,
    );
    expect((await ann.api.patch(path, { by: bob.userId })).body).toMatchObject(forbidden);
    expect([
      (await bob.api.get(path)).status,
      (await bob.api.patch(path, { text: 'y' })).status,
      (await bob.api.delete(path)).status,
    ]).toEqual([404, 404, 404]);
    expect((await bob.api.get('/database/Private')).body).toEqual({ documents: [], count: 0 });
    expect((await ann.api.put(path, { text: 'y' })).body).toMatchObject({
      text: 'y',
      by: ann.userId,
    });
    expect(
      (
        await platform.admin.put(`/database/schemas/Private/docs/${made._id}`, {
          changedDocument: { by: bob.userId },
        })
      ).body.by,
    ).toBe(bob.userId);
    expect((await ann.api.get(path)).status).toBe(404);
    const graph = await ann.api.post('/graphql', { query: '{ getDatabasePrivate { count } }' });
    expect(graph.body.data.getDatabasePrivate.count).toBe(0);
    const document = (await platform.client.get('/swagger.json')).body;
    const body = document.components.schemas.PrivateCreate;
    expect(body.properties.by).toMatchObject({ readOnly: true });
  });

  it('limits fields by role, and combines the owner with row authorization', async () => {
    await platform.createSchema({
      name: 'Sheet',
      fields: {
        title: 'String',
        salary: { type: 'Number', access: { read: 'role:payroll', write: 'role:payroll' } },
        note: { type: 'String', access: { read: 'relation:editor' } },
        by: 'ObjectId',
      },
      conduitOptions: {
        authorization: { enabled: true },
        owner: { field: 'by', limit: ['delete'] },
        softDelete: true,
      },
    });
    const [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
    const { body: made } = await ann.api.post('/database/Sheet', { title: 't', note: 'n' });
    const path = `/database/Sheet/${made._id}`;
    expect((await ann.api.post('/database/Sheet', { salary: 1 })).body).toMatchObject({
      status: 403,
      errors: [{ path: 'salary' }],
    });
    expect((await ann.api.get(path)).body).not.toHaveProperty('salary');
    await platform.admin.post('/authorization/roles', { name: 'payroll' });
    expect(
      (await platform.admin.post(`/authorization/users/${ann.userId}/roles`, { role: 'payroll' }))
        .status,
    ).toBe(200);
    expect((await ann.api.get(path)).body).toHaveProperty('salary', null);
    expect((await ann.api.patch(path, { salary: 5 })).body).toMatchObject({ salary: 5 });
    const graph = await ann.api.post('/graphql', {
      query: '{ getDatabaseSheet { documents { title salary note } } }',
    });
    expect(graph.body.data.getDatabaseSheet.documents).toEqual([
      { title: 't', salary: 5, note: null },
    ]);

    expect((await bob.api.get(path)).status).toBe(404);
    await platform.admin.post('/authorization/relations', {
      subject: `User:${bob.userId}`,
      relation: 'editor',
      resource: `Sheet:${made._id}`,
    });
    expect((await bob.api.get(path)).body).toMatchObject({ title: 't', note: 'n' });
    expect((await bob.api.get(path)).body).not.toHaveProperty('salary');
    // Both must allow it: an editor may delete by permission, but is not the owner.
    expect((await bob.api.delete(path)).status).toBe(403);
    expect((await ann.api.delete(path)).status).toBe(200);

    // Who had a right on the record has it again when it comes back, and nobody has one when it is destroyed.
    expect((await ann.api.get('/database/Sheet')).body).toEqual({ documents: [], count: 0 });
    expect((await bob.api.post(`${path}/restore`)).status).toBe(404);
    expect((await platform.client.post(`${path}/restore`)).status).toBe(401);
    expect((await ann.api.post(`${path}/restore`)).status).toBe(200);
    expect((await ann.api.get('/database/Sheet')).body.count).toBe(1);
    expect((await bob.api.get(path)).body).toMatchObject({ title: 't', note: 'n' });
    await ann.api.delete(path);
    const tuples = async () =>
      (
        await platform.admin.get('/authorization/relations', {
          query: { resource: `Sheet:${made._id}` },
        })
      ).body.relations.length;
    expect(await tuples()).toBe(2);
    expect(
      (await platform.admin.post('/database/schemas/Sheet/docs/purge', { ids: [made._id] })).body,
    ).toEqual({ purged: 1 });
    expect(await tuples()).toBe(0);
  });

  it('takes operators and chosen ids where the schema says so', async () => {
    await platform.createSchema({
      name: 'Loose',
      fields: { n: 'Number', tags: ['String'] },
      conduitOptions: { cms: { crudOperations: { update: { operators: true, upsert: true } } } },
    });
    const path = `/database/Loose/${uuid}`;
    expect((await platform.client.put(path, { n: 1 })).status).toBe(404);
    expect(
      (await platform.client.put(path, { n: 1 }, { query: { upsert: true } })).body,
    ).toMatchObject({ _id: uuid, n: 1, __v: 0 });
    expect(
      (await platform.client.put(path, { n: 2 }, { query: { upsert: true } })).body,
    ).toMatchObject({ n: 2, __v: 1 });
    const changed = await platform.client.patch(path, {
      $inc: { n: 3 },
      $push: { tags: { $each: ['a', 'b'] } },
    });
    expect(changed.body).toMatchObject({ n: 5, tags: ['a', 'b'], __v: 2 });
    expect((await platform.client.patch(path, { $inc: { tags: 1 } })).body).toMatchObject({
      status: 400,
      errors: [{ path: '$inc.tags' }],
    });
    await platform.createSchema({ name: 'Strict', fields: { n: 'Number' } });
    const { body } = await platform.client.post('/database/Strict', { n: 1 });
    // Dropped silently they would be changes that never happen.
    const refused = (path: string) => ({
      status: 400,
      body: { errors: [{ path, rule: 'operator' }] },
    });
    expect(
      await platform.client.patch(`/database/Strict/${body._id}`, { $inc: { n: 3 } }),
    ).toMatchObject(refused('$inc'));
    expect(await platform.client.patch(path, { $add: { n: 3 } })).toMatchObject(refused('$add'));
    expect(await platform.client.put(path, { $inc: { n: 3 } })).toMatchObject(refused('$inc'));
    const docs = [{ _id: uuid, $inc: { n: 3 } }];
    expect(await platform.client.patch('/database/Loose/many', { docs })).toMatchObject(
      refused('docs.0.$inc'),
    );
    const operations = [{ op: 'update', schema: 'Strict', id: body._id, data: { $inc: { n: 3 } } }];
    expect(await platform.client.post('/database/batch', { operations })).toMatchObject(
      refused('operations.0.$inc'),
    );
    const mustExist = { query: { upsert: true }, headers: { 'if-match': '*' } };
    expect(
      (await platform.client.put(`/database/Loose/${body._id}`, { n: 1 }, mustExist)).status,
    ).toBe(404);
    expect(
      (await platform.client.put(`/database/Strict/${uuid}`, { n: 1 }, { query: { upsert: true } }))
        .status,
    ).toBe(404);
  });

  it('shows what a change of options does before it is done', async () => {
    const schema = await platform.createSchema({
      name: 'Planned',
      fields: { code: { type: 'String', required: true, unique: true } },
    });
    const plan = await platform.admin.post(`/database/schemas/${schema._id}/plan`, {
      conduitOptions: { softDelete: true, history: true },
    });
    const statements = plan.body.steps.map(({ statement }: Json) => statement).join('\n');
    expect(statements).toContain('add column "deletedAt" timestamptz(3)');
    expect(statements).toContain('"deletedAt" is null');
    expect(plan.body.destructive).toBe(false);
    const wrong = await platform.admin.patch(`/database/schemas/${schema._id}`, {
      conduitOptions: { owner: { field: 'code' } },
    });
    expect(wrong.body).toMatchObject({
      status: 400,
      errors: [{ path: expect.stringContaining('owner.field') }],
    });
    expect(
      (
        await platform.admin.patch(`/database/schemas/${schema._id}`, {
          conduitOptions: { history: { max: 0 } },
        })
      ).status,
    ).toBe(400);
  });
});
