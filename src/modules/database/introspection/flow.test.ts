// From tables that are there to schemas: found, pending, edited, finalised, changed and removed again.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../../test/support/api.ts';
import { type ImportedPlatform, open, startOnSample } from '../../../../test/support/imported.ts';

const base = '/database/introspection';

describe('introspection', () => {
  let platform: ImportedPlatform;
  beforeAll(async () => {
    platform = await startOnSample('dvd-rental');
  });
  afterAll(() => platform.close());

  const pending = async (name: string): Promise<Json> => {
    const { body } = await platform.admin.get(`${base}/schemas`, {
      query: { search: name, limit: 100 },
    });
    return body.schemas.find((schema: Json) => schema.name === name);
  };

  it('finds tables, makes them pending, and says so', async () => {
    const { admin } = platform;
    const found = await admin.get(base);
    expect(found.body).toMatchObject({
      foreignSchemaCount: 12,
      pendingSchemas: [],
      pendingSchemasCount: 0,
      importedSchemaCount: 0,
    });
    expect(found.body.foreignSchemas).toContain('payment');
    // Partitions are part of their table.
    expect(found.body.foreignSchemas).not.toContain('payment_p2022_01');
    expect((await admin.post(base)).body).toEqual({ result: 'Schemas successfully introspected' });
    expect((await admin.get(base)).body).toMatchObject({
      foreignSchemas: [],
      pendingSchemasCount: 12,
    });
  });

  it('lists pending schemas in pages, sorted and searched', async () => {
    const { admin } = platform;
    const page = await admin.get(`${base}/schemas`, {
      query: { skip: 1, limit: 2, sort: '-name' },
    });
    expect(page.body).toMatchObject({
      count: 12,
      schemas: [{ name: 'rental' }, { name: 'payment' }],
    });
    expect((await admin.get(`${base}/schemas`, { query: { search: 'FILM_' } })).body).toMatchObject(
      { count: 3 },
    );
    expect((await admin.get(`${base}/schemas`, { query: { sort: 'fields' } })).status).toBe(400);
    expect((await admin.get(`${base}/schemas/${page.body.schemas[0]._id}`)).body).toEqual(
      page.body.schemas[0],
    );
    expect((await admin.get(`${base}/schemas/none`)).status).toBe(404);
  });

  it('says what each table is, and what of it cannot be served', async () => {
    expect(await pending('film')).toMatchObject({
      description: 'What can be rented',
      source: { schema: 'public', table: 'film', kind: 'table' },
      key: ['film_id'],
      readOnly: false,
      fields: {
        title: { type: 'String', required: true },
        language_id: { type: 'Relation', model: 'imp_language', required: true },
        length: { type: 'Number', sqlType: 'INT', description: 'Minutes' },
        release_year: { validate: { min: 1901, max: 2155 } },
        rating: { type: 'String', enum: ['G', 'PG', 'PG-13', 'R', 'NC-17'] },
        special_features: { type: ['String'] },
      },
      skippedColumns: [
        { column: 'fulltext', type: 'tsvector', reason: expect.stringContaining('search data') },
      ],
      indexes: expect.arrayContaining([
        { name: 'idx_title', fields: ['title'], unique: false, method: 'btree', partial: false },
      ]),
    });
    expect(await pending('payment')).toMatchObject({
      source: { kind: 'partitioned' },
      key: ['payment_date', 'payment_id'],
    });
    expect(await pending('film_list')).toMatchObject({
      source: { kind: 'view' },
      key: [],
      readOnly: true,
    });
    expect(await pending('rental_by_category')).toMatchObject({
      source: { kind: 'materialized' },
      readOnly: true,
    });
  });

  it('keeps edits when the tables are read again, and takes what is new', async () => {
    const { admin, sample } = platform;
    const { _id, fields } = await pending('customer');
    const { active, activebool, ...kept } = fields;
    const edit = {
      name: 'Client',
      renames: { activebool: 'isActive' },
      fields: {
        ...kept,
        isActive: 'Boolean',
        email: { type: 'String', validate: { format: 'email' } },
      },
    };
    const edited = await admin.patch(`${base}/schemas/${_id}`, edit);
    expect(edited.status).toBe(200);
    expect(Object.keys(edited.body.fields)).not.toContain('active');
    await sample.client.query('alter table customer add column note text');
    await admin.post(base);
    const again = (await admin.get(`${base}/schemas/${_id}`)).body;
    expect(again).toMatchObject({
      name: 'Client',
      fields: {
        isActive: 'Boolean',
        email: { validate: { format: 'email' } },
        note: { type: 'String' },
      },
    });
    expect(Object.keys(again.fields)).not.toContain('active');
    await sample.client.query('alter table customer drop column note');
    await admin.post(base);
    // Whoever refers to the table follows the new name.
    expect((await pending('rental')).fields.customer_id).toMatchObject({
      type: 'Relation',
      model: 'Client',
    });
    expect([active, activebool]).not.toContain(undefined);
  });

  it('names the place of what is wrong in an edit, and changes nothing', async () => {
    const { admin } = platform;
    const { _id } = await pending('actor');
    const view = await pending('film_list');
    const wrong: readonly (readonly [string, Json, string])[] = [
      [_id, { name: 'no good' }, 'name'],
      [_id, { name: 'category' }, 'name'],
      [_id, { renames: { first_name: 'last_name' } }, 'renames.first_name'],
      [_id, { renames: { first_name: '_id' } }, 'renames.first_name'],
      [_id, { renames: { first_name: 'a b' } }, 'renames.first_name'],
      [_id, { key: ['first_name'] }, 'key'],
      [view._id, { key: ['nothing'] }, 'key'],
      [_id, { fields: { nothing: 'String' } }, 'fields.nothing'],
      [_id, { fields: { first_name: 'Number' } }, 'fields.first_name'],
      [_id, { fields: { first_name: 'Nonsense' } }, 'fields.first_name.type'],
      [_id, { fields: {} }, 'fields'],
      [view._id, { key: ['fid', 'fid'] }, 'key'],
    ];
    for (const [id, body, path] of wrong) {
      const answer = await admin.patch(`${base}/schemas/${id}`, body);
      expect([answer.status, answer.body.errors?.[0]?.path], JSON.stringify(body)).toEqual([
        400,
        path,
      ]);
    }
    expect((await admin.patch(`${base}/schemas/none`, {})).status).toBe(404);
    expect(await pending('actor')).toMatchObject({ fields: { first_name: {}, last_name: {} } });
  });

  it('lets a view be read by the key that somebody names', async () => {
    const { admin } = platform;
    const view = await pending('film_list');
    expect((await admin.patch(`${base}/schemas/${view._id}`, { key: ['fid'] })).body).toMatchObject(
      { key: ['fid'], readOnly: true },
    );
    await admin.post(base);
    expect(
      (await admin.post(`${base}/schemas/finalize`, { schemas: [{ name: 'film_list' }] })).status,
    ).toBe(200);
    const read = await admin.get('/database/schemas/imp_film_list/docs/2');
    expect(read.body).toMatchObject({ _id: '2', title: 'NIGHT TRAIN NORTH' });
    expect(
      (await admin.post('/database/schemas/imp_film_list/docs', { inputDocument: { title: 'x' } }))
        .status,
    ).toBe(403);
    expect(
      (await admin.delete(`/database/schemas/${await platform.schemaId('imp_film_list')}`)).status,
    ).toBe(200);
    await admin.post(base);
  });

  it('finalises all or none', async () => {
    const { admin } = platform;
    const finalize = (schemas: Json) => admin.post(`${base}/schemas/finalize`, { schemas });
    const [language, actor, film] = [
      await pending('language'),
      await pending('actor'),
      await pending('film'),
    ];
    const refused: readonly (readonly [Json, number])[] = [
      [[], 400],
      [[language, { _id: 'none' }], 404],
      [[language, language], 400],
      [[film, { ...film, _id: undefined, name: 'none' }], 404],
      [[film, { ...(await pending('category')), fields: { name: { type: 'Nonsense' } } }], 400],
      [
        [
          film,
          {
            ...(await pending('category')),
            fields: { name: { type: 'String', unique: true, required: true } },
          },
        ],
        400,
      ],
      [[{ ...film, modelOptions: { conduit: { authorization: { enabled: true } } } }], 400],
      [[{ ...film, modelOptions: { conduit: { softDelete: true } } }], 400],
    ];
    for (const [schemas, status] of refused) {
      expect((await finalize(schemas)).status, JSON.stringify(schemas).slice(-400)).toBe(status);
    }
    expect((await admin.get(base)).body.importedSchemaCount).toBe(0);
    expect((await finalize([language])).body).toEqual({
      result: '1 schema finalized successfully',
    });
    expect((await finalize([actor, film, await pending('Client')])).body).toEqual({
      result: '3 schemas finalized successfully',
    });
    expect((await admin.get(base)).body).toMatchObject({
      importedSchemas: ['actor', 'customer', 'film', 'language'],
      pendingSchemasCount: 8,
    });
  });

  it('declares them with nothing offered to anybody', async () => {
    const { admin, client } = platform;
    const id = await platform.schemaId('imp_film');
    expect((await admin.get(`/database/schemas/${id}`)).body).toMatchObject({
      name: 'imp_film',
      collectionName: 'film',
      ownerModule: 'database',
      modelOptions: {
        conduit: { imported: true, cms: { enabled: false }, permissions: { canModify: 'Nothing' } },
      },
    });
    expect((await client.get('/database/imp_film')).status).toBe(404);
    // An operator sees them at once.
    expect((await admin.get('/database/schemas/imp_film/docs/1')).body).toMatchObject({
      _id: '1',
      title: 'THE LONG RIVER',
    });
    const query = await admin.post('/database/schemas/imp_film/query', {
      query: { rating: { $in: ['R', 'G'] }, 'language_id.name': { $like: 'I%' } },
    });
    expect(query.body).toMatchObject({ count: 1, documents: [{ title: 'BREAD AND SALT' }] });
  });

  it('changes only what leaves the table as it is', async () => {
    const { admin } = platform;
    const id = await platform.schemaId('imp_film');
    const { fields } = (await admin.get(`/database/schemas/${id}`)).body;
    const put = (change: Json) => admin.put(`/database/schemas/${id}`, { fields: change });
    const { description, ...others } = fields;
    expect(
      (
        await put({
          ...others,
          title: { type: 'String', required: true, validate: { minLength: 3 } },
        })
      ).status,
    ).toBe(200);
    expect((await admin.get('/database/schemas/imp_film/docs/1')).body).not.toHaveProperty(
      'description',
    );
    expect((await put({ ...others, extra: 'String' })).status).toBe(400);
    expect((await put({ ...others, length: 'String' })).status).toBe(403);
    expect((await put({ ...others, title: { type: 'String', index: true } })).status).toBe(400);
    expect((await put(fields)).status).toBe(200);
    expect((await admin.get('/database/schemas/imp_film/docs/1')).body).toHaveProperty(
      'description',
    );
    const refused = [
      await admin.put(`/database/schemas/${id}`, {
        fields: { ...others, text: 'String' },
        renames: { description: 'text' },
      }),
      await admin.post(`/database/schemas/${id}/extensions`, { fields: { more: 'String' } }),
      await admin.post(`/database/schemas/${id}/indexes`, { indexes: [{ fields: ['title'] }] }),
      await admin.delete(`/database/schemas/${id}`, { query: { deleteData: true } }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    expect(
      (await admin.post(`/database/schemas/${id}/plan`, { fields: others })).body,
    ).toMatchObject({ steps: [], destructive: false });
    expect(description).toBeDefined();
  });

  it('refuses relations that could not be stored', async () => {
    const { admin } = platform;
    const answer = await admin.post('/database/schemas', {
      name: 'Review',
      fields: { film: { type: 'Relation', model: 'imp_film' } },
    });
    expect(answer.status).toBe(400);
    expect(answer.body.errors).toMatchObject([{ path: 'fields.film.model', rule: 'relation' }]);
    // Also the other way round: first the relation, then the table.
    await admin.post('/database/schemas', {
      name: 'Later',
      fields: { store: { type: 'Relation', model: 'imp_inventory' } },
    });
    expect(
      (await admin.post(`${base}/schemas/finalize`, { schemas: [await pending('inventory')] }))
        .status,
    ).toBe(400);
    expect(
      (
        await admin.post('/database/schemas', {
          name: 'Fake',
          fields: { a: 'String' },
          conduitOptions: { imported: true },
        })
      ).status,
    ).toBe(400);
  });

  it('takes over what changed in a table', async () => {
    const { admin, sample } = platform;
    const id = await platform.schemaId('imp_language');
    await admin.patch(`/database/schemas/${id}`, { conduitOptions: open });
    await sample.client.query(
      'alter table language add column code text; alter table language drop column last_update',
    );
    expect((await admin.get(base)).body.pendingSchemas).not.toContain('language');
    await admin.post(base);
    const changed = await pending('imp_language');
    expect(changed).toMatchObject({
      importedAs: 'imp_language',
      fields: { code: { type: 'String' } },
    });
    expect((await admin.post(`${base}/schemas/finalize`, { schemas: [changed] })).status).toBe(200);
    expect(await platform.schemaId('imp_language')).toBe(id);
    expect((await platform.client.get('/database/imp_language/1')).body).toMatchObject({
      name: 'English',
      code: null,
    });
    await sample.client.query(
      'alter table language drop column code; alter table language add column last_update timestamptz default now()',
    );
  });

  it('keeps what was made of a table when that changes', async () => {
    const { admin, sample } = platform;
    await sample.client.query('alter table customer add column note text');
    await admin.post(base);
    const changed = await pending('Client');
    expect(changed).toMatchObject({
      importedAs: 'Client',
      fields: { isActive: 'Boolean', note: { type: 'String' } },
    });
    expect(Object.keys(changed.fields)).not.toContain('active');
    expect((await admin.post(`${base}/schemas/finalize`, { schemas: [changed] })).status).toBe(200);
    expect((await admin.get('/database/schemas/Client/docs/1')).body).toMatchObject({
      isActive: true,
      note: null,
    });
    await sample.client.query('alter table customer drop column note');
    // Until the tables are read again, a column that is gone is missed by name and not by a failure.
    expect((await admin.get('/database/schemas/Client/docs/1')).status).toBe(404);
    await admin.post(base);
    expect(
      (await admin.post(`${base}/schemas/finalize`, { schemas: [{ name: 'Client' }] })).status,
    ).toBe(200);
    expect((await admin.get('/database/schemas/Client/docs/1')).body).not.toHaveProperty('note');
  });

  it('forgets a removed schema and leaves the table', async () => {
    const { admin, sample } = platform;
    const id = await platform.schemaId('imp_actor');
    expect(
      (await admin.delete(`/database/schemas/${id}`, { query: { deleteData: false } })).status,
    ).toBe(200);
    expect((await admin.get(base)).body.foreignSchemas).toEqual(['actor']);
    expect((await sample.client.query('select count(*)::int as n from actor')).rows).toEqual([
      { n: 4 },
    ]);
    await admin.post(base);
    expect(
      (await admin.post(`${base}/schemas/finalize`, { schemas: [{ name: 'actor' }] })).status,
    ).toBe(200);
  });

  it('looks only where it is told to, and never into what belongs to the platform', async () => {
    const { admin } = platform;
    for (const closed of ['penstock', 'penstock_jobs', 'app', 'pg_catalog', 'information_schema']) {
      const refused = await admin.patch('/config/database', {
        introspection: { schemas: ['public', closed] },
      });
      expect([refused.status, refused.body.errors[0].path]).toEqual([
        400,
        'introspection.schemas.1',
      ]);
    }
    await admin.patch('/config/database', { introspection: { schemas: ['nowhere'] } });
    expect((await admin.get(base)).body.foreignSchemaCount).toBe(0);
    await admin.patch('/config/database', { introspection: { schemas: ['public'] } });
  });
});
