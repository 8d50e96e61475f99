// Tables that hold more than a record engine expects of its own (spec/database.md 5.12).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api } from '../../../../test/support/api.ts';
import {
  expectUntouched,
  type ImportedPlatform,
  startOnSample,
} from '../../../../test/support/imported.ts';

describe('odd tables', () => {
  let platform: ImportedPlatform;
  let admin: Api;
  let client: Api;
  const csv = { headers: { 'content-type': 'text/csv' } };
  beforeAll(async () => {
    platform = await startOnSample('odd');
    ({ admin, client } = platform);
    await admin.post('/database/introspection');
    const { body } = await admin.get('/database/introspection/schemas', {
      query: { search: 'vehicles' },
    });
    expect(body.schemas[0].warnings).toEqual([
      expect.stringContaining('Other tables inherit from it'),
    ]);
    await platform.importAll();
  });
  afterAll(() => platform.close());

  it('loses no digit of lists of long numbers, on any way out or in', async () => {
    const path = '/database/imp_wide_lists/1';
    const lists = {
      flakes: ['9007199254740993', null, '-1'],
      prices: ['0.10000000000000000001', '2.50'],
    };
    const grid = [
      ['9007199254740993', '1'],
      ['2', '3'],
    ];
    expect((await client.get(path)).body).toMatchObject({ ...lists, grid });
    const graphql = await client.post('/graphql', {
      query: '{ getDatabaseImp_wide_listsId(id: "1") { flakes prices grid } }',
    });
    expect(graphql.body.data.getDatabaseImp_wide_listsId).toEqual({ ...lists, grid });
    const found = await admin.post('/database/schemas/imp_wide_lists/query', {
      query: { flakes: '9007199254740993' },
    });
    expect(found.body.count).toBe(1);
    await client.patch(path, { flakes: ['9223372036854775807', '5'] });
    const text = (
      await admin.get('/database/schemas/imp_wide_lists/docs/export', { query: { format: 'csv' } })
    ).text;
    const back = await admin.post(
      '/database/schemas/imp_wide_lists/docs/import?mode=upsert',
      text,
      csv,
    );
    expect(back.body).toMatchObject({ updated: 1, failed: 0 });
    const { rows } = await platform.sample.client.query(
      'select flakes::text, prices::text, grid::text from wide_lists',
    );
    expect(rows).toEqual([
      {
        flakes: '{9223372036854775807,5}',
        prices: '{0.10000000000000000001,2.50}',
        grid: '{{9007199254740993,1},{2,3}}',
      },
    ]);
    expect((await client.patch(path, { flakes: ['many'] })).status).toBe(400);
  });

  it('says which year an instant lies in, before the first and after the 9999th too', async () => {
    const { documents } = (await client.get('/database/imp_ages', { query: { sort: 'id' } })).body;
    expect(documents).toMatchObject([
      {
        day: '-000043-03-15T00:00:00.000Z',
        at: '+000000-01-01T00:00:00.000Z',
        zoned: '-000001-12-31T23:59:59.500Z',
      },
      {
        day: '9999-12-31T00:00:00.000Z',
        at: '+010000-01-01T12:00:00.000Z',
        zoned: '+012345-06-07T08:09:10.011Z',
      },
      { day: null, at: null, zoned: null },
      {
        day: '0001-01-01T00:00:00.000Z',
        at: '2026-01-31T12:00:00.000Z',
        zoned: '0476-09-04T00:00:00.000Z',
      },
    ]);
    expect(new Date(documents[0].day).getUTCFullYear()).toBe(-43);
    const endpoint = { name: 'oldest', operation: 5, selectedSchemaName: 'imp_ages' };
    const aggregate = { values: [{ as: 'oldest', function: 'min', field: 'zoned' }] };
    expect((await admin.post('/database/customEndpoints', { ...endpoint, aggregate })).status).toBe(
      200,
    );
    expect((await client.get('/database/function/oldest')).body).toEqual([
      { oldest: '-000001-12-31T23:59:59.500Z' },
    ]);
  });

  it.each(['imp_text_keys', 'imp_blank_keys'])(
    'gives no record of %s an empty id, which no path could name',
    async (schema) => {
      for (const code of ['', ...(schema === 'imp_blank_keys' ? ['  '] : [])]) {
        const refused = await client.post(`/database/${schema}`, { code, note: 'x' });
        expect([refused.status, refused.body.errors]).toMatchObject([
          400,
          [{ path: 'code', rule: 'minLength' }],
        ]);
      }
      expect((await client.post(`/database/${schema}`, { code: 'a', note: 'x' })).status).toBe(200);
    },
  );

  it('blames no field for an index over an expression', async () => {
    const { status, body } = await client.post('/database/imp_citizens', {
      id: 2,
      email: 'ANN@example.org',
    });
    expect([status, body.code, body.errors]).toEqual([409, 'RECORD_NOT_UNIQUE', undefined]);
  });

  it('names the fields of a foreign key of several columns', async () => {
    const { status, body } = await client.post('/database/imp_houses', {
      id: 2,
      lot_street: 'Elm',
      lot_number: 9,
    });
    expect([status, body.errors]).toMatchObject([
      400,
      [
        { path: 'lot_street', rule: 'relation' },
        { path: 'lot_number', rule: 'relation' },
      ],
    ]);
  });

  it('names the table that is in the way of a delete, also where two foreign keys have one name', async () => {
    const { status, body } = await client.delete('/database/imp_keepers/1');
    expect([status, body.code, body.message]).toEqual([
      409,
      'RECORD_IN_USE',
      'Records of imp_dogs refer to this one',
    ]);
  });

  it('answers a conflict where a rule or a trigger takes the row away', async () => {
    expect((await client.post('/database/imp_swallowing', { note: 'x' })).status).toBe(409);
    expect((await client.post('/database/imp_picky', { note: 'boom' })).status).toBe(409);
    const imported = await admin.post(
      '/database/schemas/imp_picky/docs/import?atomic=false',
      'note\nfine\nboom\nfine too\n',
      csv,
    );
    expect(imported.body).toMatchObject({ created: 2, failed: 1, errors: [{ line: 3 }] });
  });

  it.each([
    [{ opens: 'soon' }, 'opens'],
    [{ opens: '10:00', lasts: 'long', host: '10.0.0.1' }, 'lasts'],
    [{ opens: '10:00', lasts: '1 day', host: 'here' }, 'host'],
    [{ price: 100 }, 'price'],
    [{ opens: '10:00', tags: ['a', 'b', 'c'] }, 'tags'],
    [{ shade: '***' }, 'shade'],
  ])('names the field whose column does not take the value: %j', async (record, path) => {
    const { status, body } = await client.post('/database/imp_exacting', record);
    expect([status, body.errors]).toMatchObject([400, [{ path }]]);
    const made = await client.post('/database/imp_exacting', {});
    expect(
      (await client.patch(`/database/imp_exacting/${made.body._id}`, record)).body.errors,
    ).toMatchObject([{ path }]);
  });

  it('says of an export what a list says: a view without data, a table that has changed', async () => {
    const exported = async (schema: string) =>
      (await admin.get(`/database/schemas/${schema}/docs/export`)).status;
    expect([
      (await client.get('/database/imp_never_filled')).status,
      await exported('imp_never_filled'),
    ]).toEqual([503, 503]);
    await platform.sample.client.query('alter table renamed_later rename column note to remark');
    expect([
      (await client.get('/database/imp_renamed_later')).status,
      await exported('imp_renamed_later'),
    ]).toEqual([404, 404]);
    await platform.sample.client.query('alter table renamed_later rename column remark to note');
  });

  it('has left the other tables as they were', () =>
    expectUntouched(platform, ['wide_lists', 'text_keys', 'blank_keys', 'picky', 'exacting']));

  // It adds a table to those of the sample, as those after it do.
  it('keeps every digit of times, and tells what a trigger says where the operator allows it', async () => {
    await platform.sample.client.query(`
      create table payments (id integer primary key, paid timestamp not null, seen timestamptz, day date, note text);
      insert into payments values (1, '2022-06-21 07:41:50.707316', '2022-06-21 07:41:50.70731+02', '2022-06-21', 'a'),
        (2, '2022-06-21 07:41:50.707317', null, null, 'b'), (3, '2022-06-21 07:41:50.7', null, null, 'c');
      create function refuse() returns trigger language plpgsql as $$ begin
        if new.note = 'boom' then raise exception 'No boom allowed' using hint = 'try another', detail = 'inside'; end if;
        return new; end $$;
      create trigger refuse before insert or update on payments for each row execute function refuse()`);
    await platform.importAll();
    const path = '/database/imp_payments';
    const { body: first } = await client.get(`${path}/1`);
    expect(first).toMatchObject({
      paid: '2022-06-21T07:41:50.707316Z',
      seen: '2022-06-21T05:41:50.707310Z',
      day: '2022-06-21T00:00:00.000Z',
    });
    // Sending back what was served changes nothing.
    const { __v, _id, ...served } = first;
    expect((await client.patch(`${path}/1`, served)).status).toBe(200);
    expect((await client.put(`${path}/1`, served)).status).toBe(200);
    const { rows } = await platform.sample.client.query(
      'select paid::text, seen::text, day::text from payments where id = 1',
    );
    expect(rows[0]).toEqual({
      paid: '2022-06-21 07:41:50.707316',
      seen: expect.stringContaining('50.70731+'),
      day: '2022-06-21',
    });
    const find = async (query: object) =>
      (await admin.post('/database/schemas/imp_payments/query', { query })).body.documents.map(
        ({ id }: { id: number }) => id,
      );
    expect(await find({ paid: first.paid })).toEqual([1]);
    expect(await find({ seen: first.seen })).toEqual([1]);
    expect(await find({ paid: { $in: [first.paid, '2022-06-21T07:41:50.700Z'] } })).toEqual([1, 3]);
    expect(await find({ paid: { $gt: first.paid } })).toEqual([2]);
    // Pages by cursor, over times that differ by a millionth of a second.
    const ids: number[] = [];
    const readFrom = async (cursor: string): Promise<void> => {
      const { body } = await client.get(path, { query: { sort: 'paid', limit: 1, cursor } });
      ids.push(...body.documents.map(({ id }: { id: number }) => id));
      if (body.nextCursor) await readFrom(body.nextCursor);
    };
    await readFrom('start');
    expect(ids).toEqual([3, 1, 2]);

    const refused = async () => (await client.patch(`${path}/1`, { note: 'boom' })).body;
    expect(await refused()).toMatchObject({
      status: 409,
      message: 'The database refused the record',
    });
    const id = await platform.schemaId('imp_payments');
    const allow = { conduitOptions: { triggerMessages: true } };
    expect((await admin.patch(`/database/schemas/${id}`, allow)).status).toBe(200);
    expect(await refused()).toMatchObject({
      status: 409,
      message: 'No boom allowed (try another)',
    });
    expect(JSON.stringify(await refused())).not.toContain('inside');
  });

  it('names the field whose number has too many digits, also among others', async () => {
    await platform.sample.client.query(`create table prices (id integer primary key,
      small numeric(4, 2), large numeric(12, 2), same numeric(4, 2), plain numeric, whole integer)`);
    await platform.importAll();
    const make = async (record: object) =>
      (await client.post('/database/imp_prices', { id: 1, large: 12, plain: 1000, ...record }))
        .body;
    expect(await make({ small: 99.995, same: 1, whole: 4000 })).toMatchObject({
      status: 400,
      message: 'small: does not fit numeric(4, 2)',
      errors: [{ path: 'small', rule: 'type' }],
    });
    expect((await make({ small: 1, same: 100 })).errors).toMatchObject([{ path: 'same' }]);
    expect((await make({ large: '10000000000', small: 1 })).errors).toMatchObject([
      { path: 'large' },
    ]);
    expect(await make({ small: 99.99, same: 1 })).toMatchObject({ _id: '1' });
  });

  it('says which table cannot be read, and why to operators and where it is allowed', async () => {
    await platform.sample.client.query(`
      create view circle_a as select 1 as id;
      create view circle_b as select id from circle_a;
      create or replace view circle_a as select id from circle_b;
      create table notes (id integer primary key, body text);
      insert into notes values (1, 'secret <'), (2, 'more');
      create view broken as select id, body::xml::text as body from notes;
      create view ambiguous as select id, (select n.body from notes n) as body from notes;
      create foreign data wrapper nothing;
      create server nowhere foreign data wrapper nothing;
      create foreign table elsewhere (id integer) server nowhere`);
    await platform.importAll();
    const said: Readonly<Record<string, string>> = {
      circle_a: 'infinite recursion',
      broken: 'invalid XML content',
      ambiguous: 'more than one row returned by a subquery',
      elsewhere: 'foreign-data wrapper',
    };
    for (const [table, text] of Object.entries(said)) {
      const schema = `imp_${table}`;
      const kind = table === 'elsewhere' ? 'table' : 'view';
      const refused = {
        status: 422,
        code: 'TABLE_READ_FAILED',
        message: `${schema}: the database cannot read this ${kind}`,
      };
      const path = `/database/${schema}`;
      const answer = (await client.get(path)).body;
      expect(answer).toMatchObject(refused);
      expect(JSON.stringify(answer)).not.toContain(text);
      const operators = await admin.get(`/database/schemas/${schema}/docs`);
      expect(operators.body).toMatchObject({
        ...refused,
        detail: expect.stringContaining(`public.${table}: `),
      });
      expect(operators.body.detail).toContain(text);
      expect((await admin.get(`/database/schemas/${schema}/docs/export`)).status).toBe(422);
      const conduitOptions = { triggerMessages: true };
      const id = await platform.schemaId(schema);
      expect((await admin.patch(`/database/schemas/${id}`, { conduitOptions })).status).toBe(200);
      expect((await client.get(path)).body.message).toContain(text);
    }
  });

  it('serves 300 tables by one call, and says why it serves no others', async () => {
    await platform.sample.client.query(`
      create schema bulk; create schema aside; create table aside.unseen (id integer primary key);
      create table bulk.prices (id integer primary key); create table bulk.shapes (a circle, b tsvector);
      do $$ begin for i in 1..298 loop
        execute format('create table bulk.t%s (id integer primary key, note text)', i);
      end loop; end $$;
      create table bulk.child (id integer primary key, t1 integer references bulk.t1);
      insert into bulk.t1 values (7, 'seven'); insert into bulk.child values (1, 7)`);
    const introspection = { schemas: ['public', 'bulk'] };
    expect((await admin.patch('/config/database', { introspection })).status).toBe(200);
    await admin.post('/database/introspection');
    const finalize = (body: object) => admin.post('/database/introspection/schemas/finalize', body);
    expect((await finalize({})).body).toMatchObject({ status: 400, errors: [{ path: 'schemas' }] });
    const conduitOptions = { cms: { enabled: true, crudOperations: { read: { enabled: true } } } };
    const done = await finalize({
      all: true,
      schemas: [{ name: 't2', renames: { note: 'remark' } }],
      conduitOptions,
    });
    expect(done.body).toEqual({ result: '300 schemas finalized successfully' });
    const { body: status } = await admin.get('/database/introspection');
    expect(status).toMatchObject({ pendingSchemas: [], foreignSchemas: ['bulk.shapes'] });
    expect(status.unservedSchemas).toEqual([
      { name: 'bulk.shapes', reason: expect.stringMatching(/^None .*"a" \(circle\).*"b"/) },
      { name: 'aside.unseen', reason: expect.stringContaining('introspection.schemas') },
    ]);
    expect(
      (await client.get('/database/imp_child/1', { query: { populate: 't1' } })).body,
    ).toMatchObject({ t1: { _id: '7', note: 'seven' } });
    // The table of the same name in public was there first.
    expect((await client.get('/database/imp_bulk_prices')).body).toMatchObject({ count: 0 });
    expect((await client.post('/database/imp_t2', { id: 1 })).status).toBe(405);

    const ids = [await platform.schemaId('imp_t1'), await platform.schemaId('imp_t2')];
    const crudOperations = { create: { enabled: true } };
    const toggled = await admin.post('/database/schemas/toggle', {
      ids,
      enabled: true,
      crudOperations,
    });
    expect(toggled.status).toBe(200);
    expect((await client.post('/database/imp_t2', { id: 1, remark: 'x' })).body).toMatchObject({
      _id: '1',
      remark: 'x',
    });
    // What has a schema keeps its options when it is finalised again.
    await platform.sample.client.query('alter table bulk.t1 add column more text');
    await admin.post('/database/introspection');
    const nothing = { cms: { enabled: false } };
    expect((await finalize({ all: true, conduitOptions: nothing })).body).toEqual({
      result: '1 schema finalized successfully',
    });
    expect((await client.get('/database/imp_t1/7')).body).toMatchObject({ more: null });
    expect((await finalize({ all: true })).body).toEqual({
      result: '0 schemas finalized successfully',
    });
  });
});
