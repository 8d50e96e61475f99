// The DVD rental shop, served in place: what clients see and change, and that nothing else of it changes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../../../test/support/api.ts';
import type { TestServer } from '../../../../test/support/database.ts';
import {
  expectUntouched,
  type ImportedPlatform,
  startOnSample,
} from '../../../../test/support/imported.ts';
import { describeWithPostgres15 } from '../../../../test/support/servers/fixtures.ts';

const titles = ({ documents }: Json): string[] => documents.map(({ title }: Json) => title);

const rentalSuite = (server: TestServer) => () => {
  let platform: ImportedPlatform;
  let client: Api;
  beforeAll(async () => {
    platform = await startOnSample('dvd-rental', { server });
    client = platform.client;
    await platform.importAll();
  });
  afterAll(() => platform.close());

  it('leaves rows and structure as they were', () => expectUntouched(platform, []));

  it('reads rows as records, with relations followed', async () => {
    const { body } = await client.get('/database/imp_film', {
      query: { populate: 'language_id', limit: 1, sort: '-title' },
    });
    expect(body.count).toBe(4);
    expect(body.documents[0]).toMatchObject({
      _id: '1',
      film_id: 1,
      title: 'THE LONG RIVER',
      release_year: 2006,
      rating: 'PG',
      rental_rate: 0.99,
      special_features: ['Trailers', 'Deleted Scenes'],
      language_id: { _id: '1', name: 'English' },
      original_language_id: null,
      last_update: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(body.documents[0]).not.toHaveProperty('fulltext');
    const cast = await client.get('/database/imp_film_actor/2~1', {
      query: { populate: 'actor_id,film_id.language_id' },
    });
    expect(cast.body).toMatchObject({
      _id: '2~1',
      actor_id: { last_name: 'WINTER' },
      film_id: { language_id: { name: 'English' } },
    });
    expect((await client.get('/database/imp_customer/1')).body.create_date).toBe(
      '2020-02-14T00:00:00.000Z',
    );
  });

  it('answers 404 for what cannot be an id, and for what is none', async () => {
    for (const id of [
      '99',
      'abc',
      '1.5',
      '1~1',
      '01',
      '99999999999999999999',
      '2147483648',
      "1'--",
      '0190a0b0-0000-7000-8000-000000000001',
    ]) {
      expect((await client.get(`/database/imp_film/${encodeURIComponent(id)}`)).status, id).toBe(
        404,
      );
    }
    for (const id of ['1', '1~', '~1', '1~1~1', 'a~b', '9~9']) {
      expect((await client.get(`/database/imp_film_actor/${id}`)).status, id).toBe(404);
    }
  });

  it('creates records with what the table gives by itself', async () => {
    const created = await client.post('/database/imp_film', {
      title: 'GLASS HARBOUR',
      language_id: '2',
      rating: 'PG-13',
      special_features: ['a', 'b,"c'],
    });
    expect(created.status).toBe(200);
    expect(created.body).toMatchObject({
      title: 'GLASS HARBOUR',
      rental_duration: 3,
      rental_rate: 4.99,
      special_features: ['a', 'b,"c'],
    });
    const { _id } = created.body;
    expect(Number(_id)).toBeGreaterThan(4);
    // The trigger of the table has filled in what is not served.
    const { rows } = await platform.sample.client.query(
      'select fulltext::text, special_features from film where film_id = $1',
      [_id],
    );
    expect(rows).toMatchObject([
      { fulltext: expect.stringContaining('glass'), special_features: ['a', 'b,"c'] },
    ]);
    expect(created.headers.get('etag')).toBe(
      (await client.get(`/database/imp_film/${_id}`)).headers.get('etag'),
    );
    await client.delete(`/database/imp_film/${_id}`);
  });

  it('changes and replaces them', async () => {
    const { _id } = (
      await client.post('/database/imp_film', {
        title: 'ONE',
        language_id: '1',
        rating: 'R',
        length: 90,
      })
    ).body;
    const path = `/database/imp_film/${_id}`;
    expect((await client.patch(path, { rating: 'G', special_features: ['x'] })).body).toMatchObject(
      {
        title: 'ONE',
        rating: 'G',
        length: 90,
      },
    );
    // What is left out of a replacement takes the default of the table.
    expect((await client.put(path, { title: 'TWO', language_id: '1' })).body).toMatchObject({
      _id,
      title: 'TWO',
      rating: 'G',
      length: null,
      rental_duration: 3,
    });
    expect((await client.patch(path, { film_id: Number(_id) })).status).toBe(200);
    expect((await client.patch(path, { film_id: 1 })).body.errors).toMatchObject([
      { path: 'film_id', rule: 'immutable' },
    ]);
    expect((await client.patch(path, {})).body).toMatchObject({ title: 'TWO' });
    expect((await client.delete(path)).body).toEqual({ result: 'Ok' });
    expect((await client.delete(path)).status).toBe(404);
  });

  it('refuses lost updates', async () => {
    const { _id } = (await client.post('/database/imp_actor', { first_name: 'A', last_name: 'B' }))
      .body;
    const path = `/database/imp_actor/${_id}`;
    const etag = (await client.get(path)).headers.get('etag') ?? '';
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        client.patch(path, { first_name: `A${i}` }, { headers: { 'if-match': etag } }),
      ),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([200, ...Array.from({ length: 49 }, () => 412)]);
    const winner = answers.find(({ status }) => status === 200);
    expect((await client.get(path)).body).toEqual(winner?.body);
    expect((await client.delete(path, { headers: { 'if-match': etag } })).status).toBe(412);
    expect(
      (await client.delete(path, { headers: { 'if-match': winner?.headers.get('etag') ?? '' } }))
        .status,
    ).toBe(200);
  });

  it('names what is wrong, and changes nothing', async () => {
    const film = { title: 'T', language_id: '1' };
    const wrong: readonly (readonly [Json, string])[] = [
      [{ language_id: '1' }, 'title'],
      [{ ...film, language_id: '99' }, 'language_id'],
      [{ ...film, language_id: 'x' }, 'language_id'],
      [{ ...film, language_id: 1 }, 'language_id'],
      [{ ...film, release_year: 1500 }, 'release_year'],
      [{ ...film, rating: 'X' }, 'rating'],
      [{ ...film, length: 40_000 }, 'length'],
      [{ ...film, special_features: 'a' }, 'special_features'],
      [{ ...film, last_update: null }, 'last_update'],
      [{ ...film, special_features: ['a\0'] }, 'special_features.0'],
    ];
    for (const [body, path] of wrong) {
      const answer = await client.post('/database/imp_film', body);
      expect([answer.status, answer.body.errors?.[0]?.path], JSON.stringify(body)).toEqual([
        400,
        path,
      ]);
      expect(answer.text).not.toMatch(/select|insert|pg_|constraint/i);
    }
    expect((await client.post('/database/imp_film', { ...film, rental_rate: 1e9 })).status).toBe(
      400,
    );
    const many = await client.post('/database/imp_film/many', {
      docs: [film, { ...film, language_id: '77' }],
    });
    expect(many.status).toBe(400);
    expect((await client.get('/database/imp_film')).body.count).toBe(4);
    // Referred to by others: the table says no.
    expect(await client.delete('/database/imp_film/1')).toMatchObject({
      status: 409,
      body: { code: 'RECORD_IN_USE' },
    });
    await expectUntouched(platform, ['actor']);
  });

  it('serves rows of partitions under one key, to the microsecond', async () => {
    const id = '2022-01-10T10:11:13.000001Z~1';
    expect((await client.get(`/database/imp_payment/${id}`)).body).toMatchObject({
      _id: id,
      amount: 2.99,
    });
    expect((await client.patch(`/database/imp_payment/${id}`, { amount: 3.5 })).body).toMatchObject(
      { _id: id, amount: 3.5 },
    );
    const made = await client.post('/database/imp_payment', {
      customer_id: '1',
      rental_id: '1',
      amount: '9.99',
      payment_date: '2022-02-02',
    });
    expect(made.body._id).toMatch(/^2022-02-02T00:00:00.000000Z~\d+$/);
    const etag = made.headers.get('etag') ?? '';
    expect(
      (
        await client.patch(
          `/database/imp_payment/${made.body._id}`,
          { amount: 1 },
          { headers: { 'if-match': etag } },
        )
      ).status,
    ).toBe(200);
    expect(
      (
        await client.patch(
          `/database/imp_payment/${made.body._id}`,
          { amount: 2 },
          { headers: { 'if-match': etag } },
        )
      ).status,
    ).toBe(412);
    expect((await client.delete(`/database/imp_payment/${made.body._id}`)).status).toBe(200);
    // There is no partition for that time.
    const lost = await client.post('/database/imp_payment', {
      customer_id: '1',
      rental_id: '1',
      amount: 1,
      payment_date: '2031-01-01',
    });
    expect(lost.status).toBe(400);
  });

  it('lists views, and writes to none', async () => {
    const { body } = await client.get('/database/imp_film_list', { query: { sort: 'title' } });
    expect(body).toMatchObject({
      count: 3,
      documents: [{ _id: null, title: 'BREAD AND SALT', actors: 'ADA STONE' }, {}, {}],
    });
    expect((await client.get('/database/imp_film_list/1')).status).toBe(404);
    expect((await client.post('/database/imp_film_list', { title: 'x' })).status).toBe(405);
    expect((await client.get('/database/imp_rental_by_category')).body).toMatchObject({
      documents: [{ total_sales: 7.98 }],
    });
    const written = await platform.admin.post('/database/schemas/imp_film_list/docs', {
      inputDocument: { title: 'x' },
    });
    expect([403, 404]).toContain(written.status);
  });

  it('pages by cursor, and says where it cannot', async () => {
    for (const [schema, sort] of [
      ['imp_film', ''],
      ['imp_film_actor', ''],
      ['imp_payment', 'amount'],
    ]) {
      const whole = (await client.get(`/database/${schema}`, { query: { ...(sort && { sort }) } }))
        .body.documents;
      const seen: Json[] = [];
      for (let cursor: string | null = 'start'; cursor !== null; ) {
        const { body }: Json = await client.get(`/database/${schema}`, {
          query: { cursor, limit: 2, ...(sort && { sort }) },
        });
        seen.push(...body.documents);
        cursor = body.nextCursor;
      }
      expect(seen, schema).toEqual(whole);
    }
    expect(
      (await client.get('/database/imp_film_list', { query: { cursor: 'start' } })).body.errors,
    ).toMatchObject([{ path: 'cursor' }]);
  });

  it('filters, also across relations', async () => {
    const query = async (schema: string, filter: Json, sort = '') =>
      (
        await platform.admin.post(
          `/database/schemas/${schema}/query`,
          { query: filter },
          { query: { ...(sort && { sort }) } },
        )
      ).body;
    expect(titles(await query('imp_film', { _id: { $in: ['2', '3', '99'] } }))).toEqual([
      'NIGHT TRAIN NORTH',
      'BREAD AND SALT',
    ]);
    expect(titles(await query('imp_film', { language_id: '1' }))).toEqual([
      'THE LONG RIVER',
      'NIGHT TRAIN NORTH',
    ]);
    expect(titles(await query('imp_film', { 'language_id.name': 'Italian' }))).toEqual([
      'BREAD AND SALT',
    ]);
    expect(
      titles(await query('imp_film', { rating: { $ne: 'R' }, special_features: 'Trailers' })),
    ).toEqual(['THE LONG RIVER']);
    expect(
      titles(await query('imp_film', { release_year: { $gte: 2000 } }, '-release_year')),
    ).toEqual(['NIGHT TRAIN NORTH', 'THE LONG RIVER']);
    expect(
      await query('imp_film_actor', {
        'actor_id.last_name': { $like: '%A%' },
        'film_id.language_id.name': 'English',
      }),
    ).toMatchObject({
      count: 2,
    });
    expect(await query('imp_film_actor', { _id: '1~1' })).toMatchObject({ count: 1 });
    expect(await query('imp_customer', { create_date: { $lt: '2021-01-01' } })).toMatchObject({
      count: 1,
    });
    expect((await query('imp_film', { language_id: 'x' })).errors).toMatchObject([
      { path: 'query.language_id' },
    ]);
  });

  it('serves custom endpoints and GraphQL', async () => {
    const endpoint = {
      name: 'filmsByRating',
      operation: 0,
      selectedSchemaName: 'imp_film',
      paginated: true,
      inputs: [{ name: 'rating', type: 'String', location: 1 }],
      query: {
        AND: [
          {
            schemaField: 'rating',
            operation: 0,
            comparisonField: { type: 'Input', value: 'rating' },
          },
        ],
      },
    };
    expect((await platform.admin.post('/database/customEndpoints', endpoint)).status).toBe(200);
    const found = await client.get('/database/function/filmsByRating', {
      query: { rating: 'R', skip: 0, limit: 5 },
    });
    expect(titles(found.body)).toEqual(['NIGHT TRAIN NORTH']);
    const lengthen = {
      name: 'lengthen',
      operation: 2,
      selectedSchemaName: 'imp_film',
      inputs: [{ name: 'id', type: 'Number', location: 0 }],
      query: {
        AND: [
          { schemaField: 'film_id', operation: 0, comparisonField: { type: 'Input', value: 'id' } },
        ],
      },
      assignments: [
        { schemaField: 'length', action: 1, assignmentField: { type: 'Custom', value: 1 } },
      ],
    };
    expect((await platform.admin.post('/database/customEndpoints', lengthen)).status).toBe(200);
    await Promise.all(
      Array.from({ length: 10 }, () => client.put('/database/function/lengthen', { id: 2 })),
    );
    expect((await client.get('/database/imp_film/2')).body.length).toBe(123);
    const graphql = async (query: string) => (await client.post('/graphql', { query })).body;
    const schema = await graphql('{ __schema { queryType { fields { name } } } }');
    const names: string[] = schema.data.__schema.queryType.fields.map(({ name }: Json) => name);
    const field = names.find((name) => /imp_?film$/i.test(name)) ?? '';
    const answer = await graphql(
      `{ ${field}(limit: 1) { count documents { _id title language_id { _id name } } } }`,
    );
    expect(answer).toMatchObject({
      data: {
        [field]: {
          count: 4,
          documents: [
            { _id: '1', title: 'THE LONG RIVER', language_id: { _id: '1', name: 'English' } },
          ],
        },
      },
    });
    await platform.sample.client.query('update film set length = 113 where film_id = 2');
  });

  it('leaves an event for every change', async () => {
    const { _id } = (await client.post('/database/imp_actor', { first_name: 'E', last_name: 'V' }))
      .body;
    await client.patch(`/database/imp_actor/${_id}`, { first_name: 'F' });
    await client.delete(`/database/imp_actor/${_id}`);
    const { rows } = await platform.sample.client.query(
      "select operation, ids from penstock.outbox where schema = 'imp_actor' and ids = array[$1] order by seq",
      [_id],
    );
    expect(rows.map(({ operation }) => operation)).toEqual(['insert', 'update', 'delete']);
  });

  it('has added nothing to the tables', () =>
    expectUntouched(platform, ['actor', 'film', 'payment', 'payment_p2022_01']));
};

describe('the DVD rental shop', rentalSuite('embedded'));
await describeWithPostgres15('the DVD rental shop on PostgreSQL 15', rentalSuite('external15'));
