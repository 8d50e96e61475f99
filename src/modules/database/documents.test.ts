// Records on the admin surface, batches and opt-in filtering of clients (spec/database.md 2.3, 9).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('records beyond the plain routes', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  it('lets admins read and change records of any schema of theirs', async () => {
    await platform.createSchema({
      name: 'Doc',
      fields: {
        a: { type: 'String', required: true },
        n: 'Number',
        seo: { x: 'String', y: 'String' },
        secret: { type: 'String', select: false },
      },
    });
    const path = '/database/schemas/Doc';
    const made = await platform.admin.post(`${path}/docs`, {
      inputDocument: { a: 'one', n: 1, seo: { x: '1', y: '1' }, secret: 's' },
    });
    expect(made).toMatchObject({ status: 200, body: { a: 'one', __v: 0 } });
    expect(made.body).not.toHaveProperty('secret');
    const many = await platform.admin.post(`${path}/docs/many`, {
      inputDocuments: [
        { a: 'two', n: 2 },
        { a: 'three', n: 3 },
      ],
    });
    expect(many.body.docs).toHaveLength(2);
    const query = async (body: Json, search = '') =>
      platform.admin.post(`${path}/query${search}`, body);
    expect((await query({ query: {} })).body.count).toBe(3);
    const page = await query({ query: { n: { $gte: 2 } } }, '?sort=-n&limit=1&skip=0');
    expect(page.body).toMatchObject({ count: 2, documents: [{ a: 'three' }] });
    expect((await platform.admin.get(`${path}/docs/${made.body._id}`)).body).toEqual({
      ...made.body,
      result: made.body,
    });
    const put = await platform.admin.put(`${path}/docs/${made.body._id}`, {
      changedDocument: { ...made.body, n: 9, seo: { y: '2' } },
    });
    expect(put.body).toMatchObject({ a: 'one', n: 9, seo: { x: '1', y: '2' }, __v: 1 });
    const [two, three] = many.body.docs;
    const changedDocuments = [
      { _id: two._id, n: 20 },
      { _id: three._id, n: 30 },
    ];
    expect(
      (await platform.admin.put(`${path}/docs`, { changedDocuments })).body.docs,
    ).toMatchObject([{ a: 'two', n: 20 }, { n: 30 }]);
    expect((await platform.admin.delete(`${path}/docs/${two._id}`)).body).toEqual({ result: 'Ok' });

    expect((await platform.admin.delete(`${path}/docs/${two._id}`)).status).toBe(404);
    expect((await platform.admin.get(`${path}/docs/nonsense`)).status).toBe(404);
    expect(
      (await platform.admin.put(`${path}/docs/${two._id}`, { changedDocument: { n: 1 } })).status,
    ).toBe(404);
    expect(
      await platform.admin.put(`${path}/docs/${made.body._id}`, { changedDocument: { evil: 1 } }),
    ).toMatchObject({
      status: 404,
      body: { message: 'Wrong input fields!', errors: [{ path: 'changedDocument.evil' }] },
    });
    expect(
      (await platform.admin.post(`${path}/docs`, { inputDocument: { n: 1 } })).body.errors,
    ).toMatchObject([{ path: 'inputDocument.a', rule: 'required' }]);
    const inputDocuments = [{ a: 'four' }, { n: 1 }];
    expect(
      (await platform.admin.post(`${path}/docs/many`, { inputDocuments })).body.errors,
    ).toMatchObject([{ path: 'inputDocuments.1.a' }]);
    expect(
      (await platform.admin.put(`${path}/docs`, { changedDocuments: [{ n: 1 }] })).body.errors,
    ).toMatchObject([{ path: 'changedDocuments.0._id' }]);
    const seen = { headers: { 'if-match': made.headers.get('etag') ?? '' } };
    expect(
      (
        await platform.admin.put(
          `${path}/docs/${made.body._id}`,
          { changedDocument: { n: 1 } },
          seen,
        )
      ).status,
    ).toBe(412);
    expect((await platform.admin.delete(`${path}/docs/${made.body._id}`, seen)).status).toBe(412);
    for (const [body, search, place] of [
      [{}, '', 'query'],
      [{ query: { $where: '1' } }, '', 'query.$where'],
      [{ query: { secret: 's' } }, '', 'query.secret'],
      [{ query: { 'a"; drop table x': 1 } }, '', 'query.a"; drop table x'],
      [{ query: {} }, '?limit=0', 'limit'],
      [{ query: {} }, '?limit=1001', 'limit'],
      [{ query: {} }, '?sort=secret', 'sort'],
    ] as const) {
      expect(await query(body, search)).toMatchObject({
        status: 400,
        body: { errors: [{ path: place }] },
      });
    }
    expect((await platform.admin.post('/database/schemas/None/query', { query: {} })).status).toBe(
      404,
    );
    expect((await platform.adminAnonymous.post(`${path}/query`, { query: {} })).status).toBe(401);
  });

  it('shows records of modules, never what they hide, and keeps them as they are', async () => {
    const user = await platform.registerUser();
    const found = await platform.admin.post('/database/schemas/User/query', {
      query: { email: user.email },
    });
    expect(found.body).toMatchObject({
      count: 1,
      documents: [{ _id: user.userId, email: user.email }],
    });
    expect(found.text).not.toContain('$argon2');
    expect(found.body.documents[0]).not.toHaveProperty('hashedPassword');
    const path = '/database/schemas/User';
    expect(
      await platform.admin.post(`${path}/query`, { query: { hashedPassword: { $regex: '^a' } } }),
    ).toMatchObject({ status: 400 });
    const message = 'Schema does not exist or disallows doc modifications';
    expect(
      await platform.admin.post(`${path}/docs`, { inputDocument: { email: 'a@b.c' } }),
    ).toMatchObject({
      status: 404,
      body: { message },
    });
    const write = { changedDocument: { email: 'x@example.com' } };
    expect((await platform.admin.put(`${path}/docs/${user.userId}`, write)).body.message).toBe(
      message,
    );
    expect((await platform.admin.delete(`${path}/docs/${user.userId}`)).body.message).toBe(message);
    expect((await platform.admin.get(`${path}/docs/${user.userId}`)).body.email).toBe(user.email);
  });

  it('does a batch as one, with what earlier operations made', async () => {
    await platform.createSchema({
      name: 'Band',
      fields: { name: { type: 'String', required: true, unique: true } },
    });
    await platform.createSchema({
      name: 'Song',
      fields: { title: 'String', band: { type: 'Relation', model: 'Band' }, note: 'String' },
      conduitOptions: {
        cms: { crudOperations: { delete: { enabled: false }, update: { authenticated: true } } },
      },
    });
    const batch = (body: Json, api = platform.client) => api.post('/database/batch', body);
    const operations = [
      { op: 'create', schema: 'Band', data: { name: 'Low' }, ref: 'band' },
      {
        op: 'create',
        schema: 'Song',
        data: { title: 'One', band: { $ref: 'band' }, note: { $ref: 'band.name' } },
      },
      { op: 'read', schema: 'Song', id: { $ref: '1' } },
    ];
    const done = await batch({ operations });
    expect(done.status).toBe(200);
    const [{ document: band }, { document: song }, read] = done.body.results;
    expect(song).toMatchObject({ title: 'One', band: band._id, note: 'Low' });
    expect(read).toEqual({ op: 'read', schema: 'Song', document: song });

    const twice = await batch({
      operations: [{ op: 'create', schema: 'Band', data: { name: 'High' } }, operations[0]],
    });
    expect(twice).toMatchObject({
      status: 409,
      body: { code: 'RECORD_NOT_UNIQUE', errors: [{ path: 'operations.1.name' }] },
    });
    expect((await platform.client.get('/database/Band')).body.count).toBe(1);
    const cases: readonly (readonly [Json, number, string])[] = [
      [{ op: 'create', schema: 'Band', data: {} }, 400, 'operations.0.name'],
      [{ op: 'create', schema: 'Band' }, 400, 'operations.0.data'],
      [
        { op: 'create', schema: 'Song', data: { band: { $ref: 'nobody' } } },
        400,
        'operations.0.data.band',
      ],
      [{ op: 'create', schema: 'Band', ref: '0', data: {} }, 400, 'operations.0.ref'],
      [{ op: 'read', schema: 'Band' }, 400, 'operations.0.id'],
      [{ op: 'explode', schema: 'Band' }, 400, 'operations.0.op'],
      // What would change nothing.
      [
        { op: 'create', schema: 'Band', data: { name: 'New' }, version: 3 },
        400,
        'operations.0.version',
      ],
      [
        { op: 'create', schema: 'Band', data: { name: 'New' }, id: song._id },
        400,
        'operations.0.id',
      ],
      [{ op: 'read', schema: 'Song', id: song._id, version: 0 }, 400, 'operations.0.version'],
      [{ op: 'read', schema: 'Song', id: song._id, data: {} }, 400, 'operations.0.data'],
      [{ op: 'delete', schema: 'Song', id: song._id, data: {} }, 400, 'operations.0.data'],
      [{ op: 'delete', schema: 'Song', id: song._id }, 404, 'operations.0'],
      [{ op: 'update', schema: 'Song', id: song._id, data: { title: 'x' } }, 401, 'operations.0'],
      [{ op: 'read', schema: 'User', id: song._id }, 404, 'operations.0'],
      [{ op: 'create', schema: '__proto__', data: {} }, 404, 'operations.0'],
      [{ op: 'create', schema: 'Band"; drop table x; --', data: {} }, 404, 'operations.0'],
    ];
    for (const [operation, status, path] of cases) {
      const answer = await batch({ operations: [operation] });
      expect([JSON.stringify(operation), answer.status, answer.body.errors?.[0]?.path]).toEqual([
        JSON.stringify(operation),
        status,
        path,
      ]);
    }
    const user = await platform.registerUser();
    const stale = { op: 'update', schema: 'Song', id: song._id, data: { title: 'x' }, version: 7 };
    expect((await batch({ operations: [stale] }, user.api)).status).toBe(412);
    const idle = { op: 'create', schema: 'Band', data: { name: 'Idle' } };
    const ignored = { atomic: false, operations: [idle, { ...idle, version: 1 }] };
    expect((await batch(ignored)).body.errors[0].path).toBe('operations.1.version');
    expect((await platform.client.get('/database/Band')).body.count).toBe(1);
    const loose = {
      atomic: false,
      operations: [
        operations[0],
        { op: 'create', schema: 'Band', data: { name: 'Mid' } },
        { op: 'read', schema: 'Song', id: { $ref: '0' } },
      ],
    };
    const answer = await platform.client.post('/database/batch', loose, {
      headers: { 'idempotency-key': 'batch-1' },
    });
    expect(answer.body.results).toMatchObject([
      { error: { status: 409 } },
      { document: { name: 'Mid' } },
      { error: { status: 400 } },
    ]);
    expect(
      (
        await platform.client.post('/database/batch', loose, {
          headers: { 'idempotency-key': 'batch-1' },
        })
      ).text,
    ).toBe(answer.text);
    expect((await platform.client.get('/database/Band')).body.count).toBe(2);
    expect(
      (await batch({ operations: Array.from({ length: 101 }, () => operations[0]) })).status,
    ).toBe(400);
    expect((await batch({ operations: [] })).status).toBe(400);
  });

  it('lets batches that change the same records in opposite orders all happen', async () => {
    await platform.createSchema({
      name: 'Account',
      fields: { n: { type: 'Number', default: 0 } },
      conduitOptions: { cms: { crudOperations: { update: { operators: true } } } },
    });
    const { docs } = (await platform.client.post('/database/Account/many', { docs: [{}, {}] }))
      .body;
    const steps = docs.map(({ _id }: Json) => ({
      op: 'update',
      schema: 'Account',
      id: _id,
      data: { $inc: { n: 1 } },
    }));
    const batches = Array.from({ length: 20 }, (_, i) =>
      platform.client.post('/database/batch', {
        operations: i % 2 === 0 ? steps : steps.toReversed(),
      }),
    );
    expect((await Promise.all(batches)).map(({ status }) => status)).toEqual(
      batches.map(() => 200),
    );
    expect((await platform.client.get('/database/Account')).body.documents).toMatchObject([
      { n: 20 },
      { n: 20 },
    ]);
  });

  it('lets clients filter only where, and by what, a schema allows', async () => {
    const query = (body: Json, search = '') =>
      platform.client.post(`/database/Shop/query${search}`, body);
    const { _id: cityId } = await platform.createSchema({
      name: 'City',
      fields: { name: 'String' },
    });
    const fields = {
      name: 'String',
      price: 'Number',
      hidden: { type: 'String', select: false },
      city: { type: 'Relation', model: 'City' },
    } as const;
    const { _id } = await platform.createSchema({ name: 'Shop', fields });
    const city = await platform.client.post('/database/City', { name: 'Athens' });
    for (const price of [1, 2, 3])
      await platform.client.post('/database/Shop', {
        name: `s${price}`,
        price,
        city: city.body._id,
      });
    expect((await query({ query: {} })).status).toBe(405);
    const allow = (options: Json) =>
      platform.admin.patch(`/database/schemas/${_id}`, {
        conduitOptions: { cms: { query: options } },
      });
    await allow({ enabled: true });
    expect((await query({ query: {} })).body.count).toBe(3);
    expect(await query({ query: { price: 1 } })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'query.price', rule: 'field' }] },
    });
    await allow({ enabled: true, fields: ['price', 'name', 'city.name', 'hidden'], maxCost: 6 });
    const found = await query({ query: { price: { $gt: 1 } } }, '?sort=-price&limit=1');
    expect(found.body).toMatchObject({ count: 2, documents: [{ price: 3 }] });
    expect((await query({ query: { 'city.name': 'Athens' } })).body.count).toBe(3);
    const refused: readonly (readonly [Json, string])[] = [
      [{ name: { $like: '%s%' } }, 'operator'],
      [{ hidden: 'x' }, 'field'],
      [{ city: city.body._id }, 'field'],
      [{ 'city.name': 'a', $or: [{ price: 1 }, { price: 2 }, { price: 3 }] }, 'cost'],
      [{ $where: '1' }, 'operator'],
    ];
    for (const [body, rule] of refused) {
      const answer = await query({ query: body });
      expect([JSON.stringify(body), answer.status, answer.body.errors[0].rule]).toEqual([
        JSON.stringify(body),
        400,
        rule,
      ]);
    }
    expect((await platform.client.get('/database/Shop?price=1&query={"price":1}')).body.count).toBe(
      3,
    );
    expect((await allow({ enabled: true, operators: ['$where'] })).status).toBe(400);
    const closed = { cms: { crudOperations: { read: { enabled: false } } } };
    await platform.admin.patch(`/database/schemas/${cityId}`, { conduitOptions: closed });
    const across = await query({ query: { $and: [{ price: 1 }, { 'city.name': 'Athens' }] } });
    expect(across).toMatchObject({
      status: 403,
      body: { code: 'POPULATE_FORBIDDEN', errors: [{ path: 'query.$and.1.city.name' }] },
    });
    await allow({ enabled: false });
    expect((await query({ query: {} })).status).toBe(405);
  });
});
