// Shops with keys of their own, served in place: what clients see and change, and that nothing else of them changes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../../../test/support/api.ts';
import {
  expectUntouched,
  type ImportedPlatform,
  startOnSample,
} from '../../../../test/support/imported.ts';

describe('the Chinook music shop', () => {
  let platform: ImportedPlatform;
  let client: Api;
  beforeAll(async () => {
    platform = await startOnSample('chinook');
    client = platform.client;
    await platform.importAll();
  });
  afterAll(() => platform.close());

  it('keeps quoted names, and needs the keys that the tables do not make', async () => {
    expect(
      (await client.get('/database/imp_Track/3', { query: { populate: 'AlbumId.ArtistId' } })).body,
    ).toMatchObject({
      Name: 'Blue Kitchen',
      UnitPrice: 1.99,
      AlbumId: { Title: 'Small Hours', ArtistId: { Name: 'Nocturne Four' } },
    });
    expect((await client.post('/database/imp_Genre', { Name: 'Pop' })).body.errors).toMatchObject([
      { path: 'GenreId', rule: 'required' },
    ]);
    expect(
      (await client.post('/database/imp_Genre', { GenreId: 7, Name: 'Pop' })).body,
    ).toMatchObject({
      _id: '7',
      GenreId: 7,
      Name: 'Pop',
    });
    expect(await client.post('/database/imp_Genre', { GenreId: 7 })).toMatchObject({
      status: 409,
      body: { errors: [{ path: 'GenreId', rule: 'unique' }] },
    });
    expect(
      (await client.put('/database/imp_Genre/7', { GenreId: 7, Name: 'Rock' })).body,
    ).toMatchObject({ Name: 'Rock' });
    expect((await client.delete('/database/imp_Genre/7')).status).toBe(200);
  });

  it('links by composite keys, and within one table', async () => {
    const all = await client.get('/database/imp_PlaylistTrack', {
      query: { populate: 'TrackId,PlaylistId', sort: '-_id' },
    });
    expect(all.body.documents.map(({ _id, TrackId }: Json) => [_id, TrackId.Name])).toEqual([
      ['2~2', 'Ropes'],
      ['1~3', 'Blue Kitchen'],
      ['1~1', 'First Light'],
    ]);
    expect(
      (await client.post('/database/imp_PlaylistTrack', { PlaylistId: '2', TrackId: '3' })).body
        ._id,
    ).toBe('2~3');
    expect(
      (await client.post('/database/imp_PlaylistTrack', { PlaylistId: '2', TrackId: '3' })).status,
    ).toBe(409);
    expect(
      (await client.patch('/database/imp_PlaylistTrack/2~3', { TrackId: '1' })).body.errors,
    ).toMatchObject([{ path: 'TrackId', rule: 'immutable' }]);
    expect((await client.delete('/database/imp_PlaylistTrack/2~3')).status).toBe(200);
    const employee = await client.get('/database/imp_Employee/2', {
      query: { populate: 'ReportsTo' },
    });
    expect(employee.body).toMatchObject({
      BirthDate: '1973-08-29T00:00:00.000Z',
      ReportsTo: { LastName: 'Adler', ReportsTo: null },
    });
  });

  it('writes many at once, or none', async () => {
    const docs = [
      { _id: '1', Name: 'The Lamps' },
      { _id: '2', Name: 'Ida' },
    ];
    expect((await client.patch('/database/imp_Artist/many', { docs })).body.docs).toMatchObject(
      docs,
    );
    const wrong = await client.patch('/database/imp_Artist/many', {
      docs: [
        { _id: '1', Name: 'x' },
        { _id: '99', Name: 'y' },
      ],
    });
    expect(wrong).toMatchObject({ status: 404, body: { errors: [{ path: 'docs.1._id' }] } });
    expect(
      (await client.patch('/database/imp_Artist/many', { docs: [{ _id: '1' }, { _id: '1' }] }))
        .status,
    ).toBe(400);
    expect(
      (await client.patch('/database/imp_Artist/many', { docs: [{ _id: 'x' }] })).body.errors,
    ).toMatchObject([{ path: 'docs.0._id' }]);
    expect(
      (
        await client.put('/database/imp_Artist/many', {
          docs: [
            { _id: '1', ArtistId: 1, Name: 'The Lanterns' },
            { _id: '2', ArtistId: 2, Name: 'Ida Brook' },
          ],
        })
      ).status,
    ).toBe(200);
    const batch = await platform.admin.post('/database/schemas/imp_Artist/docs/many', {
      inputDocuments: [{ ArtistId: 50 }, { ArtistId: 50 }],
    });
    expect(batch.status).toBe(409);
    expect((await client.get('/database/imp_Artist')).body.count).toBe(3);
  });

  it('takes rows out and in', async () => {
    const { admin } = platform;
    const csv = await admin.get('/database/schemas/imp_PlaylistTrack/docs/export', {
      query: { format: 'csv' },
    });
    expect(csv.text.split(/\r?\n/).slice(0, 2)).toEqual([
      '_id,PlaylistId,TrackId,__v',
      expect.stringMatching(/^1~1,1,1,\d+$/),
    ]);
    const load = (format: string, mode: string, body: string) =>
      admin.send('POST', '/database/schemas/imp_Genre/docs/import', body, {
        query: { format, mode },
        headers: { 'content-type': format === 'csv' ? 'text/csv' : 'application/x-ndjson' },
      });
    expect((await load('csv', 'insert', 'GenreId,Name\n10,Pop\n11,Rock\n')).body).toMatchObject({
      created: 2,
      failed: 0,
    });
    const upsert = '{"_id":"10","Name":"Pop!"}\n{"GenreId":12,"Name":"New"}\n';
    expect((await load('jsonl', 'upsert', upsert)).body).toMatchObject({ created: 1, updated: 1 });
    const wrong = await load('jsonl', 'insert', '{"GenreId":13}\n{"GenreId":1}\n{"Name":"none"}\n');
    expect(wrong.body.errors).toMatchObject([
      { path: 'lines.2.GenreId' },
      { path: 'lines.3.GenreId' },
    ]);
    expect(
      (await client.get('/database/imp_Genre', { query: { sort: '-_id', limit: 3 } })).body,
    ).toMatchObject({
      count: 5,
      documents: [{ Name: 'New' }, { Name: 'Rock' }, { Name: 'Pop!' }],
    });
    for (const id of ['10', '11', '12']) await client.delete(`/database/imp_Genre/${id}`);
  });

  it('takes part in batches, with references', async () => {
    const operations = [
      { op: 'create', schema: 'imp_Artist', data: { ArtistId: 77, Name: 'N' }, ref: 'artist' },
      {
        op: 'create',
        schema: 'imp_Album',
        data: { AlbumId: 77, Title: 'T', ArtistId: { $ref: 'artist' } },
      },
      { op: 'update', schema: 'imp_Artist', id: '77', data: { Name: 'M' } },
    ];
    const { body } = await client.post('/database/batch', { operations });
    expect(body.results).toMatchObject([
      { document: { _id: '77' } },
      { document: { ArtistId: '77' } },
      { document: { Name: 'M' } },
    ]);
    const undo = [
      { op: 'delete', schema: 'imp_Album', id: '77' },
      { op: 'delete', schema: 'imp_Artist', id: '77' },
    ];
    expect((await client.post('/database/batch', { operations: undo })).status).toBe(200);
  });

  it('exports and imports its schemas', async () => {
    const { admin } = platform;
    const { body } = await admin.get('/database/schemas/export');
    expect((await admin.post('/database/schemas/import', body)).status).toBe(200);
    expect((await admin.get('/database/schemas/export')).body).toEqual(body);
    const [first] = body.schemas;
    const elsewhere = await admin.post('/database/schemas/import', {
      schemas: [{ ...first, name: 'imp_Elsewhere' }],
    });
    expect(elsewhere.status).toBe(400);
  });

  it('has left the shop as it was', () => expectUntouched(platform, []));
});

