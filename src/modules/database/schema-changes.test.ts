import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('schemas on the admin surface', () => {
  let platform: TestPlatform;
  const schemaByName = async (name: string): Promise<Json> => {
    const { body } = await platform.admin.get('/database/schemas', {
      query: { search: name, limit: 1000 },
    });
    return body.schemas.find((schema: Json) => schema.name === name);
  };
  const path = (schema: Json, rest = '') => `/database/schemas/${schema._id}${rest}`;

  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  it('lets only one of several admins who saw the same schema change it', async () => {
    const schema = await platform.createSchema({ name: 'Shared', fields: { a: 'String' } });
    const read = await platform.admin.get(path(schema));
    const headers = { 'if-match': read.headers.get('etag') ?? '' };
    const changes = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        platform.admin.put(
          path(schema),
          { fields: { a: 'String', [`f${i}`]: 'String' } },
          { headers },
        ),
      ),
    );
    expect(changes.map(({ status }) => status).sort()).toEqual([
      200,
      ...Array.from({ length: 9 }, () => 412),
    ]);
    const options = { conduitOptions: { permissions: { canDelete: false } } };
    expect((await platform.admin.patch(path(schema), options, { headers })).status).toBe(412);
    expect(
      (
        await platform.admin.post(
          path(schema, '/extensions'),
          { fields: { x: 'String' } },
          { headers },
        )
      ).status,
    ).toBe(412);
    expect(
      (await platform.admin.patch(path(schema), options, { headers: { 'if-match': 'none' } })).body
        .errors,
    ).toMatchObject([{ path: 'if-match' }]);
    const now = (await platform.admin.patch(path(schema), options)).headers.get('etag') ?? '';
    const dry = await platform.admin.patch(path(schema, '?dryRun=true'), options, { headers });
    expect(dry.status).toBe(412);
    expect(
      (await platform.admin.patch(path(schema), options, { headers: { 'if-match': now } })).status,
    ).toBe(200);
  });

  it('names what is wrong where it stands in the body', async () => {
    const paths = (answer: { readonly body: Json }) =>
      answer.body.errors.map(({ path: place }: Json) => place);
    const body = {
      name: 'Placed',
      fields: { a: 'String' },
      conduitOptions: { cms: { query: { enabled: true, fields: ['none'] } } },
      indexes: [{ fields: ['b'] }],
    };
    const options = 'conduitOptions.cms.query.fields.0';
    expect(paths(await platform.admin.post('/database/schemas', body)).sort()).toEqual([
      options,
      'indexes.0.fields.0',
    ]);
    const misspelt = { cms: { crudOperations: { read: { authenticted: true }, list: {} } } };
    const places = [
      'conduitOptions.cms.crudOperations.read.authenticted',
      'conduitOptions.cms.crudOperations.list',
    ];
    expect(
      paths(await platform.admin.post('/database/schemas', { ...body, conduitOptions: misspelt })),
    ).toEqual(places);
    const schema = await platform.createSchema({ name: 'Placed', fields: { a: 'String' } });
    expect(paths(await platform.admin.patch(path(schema), { conduitOptions: misspelt }))).toEqual(
      places,
    );
    for (const rest of ['', '/plan']) {
      const send = rest === '' ? platform.admin.put : platform.admin.post;
      expect(
        paths(
          await send(path(schema, rest), {
            fields: { a: 'String' },
            conduitOptions: body.conduitOptions,
          }),
        ),
      ).toEqual([options]);
    }
    await platform.client.post('/database/Placed', { a: 'there' });
    const guarded = { authorization: { enabled: true } };
    const mode = 'conduitOptions.authorization.mode';
    expect(paths(await platform.admin.patch(path(schema), { conduitOptions: guarded }))).toEqual([
      mode,
    ]);
    expect(
      paths(await platform.admin.patch(path(schema, '?dryRun=true'), { conduitOptions: guarded })),
    ).toEqual([mode]);
    expect(
      paths(await platform.admin.post(path(schema, '/plan'), { conduitOptions: guarded })),
    ).toEqual([mode]);
    const among = {
      schemas: [{ name: 'Placed', fields: { a: 'String' }, modelOptions: { conduit: guarded } }],
    };
    for (const dry of ['', '?dryRun=true'])
      expect(paths(await platform.admin.post(`/database/schemas/import${dry}`, among))).toEqual([
        'schemas.0.modelOptions.conduit.authorization.mode',
      ]);
    const schemas = [
      { name: 'First', fields: { a: 'String' } },
      { name: 'Second', fields: { a: { b: 'Text' } } },
    ];
    const imported = await platform.admin.post('/database/schemas/import', { schemas });
    expect(imported.body).toMatchObject({
      errors: [{ path: 'schemas.1.fields.a.b.type' }],
      message: expect.stringMatching(/^schemas\.1\.fields\.a\.b/),
    });
    expect(await schemaByName('First')).toBeUndefined();
  });

  describe('extensions', () => {
    it('reach records, GraphQL, endpoints and the data of users, and go away with none of their data', async () => {
      const schema = await platform.createSchema({ name: 'Song', fields: { title: 'String' } });
      const extended = await platform.admin.post(path(schema, '/extensions'), {
        fields: { mood: { type: 'String', description: 'How it feels' }, beats: 'Number' },
      });
      expect(extended).toMatchObject({
        status: 200,
        body: {
          fields: { title: 'String' },
          compiledFields: { title: 'String', beats: 'Number' },
          extensions: [{ ownerModule: 'database', fields: { beats: 'Number' } }],
        },
      });
      const song = await platform.client.post('/database/Song', {
        title: 'a',
        mood: 'calm',
        beats: 60,
      });
      expect(song.body).toMatchObject({ title: 'a', mood: 'calm', beats: 60 });
      const query = '{ getDatabaseSong(sort: ["-beats"]) { documents { title mood } count } }';
      expect((await platform.client.post('/graphql', { query })).body.data.getDatabaseSong).toEqual(
        {
          documents: [{ title: 'a', mood: 'calm' }],
          count: 1,
        },
      );
      expect((await platform.client.get('/swagger.json')).text.includes('How it feels')).toBe(true);
      const described = '{ __type(name: "Song") { fields { name description } } }';
      expect((await platform.client.post('/graphql', { query: described })).text).toContain(
        '{"name":"mood","description":"How it feels"}',
      );
      const endpoint = await platform.admin.post('/database/customEndpoints', {
        name: 'byMood',
        operation: 0,
        selectedSchemaName: 'Song',
        inputs: [{ name: 'mood', type: 'String', location: 1 }],
        query: {
          AND: [
            {
              schemaField: 'mood',
              operation: 0,
              comparisonField: { type: 'Input', value: 'mood' },
            },
          ],
        },
      });
      expect(endpoint.status).toBe(200);
      expect((await platform.client.get('/database/function/byMood?mood=calm')).body).toHaveLength(
        1,
      );
      const plan = await platform.admin.post(path(schema, '/extensions?dryRun=true'), {
        fields: { beats: 'Number' },
      });
      expect(plan.body).toMatchObject({
        hides: [{ field: 'mood', records: 1 }],
        endpoints: ['byMood'],
        destructive: false,
      });
      expect((await schemaByName('Song')).compiledFields).toHaveProperty('mood');

      const all = (await platform.admin.get('/database/schemas/extensions?sort=-name')).body;
      expect(all).toMatchObject({
        count: 1,
        schemasExtensions: [
          { _id: schema._id, name: 'Song', extensions: [{ ownerModule: 'database' }] },
        ],
      });
      await platform.admin.delete(`/database/customEndpoints/${endpoint.body._id}`);
      expect(
        (await platform.admin.post(path(schema, '/extensions'), { fields: {} })).body.extensions,
      ).toEqual([]);
      expect(
        (await platform.client.get(`/database/Song/${song.body._id}`)).body,
      ).not.toHaveProperty('mood');
      const back = await platform.admin.post(path(schema, '/fields/mood/restore'));
      expect(back.body.extensions).toMatchObject([{ fields: { mood: { type: 'String' } } }]);
      expect((await platform.client.get(`/database/Song/${song.body._id}`)).body.mood).toBe('calm');
    });

    it('let an app add to users what they may write themselves', async () => {
      const user = await schemaByName('User');
      const set = (fields: object) => platform.admin.post(path(user, '/extensions'), { fields });
      expect((await set({ nickname: 'String', isVerified: 'Boolean' })).status).toBe(409);
      expect((await set({ nickname: { type: 'String', required: true } })).status).toBe(400);
      expect((await set({ nickname: { type: 'String', access: { write: 'user' } } })).status).toBe(
        200,
      );
      const someone = await platform.registerUser();
      const patched = await someone.api.patch('/authentication/user', {
        userData: { nickname: 'Jo' },
      });
      expect([patched.status, patched.body.nickname]).toEqual([200, 'Jo']);
      expect((await someone.api.get('/authentication/user')).body.nickname).toBe('Jo');
      const docs = `/database/schemas/User/docs/${someone.userId}`;
      expect(
        (await platform.admin.put(docs, { changedDocument: { nickname: 'Al' } })).body.nickname,
      ).toBe('Al');
      expect(
        (
          await platform.admin.put(docs, {
            changedDocument: { nickname: 'Al', email: 'a@b.example' },
          })
        ).status,
      ).toBe(404);
      expect(
        (
          await platform.admin.post(`/database/schemas/nope/extensions`, {
            fields: { a: 'String' },
          })
        ).status,
      ).toBe(404);
      await platform.admin.post(path(user, '/extensions'), { fields: {} });
    });

    it('go with the export and come with the import, also for a schema of the same import', async () => {
      const made = await platform.createSchema({
        name: 'Moved',
        fields: { a: 'String' },
        conduitOptions: { realtime: { enabled: true } },
      });
      await platform.admin.post(path(made, '/extensions'), { fields: { b: 'Number' } });
      const { body: exported } = await platform.admin.get('/database/schemas/export');
      const only = {
        schemas: exported.schemas.filter(({ name }: Json) => name === 'Moved'),
        extensions: exported.extensions.filter(({ schemaName }: Json) => schemaName === 'Moved'),
      };
      expect(only.extensions).toEqual([
        { schemaName: 'Moved', extension: { fields: { b: 'Number' }, ownerModule: 'database' } },
      ]);
      expect((await platform.admin.delete(path(made, '?deleteData=true'))).status).toBe(200);
      const planned = await platform.admin.post('/database/schemas/import?dryRun=true', only);
      expect(planned.body).toMatchObject({
        schema: 'Moved',
        steps: expect.arrayContaining([expect.objectContaining({ schema: 'Moved' })]),
      });
      expect(await schemaByName('Moved')).toBeUndefined();
      for (let i = 0; i < 2; i++)
        expect((await platform.admin.post('/database/schemas/import', only)).status).toBe(200);
      const imported = await schemaByName('Moved');
      expect(imported).toMatchObject({ __v: 0, compiledFields: { a: 'String', b: 'Number' } });
      await platform.admin.patch(path(imported), {
        conduitOptions: {
          cms: { crudOperations: { read: { authenticated: true } } },
          permissions: { canModify: 'Nothing' },
        },
      });
      await platform.admin.post('/database/schemas/import', only);
      const again = await platform.admin.get('/database/schemas/export');
      expect(again.body.schemas.find(({ name }: Json) => name === 'Moved')).toEqual(
        only.schemas[0],
      );
      const lost = {
        schemas: [],
        extensions: [{ schemaName: 'Nowhere', extension: { fields: { a: 'String' } } }],
      };
      expect((await platform.admin.post('/database/schemas/import', lost)).status).toBe(412);
      const foreign = {
        schemas: [],
        extensions: [
          { schemaName: 'Moved', extension: { fields: { c: 'String' }, ownerModule: 'chat' } },
        ],
      };
      expect((await platform.admin.post('/database/schemas/import', foreign)).status).toBe(403);
    });
  });

  it('shows, makes and removes indexes, and moves them to another installation', async () => {
    const schema = await platform.createSchema({
      name: 'Indexed',
      fields: {
        a: { type: 'String', index: true },
        b: 'Number',
        u: { type: 'String', required: true, unique: true },
      },
    });
    const add = (...indexes: object[]) =>
      platform.admin.post(path(schema, '/indexes'), { indexes });
    expect(
      (
        await add({
          fields: ['b', 'a'],
          types: ['Descending', 'Ascending'],
          options: { name: 'both' },
        })
      ).body,
    ).toEqual({
      result: 'Indexes created!',
    });
    const { body } = await platform.admin.get(path(schema, '/indexes'));
    expect(body.indexes).toMatchObject([
      { fields: ['a'], source: 'field', state: 'ready', options: { unique: false } },
      { fields: ['u'], source: 'field', state: 'ready', options: { unique: true } },
      {
        fields: ['b', 'a'],
        types: ['Descending', 'Ascending'],
        options: { name: 'both', unique: false },
        engine: { method: 'BTREE' },
        state: 'ready',
        source: 'schema',
      },
    ]);
    const planned = await platform.admin.post(path(schema, '/indexes?dryRun=true'), {
      indexes: [{ fields: ['b'] }],
    });
    expect(planned.body.steps).toMatchObject([
      { statement: expect.stringMatching(/^create index/), lock: 'SHARE' },
    ]);
    for (const bad of [
      { fields: [] },
      { fields: ['x'] },
      { fields: ['a'], sql: 'drop' },
      { fields: ['a'], types: ['2d'] },
    ]) {
      expect([bad, (await add(bad)).status]).toEqual([bad, 400]);
    }
    expect((await platform.admin.delete(path(schema, '/indexes'))).status).toBe(400);
    expect((await platform.admin.delete(path(schema, '/indexes?indexNames=nope'))).status).toBe(
      404,
    );
    expect((await platform.admin.get('/database/schemas/nope/indexes')).status).toBe(404);

    const { body: exported } = await platform.admin.get('/database/indexes/export?limit=1000');
    expect(exported).toMatchObject({
      count: 1,
      indexes: [{ schemaName: 'Indexed', fields: ['b', 'a'], options: { name: 'both' } }],
    });
    expect((await platform.admin.delete(path(schema, '/indexes?indexNames=both'))).body).toEqual({
      result: 'Indexes deleted',
    });
    const foreign = { schemaName: 'Indexed', fields: ['a'], types: ['2dsphere'] };
    const imported = await platform.admin.post('/database/indexes/import', {
      indexes: [...exported.indexes, foreign],
    });
    expect(imported.body.result).toMatch(/1 of other engines/);
    expect((await platform.admin.get('/database/indexes/export')).body).toEqual(exported);
    const lost = { indexes: [...exported.indexes, { schemaName: 'Nowhere', fields: ['a'] }] };
    expect((await platform.admin.post('/database/indexes/import', lost)).status).toBe(404);
    const user = await schemaByName('User');
    const unique = { indexes: [{ fields: ['createdAt'], options: { unique: true } }] };
    expect((await platform.admin.post(path(user, '/indexes'), unique)).status).toBe(403);
  });

  it('renames with data, and not under the feet of an endpoint', async () => {
    const schema = await platform.createSchema({
      name: 'Book',
      fields: { title: 'String', year: 'Number' },
    });
    const { body: book } = await platform.client.post('/database/Book', { title: 'x', year: 1 });
    const endpoint = await platform.admin.post('/database/customEndpoints', {
      name: 'byYear',
      operation: 0,
      selectedSchemaName: 'Book',
      inputs: [{ name: 'year', type: 'Number', location: 1 }],
      query: {
        AND: [
          { schemaField: 'year', operation: 0, comparisonField: { type: 'Input', value: 'year' } },
        ],
      },
    });
    const change = {
      fields: { name: 'String', published: 'Number' },
      renames: { title: 'name', year: 'published' },
    };
    const planned = await platform.admin.post(path(schema, '/plan'), change);
    expect(planned.body).toMatchObject({ endpoints: ['byYear'], hides: [], destructive: false });
    const refused = await platform.admin.put(path(schema), change);
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'FIELD_IN_USE', message: expect.stringContaining('byYear') },
    });
    await platform.admin.delete(`/database/customEndpoints/${endpoint.body._id}`);
    const shelf = await platform.createSchema({
      name: 'Shelf',
      fields: { book: { type: 'Relation', model: 'Book' } },
      conduitOptions: { cms: { query: { enabled: true, fields: ['book.year'] } } },
    });
    expect((await platform.admin.put(path(schema), change)).body.message).toContain(
      'Shelf.book.year',
    );
    const fields = ['reader.email', 'book.none', 'later.name'];
    const { body: warned } = await platform.admin.put(path(shelf), {
      fields: {
        book: { type: 'Relation', model: 'Book' },
        reader: { type: 'Relation', model: 'User' },
        later: { type: 'Relation', model: 'Later' },
      },
      conduitOptions: { cms: { query: { enabled: true, fields: ['book.year', ...fields] } } },
    });
    const about = (text: string) => text.startsWith('Clients');
    expect(warned.warnings.filter(about)).toEqual([
      'Clients cannot filter by "reader.email": it leads to records of User, which no client may read',
      expect.stringContaining('Clients cannot filter by "book.none": '),
    ]);
    await platform.admin.patch(path(shelf), {
      conduitOptions: { cms: { query: { enabled: true, fields: [] } } },
    });
    expect((await platform.admin.put(path(schema), change)).status).toBe(200);
    expect((await platform.client.get(`/database/Book/${book._id}`)).body).toMatchObject({
      name: 'x',
      published: 1,
    });
    expect(
      (
        await platform.admin.put(path(schema), {
          fields: { a: 'String' },
          renames: { nothing: 'a' },
        })
      ).status,
    ).toBe(400);
  });

  it('shows what would be done and does it only without dryRun', async () => {
    const made = await platform.admin.post('/database/schemas?dryRun=true', {
      name: 'Dry',
      fields: { a: 'String' },
    });
    expect(made.body).toMatchObject({
      schema: 'Dry',
      steps: [{ statement: expect.stringContaining('create table') }],
      endpoints: [],
    });
    expect(await schemaByName('Dry')).toBeUndefined();
    const schema = await platform.createSchema({
      name: 'Dry',
      fields: { a: 'String', b: 'String' },
    });
    await platform.client.post('/database/Dry', { a: 'x', b: 'y' });
    const put = await platform.admin.put(path(schema, '?dryRun=true'), {
      fields: { a: { type: 'String', required: true } },
    });
    expect(put.body).toMatchObject({ hides: [{ field: 'b', records: 1 }], obstacles: [] });
    const gone = await platform.admin.delete(path(schema, '?deleteData=true&dryRun=true'));
    expect(gone.body).toMatchObject({
      destructive: true,
      loses: [{ schema: 'Dry', field: '*', records: 1 }],
    });
    const many = await platform.admin.delete(
      `/database/schemas?ids=${schema._id}&deleteData=true&dryRun=true`,
    );
    expect(many.body.loses).toEqual(gone.body.loses);
    expect(await schemaByName('Dry')).toMatchObject({ __v: 0, compiledFields: { b: 'String' } });
    expect(
      (
        await platform.admin.post('/database/schemas?dryRun=true', {
          name: 'Dry',
          fields: { a: 'String' },
        })
      ).status,
    ).toBe(409);
  });

  it('fills, takes out, lists, restores and purges fields, and tells its history', async () => {
    const schema = await platform.createSchema({
      name: 'Field',
      fields: { a: 'String', seo: { x: 'String', y: 'String' } },
    });
    const { body: record } = await platform.client.post('/database/Field', {
      seo: { x: '1', y: '2' },
    });
    const required = {
      fields: { a: { type: 'String', required: true }, seo: { x: 'String', y: 'String' } },
    };
    expect(await platform.admin.put(path(schema), required)).toMatchObject({
      status: 409,
      body: { errors: [{ path: 'fields.a' }] },
    });
    expect(
      (await platform.admin.put(path(schema), { ...required, backfill: { a: 'filled' } })).status,
    ).toBe(200);
    expect((await platform.client.get(`/database/Field/${record._id}`)).body.a).toBe('filled');

    const planned = await platform.admin.delete(path(schema, '/fields/seo.y?dryRun=true'));
    expect(planned.body).toMatchObject({ hides: [{ field: 'seo.y' }], steps: [] });
    expect((await platform.admin.delete(path(schema, '/fields/seo.y?purge=true'))).status).toBe(
      409,
    );
    const out = await platform.admin.delete(path(schema, '/fields/seo.y'));
    expect(out.body).toMatchObject({ droppedFields: ['seo.y'], fields: { seo: { x: 'String' } } });
    expect((await platform.admin.delete(path(schema, '/fields/seo.y'))).status).toBe(404);
    const { body: dropped } = await platform.admin.get(path(schema, '/fields/dropped'));
    expect(dropped.fields).toMatchObject([
      { field: 'seo.y', type: 'string', definition: 'String' },
    ]);
    expect(dropped.fields[0]).not.toHaveProperty('purgeAfter');
    await platform.admin.patch('/config/database', {
      config: { droppedFields: { retentionDays: 30 } },
    });
    const { body: kept } = await platform.admin.get(path(schema, '/fields/dropped'));
    expect(Date.parse(kept.fields[0].purgeAfter) - Date.parse(kept.fields[0].droppedAt)).toBe(
      30 * 86_400_000,
    );

    expect((await platform.admin.post(path(schema, '/fields/seo.y/restore'))).status).toBe(200);
    expect((await platform.client.get(`/database/Field/${record._id}`)).body.seo).toEqual({
      x: '1',
      y: '2',
    });
    await platform.admin.delete(path(schema, '/fields/seo.y'));
    expect(
      (await platform.admin.delete(path(schema, '/fields/seo.y?purge=true'))).body.droppedFields,
    ).toEqual([]);
    expect((await platform.admin.post(path(schema, '/fields/seo.y/restore'))).status).toBe(404);

    const { body: log } = await platform.admin.get(path(schema, '/migrations?limit=2'));
    expect(log.count).toBeGreaterThan(4);
    expect(log.migrations).toMatchObject([
      {
        schema: 'Field',
        state: 'applied',
        statements: expect.arrayContaining([expect.stringMatching(/^update "app"."Field"/)]),
        reason: null,
      },
      { schema: 'Field', statements: [] },
    ]);
    expect(log.migrations[0].to).toBe(log.migrations[0].from + 1);
    expect((await platform.admin.get('/database/schemas/nope/migrations')).status).toBe(404);
  });

  it('warns of relations that wait and indexes that are not made, and tells how the feed stands', async () => {
    const schema = await platform.createSchema({
      name: 'Waiting',
      fields: { to: { type: 'Relation', model: 'Later' } },
    });
    expect(schema.pendingRelations).toEqual(['Later']);
    expect(schema.warnings).toContainEqual(expect.stringContaining('"Later" does not exist yet'));
    const id = '00000000-0000-7000-8000-000000000001';
    expect((await platform.client.post('/database/Waiting', { to: id })).body.to).toBe(id);
    expect((await platform.admin.get('/database/realtime/status')).body).toMatchObject({
      status: 'live',
      engine: 'PostgreSQL',
    });
    const foreign = {
      name: 'Foreign',
      fields: { a: 'JSON' },
      modelOptions: { indexes: [{ fields: ['a'], types: ['2dsphere'] }] },
    };
    expect(
      (await platform.admin.post('/database/schemas/import', { schemas: [foreign] })).status,
    ).toBe(200);
    expect((await schemaByName('Foreign')).warnings).toContainEqual(
      expect.stringContaining('2dsphere'),
    );
    const clear = await platform.admin.patch(path(schema), {
      conduitOptions: { readPreference: 'nearest' },
    });
    expect(clear.body.modelOptions.conduit.readPreference).toBe('nearest');
    const cleared = await platform.admin.patch(path(schema), {
      conduitOptions: { readPreference: '' },
    });
    expect(cleared.body.modelOptions.conduit).not.toHaveProperty('readPreference');
  });
});
