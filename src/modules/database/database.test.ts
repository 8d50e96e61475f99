import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('the database module', () => {
  let platform: TestPlatform;
  const schemaByName = async (name: string): Promise<Json> => {
    const { body } = await platform.admin.get('/database/schemas', {
      query: { search: name, limit: 1000 },
    });
    return body.schemas.find((schema: Json) => schema.name === name);
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  it('serves a schema on the client surface as soon as the admin call returns, and takes it away as soon', async () => {
    const created = await platform.createSchema({
      name: 'Note',
      fields: { text: { type: 'String', required: true }, stars: 'Number' },
    });
    expect(created).toMatchObject({
      name: 'Note',
      fields: {
        _id: 'ObjectId',
        text: { type: 'String', required: true },
        stars: 'Number',
        createdAt: 'Date',
        updatedAt: 'Date',
      },
      modelOptions: {
        timestamps: true,
        conduit: { cms: { enabled: true }, permissions: { extendable: true } },
      },
      ownerModule: 'database',
      __v: 0,
    });
    expect(created.warnings).toHaveLength(3);
    const note = await platform.client.post('/database/Note', {
      text: 'hello',
      stars: null,
      extra: 1,
    });
    expect(note).toMatchObject({ status: 200, body: { text: 'hello', stars: null, __v: 0 } });
    expect(note.headers.get('etag')).toMatch(/^"0-[\w-]{16}"$/);
    const path = `/database/Note/${note.body._id}`;
    expect(await platform.client.get('/database/Note')).toMatchObject({
      status: 200,
      body: { documents: [note.body], count: 1 },
    });
    expect(await platform.client.get(path)).toMatchObject({ status: 200, body: note.body });

    const patch = (tag: string) =>
      platform.client.patch(path, { stars: 2 }, { headers: { 'if-match': tag } });
    expect(await patch('"0"')).toMatchObject({ status: 200, body: { stars: 2, __v: 1 } });
    expect((await patch('"0"')).status).toBe(412);
    expect((await patch('version 1')).status).toBe(400);
    // What a proxy that compresses makes of it.
    expect((await patch('W/"0"')).status).toBe(412);
    expect((await patch('*')).body.__v).toBe(2);
    expect(await platform.client.put(path, { text: 'new' })).toMatchObject({
      status: 200,
      body: { text: 'new', stars: null, __v: 3 },
    });
    expect((await platform.client.patch(path, { text: null })).status).toBe(400);

    const many = await platform.client.post('/database/Note/many', {
      docs: [{ text: 'a' }, { text: 'b' }],
    });
    expect(many.body.docs.map(({ text }: Json) => text)).toEqual(['a', 'b']);
    const [a] = many.body.docs;
    expect(
      (await platform.client.patch('/database/Note/many', { docs: [{ _id: a._id, text: 'c' }] }))
        .body.docs[0].text,
    ).toBe('c');
    expect(
      (await platform.client.put('/database/Note/many', { docs: [{ _id: a._id, text: 'd' }] })).body
        .docs[0].text,
    ).toBe('d');
    expect(
      await platform.client.post('/database/Note/many', { docs: [{ text: 'a' }, {}] }),
    ).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'docs.1.text' }] },
    });

    expect(await platform.client.delete(path)).toMatchObject({
      status: 200,
      body: { result: 'Ok' },
    });
    expect(await platform.client.delete(path)).toMatchObject({
      status: 404,
      body: { message: 'Document does not exist' },
    });
    expect((await platform.client.get('/database/Note/nonsense')).status).toBe(404);

    expect((await platform.admin.delete(`/database/schemas/${created._id}`)).body).toEqual({
      result: 'Schema successfully deleted',
    });
    expect((await platform.client.get('/database/Note')).status).toBe(404);
  });

  it('knows that an answer with records of others changes with them', async () => {
    await platform.createSchema({
      name: 'Writer',
      fields: { name: 'String', born: { type: 'Number', sqlType: 'INT' } },
    });
    await platform.createSchema({
      name: 'Text',
      fields: { by: { type: 'Relation', model: 'Writer' } },
    });
    const { body: writer } = await platform.client.post('/database/Writer', {
      name: 'Ann',
      born: -2_147_483_648,
    });
    expect(writer.born).toBe(-2_147_483_648);
    const { body: text } = await platform.client.post('/database/Text', { by: writer._id });
    const path = `/database/Text/${text._id}?populate=by`;
    const etag = (await platform.client.get(path)).headers.get('etag') ?? '';
    const known = { headers: { 'if-none-match': etag } };
    expect((await platform.client.get(path, known)).status).toBe(304);
    await platform.client.patch(`/database/Writer/${writer._id}`, { name: 'Eve' });
    expect(await platform.client.get(path, known)).toMatchObject({
      status: 200,
      body: { by: { name: 'Eve' } },
    });
    // The version in it is that of the record.
    expect(
      (await platform.client.patch(path, { by: null }, { headers: { 'if-match': etag } })).status,
    ).toBe(200);
    expect(
      (await platform.client.patch(path, { by: null }, { headers: { 'if-match': etag } })).status,
    ).toBe(412);
  });

  it('knows that an answer changes with the schema, and a record does not', async () => {
    const fields = { title: 'String', secret: 'String' } as const;
    const { _id } = await platform.createSchema({ name: 'Shown', fields });
    const { body: record } = await platform.client.post('/database/Shown', {
      title: 'a',
      secret: 'b',
    });
    const path = `/database/Shown/${record._id}`;
    let etag = (await platform.client.get(path)).headers.get('etag') ?? '';
    const first = etag;
    for (const changed of [
      { ...fields, more: 'Number' },
      { ...fields, secret: { type: 'String', select: false } },
    ]) {
      expect((await platform.client.get(path, { headers: { 'if-none-match': etag } })).status).toBe(
        304,
      );
      expect(
        (await platform.admin.put(`/database/schemas/${_id}`, { fields: changed })).status,
      ).toBe(200);
      const now = await platform.client.get(path, { headers: { 'if-none-match': etag } });
      expect([now.status, 'secret' in now.body]).toEqual([200, 'more' in changed]);
      etag = now.headers.get('etag') ?? '';
    }
    expect(
      (await platform.client.patch(path, { title: 'c' }, { headers: { 'if-match': first } }))
        .status,
    ).toBe(200);
    expect(
      (await platform.client.patch(path, { title: 'd' }, { headers: { 'if-match': etag } })).status,
    ).toBe(412);
  });

  it('names the record that clashes among many', async () => {
    await platform.admin.post('/database/schemas', {
      name: 'Slot',
      fields: {
        day: { type: 'Date', required: true, unique: true },
        room: 'String',
        seat: 'Number',
      },
      indexes: [{ fields: ['room', 'seat'], options: { unique: true } }],
    });
    const post = (docs: Json[]) => platform.client.post('/database/Slot/many', { docs });
    const clash = (path: string) => ({
      status: 409,
      body: { code: 'RECORD_NOT_UNIQUE', errors: [{ path }] },
    });
    const { body } = await post([
      { day: '2026-01-01', room: 'a', seat: 1 },
      { day: '2026-01-02', room: 'b', seat: 2 },
    ]);
    expect(await post([{ day: '2026-01-03' }, { day: '2026-01-02T00:00:00Z' }])).toMatchObject(
      clash('docs.1.day'),
    );
    expect(
      await post([{ day: '2026-01-05' }, { day: '2026-01-04' }, { day: '2026-01-05' }]),
    ).toMatchObject(clash('docs.2.day'));
    const twice = await post([{ day: '2026-01-06' }, { day: '2026-01-07', room: 'b', seat: 2 }]);
    expect(twice.body.errors.map(({ path }: Json) => path)).toEqual(['docs.1.room', 'docs.1.seat']);
    const [one, two] = body.docs;
    const changes = [
      { _id: one._id, room: 'c' },
      { _id: two._id, day: '2026-01-01' },
    ];
    expect(await platform.client.patch('/database/Slot/many', { docs: changes })).toMatchObject(
      clash('docs.1.day'),
    );
    expect((await platform.client.get('/database/Slot')).body).toMatchObject({
      count: 2,
      documents: [{ room: 'a' }, { room: 'b' }],
    });
  });

  it('asks for a user where the schema says so', async () => {
    const authenticated = { enabled: true, authenticated: true };
    await platform.createSchema({
      name: 'Diary',
      fields: { text: 'String' },
      conduitOptions: {
        cms: {
          crudOperations: {
            read: { authenticated: false },
            create: authenticated,
            delete: { enabled: false },
          },
        },
      },
    });
    expect((await platform.client.post('/database/Diary', { text: 'x' })).status).toBe(401);
    const user = await platform.registerUser();
    const { body } = await user.api.post('/database/Diary', { text: 'x' });
    expect((await platform.client.get(`/database/Diary/${body._id}`)).status).toBe(200);
    const refused = await user.api.delete(`/database/Diary/${body._id}`);
    expect(refused.status).toBe(405);
    expect(refused.headers.get('allow')).not.toContain('DELETE');
    expect((await platform.client.get('/database/User')).status).toBe(404);
  });

  it('lists, searches and filters schemas', async () => {
    await platform.createSchema({ name: 'Visible', fields: { a: 'String' } });
    await platform.createSchema({
      name: 'Invisible',
      fields: { a: 'String' },
      conduitOptions: { cms: { enabled: false }, permissions: { extendable: false } },
    });
    const names = async (query: string): Promise<string[]> => {
      const { status, body } = await platform.admin.get(`/database/schemas/?limit=1000&${query}`);
      expect(status).toBe(200);
      return body.schemas.map((schema: Json) => schema.name);
    };
    expect(await names('enabled=true&owner=database')).toContain('Visible');
    expect(await names('enabled=true&owner=database')).not.toContain('Invisible');
    expect(await names('enabled=false&owner=database')).toEqual(['Invisible']);
    expect(await names('owner=authentication,storage')).toContain('User');
    expect(await names('owner=authentication,storage')).not.toContain('Visible');
    expect(await names('search=visIBLE&sort=-name')).toEqual(['Visible', 'Invisible']);
    for (const query of ['enabled=yes', 'sort=secret', 'limit=0', 'skip=-1']) {
      expect((await platform.admin.get(`/database/schemas?${query}`)).status).toBe(400);
    }
    expect((await platform.admin.get('/database/schemas/owners')).body.modules).toEqual(
      expect.arrayContaining(['authentication', 'database']),
    );
    expect(
      (await platform.admin.get('/database/schemas/system')).body.databaseSystemSchemas,
    ).toContain('_DeclaredSchema');
    expect((await platform.admin.get('/database/database-type')).body).toEqual({
      result: 'PostgreSQL',
    });
    expect((await platform.adminAnonymous.get('/database/schemas')).status).toBe(401);
  });

  it('hides fields, plans changes, refuses other types, keeps data unless told', async () => {
    const { _id } = await platform.createSchema({
      name: 'Plan',
      fields: { a: 'String', b: 'Number' },
    });
    const path = `/database/schemas/${_id}`;
    await platform.client.post('/database/Plan', { a: 'x', b: 1 });
    const plan = await platform.admin.post(`${path}/plan`, {
      fields: { a: 'String', c: { type: 'Boolean', default: true } },
    });
    expect(plan).toMatchObject({ status: 200, body: { schema: 'Plan', destructive: false } });
    expect((await platform.client.get('/database/Plan')).body.documents[0]).toMatchObject({ b: 1 });
    const changed = await platform.admin.put(path, {
      fields: { a: 'String', c: { type: 'Boolean', default: true } },
    });
    expect(changed.body.droppedFields).toEqual(['b']);
    expect((await platform.client.get('/database/Plan')).body.documents[0]).not.toHaveProperty('b');
    expect((await platform.client.get('/database/Plan')).body.documents[0].c).toBe(true);
    expect(await platform.admin.put(path, { fields: { a: 'Number' } })).toMatchObject({
      status: 403,
      body: { message: 'Invalid schema types', errors: [{ path: 'fields.a' }] },
    });
    expect((await platform.admin.put(path, { fields: { b: 'String' } })).status).toBe(403);
    expect((await platform.admin.put(path, { fields: {} })).status).toBe(400);
    expect((await platform.admin.put(path, { fields: { a: 'String', b: 'Number' } })).status).toBe(
      200,
    );
    expect((await platform.client.get('/database/Plan')).body.documents[0]).toMatchObject({
      a: 'x',
      b: 1,
    });

    expect((await platform.admin.delete(`${path}?deleteData=no`)).status).toBe(400);
    expect((await platform.admin.delete(`${path}?deleteData=false`)).status).toBe(200);
    const again = await platform.createSchema({ name: 'Plan', fields: { a: 'String' } });
    expect(again._id).not.toBe(_id);
    expect((await platform.client.get('/database/Plan')).body).toMatchObject({
      count: 1,
      documents: [{ a: 'x' }],
    });
    expect(
      (await platform.admin.delete(`/database/schemas?ids=${again._id}&deleteData=true`)).body
        .result,
    ).toBe('Schemas successfully deleted');
    await platform.createSchema({ name: 'Plan', fields: { a: 'Number' } });
    expect((await platform.client.get('/database/Plan')).body.count).toBe(0);
  });

  it('switches client routes on and off, one by one and together', async () => {
    const schema = await platform.createSchema({ name: 'Switch', fields: { a: 'String' } });
    const toggled = await platform.admin.post(`/database/schemas/${schema._id}/toggle`);
    expect(toggled.body).toEqual({ name: 'Switch', enabled: false });
    expect((await platform.client.get('/database/Switch')).status).toBe(404);
    const both = await platform.admin.post('/database/schemas/toggle', {
      ids: [schema._id],
      enabled: true,
    });
    expect(both.body).toMatchObject({ enabled: true, updatedSchemas: [{ name: 'Switch' }] });
    expect((await platform.client.get('/database/Switch')).status).toBe(200);
    const user = await schemaByName('User');
    const mixed = await platform.admin.post('/database/schemas/toggle', {
      ids: [schema._id, user._id],
      enabled: false,
    });
    expect(mixed.status).toBe(403);
    expect((await platform.client.get('/database/Switch')).status).toBe(200);
    expect(
      (await platform.admin.delete(`/database/schemas/${user._id}?deleteData=true`)).status,
    ).toBe(403);
    expect(
      (
        await platform.admin.patch(`/database/schemas/${schema._id}/permissions`, {
          canModify: 'Nothing',
        })
      ).status,
    ).toBe(200);
    expect((await schemaByName('Switch')).modelOptions.conduit.permissions).toMatchObject({
      canModify: 'Nothing',
      canCreate: true,
    });
    expect(
      (
        await platform.admin.patch(`/database/schemas/${schema._id}/permissions`, {
          canModify: 'Maybe',
        })
      ).status,
    ).toBe(400);
    expect((await platform.admin.patch(`/database/schemas/${schema._id}`, {})).status).toBe(400);
    const row = { conduitOptions: { authorization: { enabled: true } } };
    if ((await platform.admin.get('/config/modules')).text.includes('authorization')) return;
    expect((await platform.admin.patch(`/database/schemas/${schema._id}`, row)).status).toBe(412);
  });

  it('exports and imports, all or nothing', async () => {
    await platform.createSchema({
      name: 'Exported',
      fields: { a: { type: 'String', required: true, unique: true }, b: ['Number'] },
    });
    const { body } = await platform.admin.get('/database/schemas/export');
    const before = await platform.admin.get('/database/schemas/export');
    expect((await platform.admin.post('/database/schemas/import', body)).body.result).toBe(
      'Schemas imported successfully',
    );
    expect((await platform.admin.get('/database/schemas/export')).text).toBe(before.text);
    const half = {
      schemas: [
        { name: 'Half', fields: { a: 'String' } },
        { name: 'Other', fields: { a: 'Nothing' } },
      ],
    };
    expect((await platform.admin.post('/database/schemas/import', half)).status).toBe(400);
    expect(await schemaByName('Half')).toBeUndefined();
    const foreign = { schemas: [{ name: 'User', fields: { a: 'String' } }] };
    expect((await platform.admin.post('/database/schemas/import', foreign)).status).toBe(403);
  });

  it('refuses what is not a schema with its places, and hostile names with 400', async () => {
    const bad = await platform.admin.post('/database/schemas', {
      name: 'Bad',
      fields: {
        a: 'Text',
        b: { type: 'String', unique: true },
        lines: [{ price: { type: 'Numbr' } }],
        c: { type: 'Relation' },
      },
    });
    expect(bad.status).toBe(400);
    expect(bad.body.errors.map(({ path }: Json) => path).sort()).toEqual([
      'fields.a.type',
      'fields.b.unique',
      'fields.c.model',
      'fields.lines.price.type',
    ]);
    const names = [
      '__proto__',
      'constructor',
      'a"b',
      "a'b",
      'a b',
      'a-b',
      'a.b',
      '$a',
      '',
      'x'.repeat(65_536),
      'é',
      'a\u202eb',
    ];
    for (const name of names) {
      const asField = await platform.admin.post(
        '/database/schemas',
        `{"name":"Hostile","fields":{"ok":"String",${JSON.stringify(name)}:"String"}}`,
      );
      expect([name.slice(0, 20), asField.status]).toEqual([name.slice(0, 20), 400]);
      if (name === 'constructor' || name === '__proto__') continue;
      const asName = await platform.admin.post('/database/schemas', {
        name,
        fields: { a: 'String' },
      });
      expect([name.slice(0, 20), asName.status]).toEqual([name.slice(0, 20), 400]);
    }
    for (const name of ['function', 'Many', 'CustomEndpoints']) {
      expect(
        (await platform.admin.post('/database/schemas', { name, fields: { a: 'String' } })).status,
      ).toBe(400);
    }
    await platform.createSchema({ name: 'Twin', fields: { a: 'String' } });
    for (const name of ['Twin', 'TWIN', 'user']) {
      expect(
        (await platform.admin.post('/database/schemas', { name, fields: { a: 'String' } })).status,
      ).toBe(409);
    }
    for (const path of [
      "/database/Twin?sort=a'%20desc",
      '/database/Twin?sort=__proto__',
      '/database/Twin?populate=constructor',
      '/database/Twin?limit=1e9',
    ]) {
      expect((await platform.client.get(path)).status).toBe(400);
    }
    expect((await platform.client.get('/database/constructor')).status).toBe(404);
    expect((await platform.client.get('/database/Twin/%00')).status).toBe(400);
  });

  it('never lets a record steer the answer', async () => {
    await platform.createSchema({
      name: 'Steer',
      fields: { result: 'String', redirect: 'String', setCookies: 'JSON' },
    });
    const record = {
      result: 'x',
      redirect: 'http://evil.example',
      setCookies: [{ name: 'a', value: 'b' }],
    };
    const { status, headers, body } = await platform.client.post('/database/Steer', record);
    expect({
      status,
      location: headers.get('location'),
      cookie: headers.get('set-cookie'),
    }).toEqual({
      status: 200,
      location: null,
      cookie: null,
    });
    expect(body).toMatchObject(record);
  });
});