describe('the Northwind traders', () => {
  let platform: ImportedPlatform;
  let client: Api;
  beforeAll(async () => {
    platform = await startOnSample('northwind');
    client = platform.client;
    await platform.importAll();
  });
  afterAll(() => platform.close());

  it('serves keys of fixed length, small numbers, bytes and decimals', async () => {
    expect((await client.get('/database/imp_customers/ALFKI')).body).toMatchObject({
      _id: 'ALFKI',
      customer_id: 'ALFKI',
      country: 'Germany',
    });
    // Filled up with blanks in the table, which mean nothing.
    const order = await client.get('/database/imp_orders/10249', {
      query: { populate: 'customer_id,employee_id.reports_to' },
    });
    expect(order.body).toMatchObject({
      freight: 11.61,
      order_date: '1996-07-05T00:00:00.000Z',
      customer_id: { _id: 'BER', company_name: 'Berry & Sons' },
      employee_id: { reports_to: null },
    });
    expect((await client.get('/database/imp_categories/1')).body).toMatchObject({
      picture: 'iVBORw==',
    });
    expect(
      (
        await client.patch('/database/imp_categories/2', {
          picture: Buffer.from('bytes').toString('base64'),
        })
      ).body,
    ).toMatchObject({
      picture: 'Ynl0ZXM=',
    });
    expect(
      (await client.patch('/database/imp_categories/2', { picture: 'no base64!' })).status,
    ).toBe(400);
    expect((await client.patch('/database/imp_categories/2', { picture: null })).status).toBe(200);
    const { rows } = await platform.sample.client.query(
      'select unit_price::float8 as price from products where product_id = 1',
    );
    expect(rows).toHaveLength(1);
    const filter = await platform.admin.post('/database/schemas/imp_products/query', {
      query: { unit_price: 18.1 },
    });
    expect(filter.body).toMatchObject({
      count: 1,
      documents: [{ product_name: 'Mint tea', unit_price: 18.1 }],
    });
    expect(
      (
        await platform.admin.post('/database/schemas/imp_orders/query', {
          query: { customer_id: 'BER' },
        })
      ).body.count,
    ).toBe(1);
  });

  it('keeps the rules of the tables', async () => {
    expect(
      (
        await client.post('/database/imp_order_details', {
          order_id: '10249',
          product_id: '2',
          unit_price: 1,
          quantity: 0,
        })
      ).body.errors,
    ).toMatchObject([{ path: 'quantity' }]);
    const made = await client.post('/database/imp_order_details', {
      order_id: '10249',
      product_id: '2',
      unit_price: 1.5,
      quantity: 3,
    });
    expect(made.body).toMatchObject({ _id: '10249~2', unit_price: 1.5, discount: 0 });
    expect((await client.delete('/database/imp_order_details/10249~2')).status).toBe(200);
    expect((await client.get('/database/imp_territories/01581')).body._id).toBe('01581');
    expect(
      (
        await client.get('/database/imp_employee_territories/1~01581', {
          query: { populate: 'territory_id.region_id' },
        })
      ).body,
    ).toMatchObject({ territory_id: { region_id: { region_description: 'Eastern' } } });
    expect(
      (await client.post('/database/imp_customers', { customer_id: 'TOOLONG', company_name: 'x' }))
        .status,
    ).toBe(400);
  });

  it('shows a table without a key', async () => {
    expect(
      (await client.get('/database/imp_us_states', { query: { sort: '-state_id' } })).body,
    ).toMatchObject({
      count: 2,
      documents: [{ _id: null, state_abbr: 'AK' }, {}],
    });
    expect((await client.post('/database/imp_us_states', { state_id: 3 })).status).toBe(405);
    expect(
      (
        await platform.admin.post('/database/schemas/imp_us_states/docs', {
          inputDocument: { state_id: 3 },
        })
      ).status,
    ).toBe(403);
  });

  it('has left the trade as it was', () => expectUntouched(platform, []));
});
