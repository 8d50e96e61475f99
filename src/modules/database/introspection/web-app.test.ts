// What web frameworks make, and a database of several schemas, served in place: what clients see and change, and that nothing else of them changes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../../../test/support/api.ts';
import {
  expectUntouched,
  type ImportedPlatform,
  startOnSample,
} from '../../../../test/support/imported.ts';

describe('databases of web frameworks', () => {
  let platform: ImportedPlatform;
  let client: Api;
  beforeAll(async () => {
    platform = await startOnSample('web-app');
    client = platform.client;
    await platform.importAll();
  });
  afterAll(() => platform.close());
  const a = '11111111-1111-4111-8111-111111111111';

  it('serves UUID keys and keeps the timestamps of the table', async () => {
    const account = await client.get(`/database/imp_Account/${a.toUpperCase()}`);
    expect(account.body).toMatchObject({
      _id: a,
      id: a,
      balance: '1234567890123456.7891',
      big: '9007199254740993',
      createdAt: expect.any(String),
    });
    const made = await client.post('/database/imp_Account', {
      email: 'c@example.org',
      balance: 2.5,
    });
    expect(made.body).toMatchObject({
      email: 'c@example.org',
      updatedAt: expect.stringMatching(/Z$/),
    });
    const changed = await client.patch(`/database/imp_Account/${made.body._id}`, {
      balance: '9007199254740993.5',
    });
    expect(changed.body).toMatchObject({
      balance: '9007199254740993.5000',
      createdAt: made.body.createdAt,
    });
    expect(Date.parse(changed.body.updatedAt)).toBeGreaterThanOrEqual(
      Date.parse(made.body.updatedAt),
    );
    // A key that the table does not make is made by the platform.
    const token = await client.post('/database/imp_Token', {
      accountId: made.body._id,
      kind: 'session',
      expires: '2 hours',
    });
    expect(token.body).toMatchObject({
      _id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      expires: '02:00:00',
    });
    expect(
      (
        await client.post('/database/imp_Token', {
          accountId: made.body._id,
          kind: 'x',
          expires: 'soon',
        })
      ).status,
    ).toBe(400);
    expect(
      (await client.post('/database/imp_Account', { email: 'c@example.org' })).body,
    ).toMatchObject({
      status: 409,
      errors: [{ path: 'email' }],
    });
    // The cascade of the table, with an event for what it takes along.
    expect((await client.delete(`/database/imp_Account/${made.body._id}`)).status).toBe(200);
    const { rows } = await platform.sample.client.query(
      "select operation from penstock.outbox where schema = 'imp_Token' and ids = array[$1] order by seq",
      [token.body._id],
    );
    expect(rows.map(({ operation }) => operation)).toEqual(['insert', 'delete']);
  });

  it('serves lists, JSON, generated columns and rules', async () => {
    expect((await client.get('/database/imp_articles/1')).body).toMatchObject({
      tags: ['news', 'with, comma'],
      scores: [1, 2],
      extra: { a: 1 },
      words: 3,
      author_id: '1',
    });
    const made = await client.post('/database/imp_articles', {
      title: 'T',
      body: 'a b',
      tags: ['x', 'y"z', ''],
      scores: [3, 4],
      extra: [1, 'two'],
      words: 99,
    });
    expect(made.body).toMatchObject({
      status: 'draft',
      words: 2,
      tags: ['x', 'y"z', ''],
      scores: [3, 4],
      extra: [1, 'two'],
      views: 0,
    });
    const path = `/database/imp_articles/${made.body._id}`;
    expect((await client.patch(path, { status: 'other' })).body.errors).toMatchObject([
      { path: 'status' },
    ]);
    expect((await client.patch(path, { views: -1 })).body.errors).toMatchObject([
      { path: 'views' },
    ]);
    expect((await client.patch(path, { tags: ['q'], extra: null, scores: [] })).body).toMatchObject(
      {
        tags: ['q'],
        extra: null,
        scores: [],
        words: 2,
      },
    );
    const found = await platform.admin.post('/database/schemas/imp_articles/query', {
      query: { tags: 'q', words: { $lt: 3 }, created_at: { $gt: '2020-01-01' } },
    });
    expect(found.body).toMatchObject({ count: 1, documents: [{ title: 'T' }] });
    expect((await client.delete(path)).status).toBe(200);
  });

  it('holds what the database decides only at the end', async () => {
    expect(
      (await client.post('/database/imp_auth_user_groups', { user_id: '1', group_id: '77' }))
        .status,
    ).toBe(400);
    const many = await client.post('/database/imp_auth_user_groups/many', {
      docs: [
        { user_id: '2', group_id: '1' },
        { user_id: '1', group_id: '88' },
      ],
    });
    expect([400, 409]).toContain(many.status);
    expect((await client.get('/database/imp_auth_user_groups')).body.count).toBe(3);
    expect(
      (await client.post('/database/imp_auth_user', { username: 'eva', email: 'x@example.org' }))
        .body.errors,
    ).toMatchObject([{ path: 'username', rule: 'unique' }]);
    expect(
      (await client.post('/database/imp_auth_user', { username: 'new', email: 'EVA@example.org' }))
        .body.errors,
    ).toMatchObject([{ path: 'email', rule: 'unique' }]);
  });

  it('empties and follows links as the tables say, with events', async () => {
    const user = await client.post('/database/imp_auth_user', {
      username: 'gone',
      email: 'gone@example.org',
      settings: { a: [1] },
    });
    const article = await client.post('/database/imp_articles', {
      title: 'Mine',
      author_id: user.body._id,
    });
    const membership = await client.post('/database/imp_auth_user_groups', {
      user_id: user.body._id,
      group_id: '1',
    });
    expect((await client.delete(`/database/imp_auth_user/${user.body._id}`)).status).toBe(200);
    expect(
      (await client.get(`/database/imp_articles/${article.body._id}`)).body.author_id,
    ).toBeNull();
    const { rows } = await platform.sample.client.query(
      "select schema || ':' || operation as event from penstock.outbox where ids && $1 and operation <> 'insert' order by 1",
      [[user.body._id, article.body._id, membership.body._id]],
    );
    expect(rows.map(({ event }) => event)).toEqual([
      'imp_articles:update',
      'imp_auth_user:delete',
      'imp_auth_user_groups:delete',
    ]);
    await client.delete(`/database/imp_articles/${article.body._id}`);
  });

  it('takes texts as ids', async () => {
    for (const id of ['site/title', 'many']) {
      expect(
        (await client.get(`/database/imp_settings/${encodeURIComponent(id)}`)).body,
        id,
      ).toMatchObject({ _id: id });
    }
    const odd = 'a ~ b!0 %/?"\u{1f984}';
    expect((await client.post('/database/imp_settings', { key: odd, value: 'v' })).body._id).toBe(
      odd,
    );
    expect(
      (await client.patch(`/database/imp_settings/${encodeURIComponent(odd)}`, { value: 'w' })).body
        .value,
    ).toBe('w');
    expect((await client.delete(`/database/imp_settings/${encodeURIComponent(odd)}`)).status).toBe(
      200,
    );
  });

  it('gives rows of UUIDs to row authorization, and others not', async () => {
    const { admin } = platform;
    const account = await platform.schemaId('imp_Account');
    const on = { authorization: { enabled: true, mode: 'leaveUnowned' } };
    expect((await admin.patch(`/database/schemas/${account}`, { conduitOptions: on })).status).toBe(
      200,
    );
    expect((await client.get('/database/imp_Account')).status).toBe(401);
    const [eva, kim] = [await platform.registerUser(), await platform.registerUser()];
    // Whoever creates a row is told of it what its owner alone sees.
    const { body: schema } = await admin.get(`/database/schemas/${account}`);
    const balance = { ...schema.fields.balance, access: { read: 'relation:owner' } };
    const fields = { ...schema.fields, balance };
    expect((await admin.patch(`/database/schemas/${account}`, { fields })).status).toBe(200);
    const own = await eva.api.post('/database/imp_Account', {
      email: 'own@example.org',
      balance: 7,
    });
    expect([own.status, own.body.balance]).toEqual([200, 7]);
    expect((await eva.api.get('/database/imp_Account')).body).toMatchObject({
      count: 1,
      documents: [{ _id: own.body._id }],
    });
    expect((await kim.api.get('/database/imp_Account')).body).toMatchObject({
      count: 0,
      documents: [],
    });
    expect((await eva.api.get(`/database/imp_Account/${a}`)).status).toBe(404);
    expect(
      (await eva.api.patch(`/database/imp_Account/${own.body._id}`, { balance: 1 })).status,
    ).toBe(200);
    expect(
      (await kim.api.patch(`/database/imp_Account/${own.body._id}`, { balance: 2 })).status,
    ).toBe(404);
    expect((await eva.api.delete(`/database/imp_Account/${own.body._id}`)).status).toBe(200);
    expect(
      (
        await admin.patch(`/database/schemas/${account}`, {
          fields: schema.fields,
          conduitOptions: { authorization: { enabled: false } },
        })
      ).status,
    ).toBe(200);
    const user = await platform.schemaId('imp_auth_user');
    expect(
      (await admin.patch(`/database/schemas/${user}`, { conduitOptions: on })).body.errors,
    ).toMatchObject([{ path: 'conduitOptions.authorization.enabled' }]);
  });

  it('lets schemas of the platform refer to UUIDs of the tables', async () => {
    await platform.createSchema({
      name: 'Note',
      fields: { text: 'String', account: { type: 'Relation', model: 'imp_Account' } },
    });
    const made = await client.post('/database/Note', { text: 'n', account: a });
    expect(
      (await client.get(`/database/Note/${made.body._id}`, { query: { populate: 'account' } }))
        .body,
    ).toMatchObject({
      account: { email: 'a@example.org' },
    });
    expect(
      (await client.post('/database/Note', { account: '99999999-1111-4111-8111-111111111111' }))
        .body.errors,
    ).toMatchObject([{ path: 'account', rule: 'relation' }]);
  });

  it('has left everything as it was', () => expectUntouched(platform, []));
});

describe('a database of several schemas', () => {
  const schemas = ['person', 'sales', 'production'];
  let platform: ImportedPlatform;
  let client: Api;
  beforeAll(async () => {
    platform = await startOnSample('adventure', { schemas });
    client = platform.client;
    await platform.importAll();
  });
  afterAll(() => platform.close());

  it('keeps tables of the same name apart', async () => {
    const { body } = await platform.admin.get('/database/introspection');
    expect(body.importedSchemas).toEqual(
      expect.arrayContaining(['person.person', 'sales.person', 'sales.vperson']),
    );
    const all: Json[] = (
      await platform.admin.get('/database/schemas', { query: { search: 'person', limit: 100 } })
    ).body.schemas;
    const names = new Map(all.map(({ collectionName, name }) => [collectionName, name]));
    expect([names.get('person.person'), names.get('sales.person')]).toEqual([
      'imp_person',
      'imp_sales_person',
    ]);
    expect(
      (
        await client.get('/database/imp_sales_person/1', {
          query: { populate: 'businessentityid.businessentityid' },
        })
      ).body,
    ).toMatchObject({
      salesquota: 250_000,
      businessentityid: { _id: '1', firstname: 'Ken', businessentityid: { _id: '1' } },
    });
  });

  it('serves domains, money, XML and keys of several columns', async () => {
    expect((await client.get('/database/imp_salesorderheader/1')).body).toMatchObject({
      subtotal: 24.5,
      customerid: '1',
    });
    expect(
      (await client.patch('/database/imp_salesorderheader/1', { subtotal: 30.25 })).body.subtotal,
    ).toBe(30.25);
    await client.patch('/database/imp_salesorderheader/1', { subtotal: 24.5 });
    expect((await client.get('/database/imp_person/1')).body).toMatchObject({
      namestyle: false,
      additionalcontactinfo: '<a/>',
      persontype: 'EM',
    });
    expect(
      (await client.patch('/database/imp_person/1', { additionalcontactinfo: '<a' })).status,
    ).toBe(400);
    expect(
      (await client.patch('/database/imp_person/1', { persontype: 'XX' })).body.errors,
    ).toMatchObject([{ path: 'persontype', rule: 'check' }]);
    expect(
      (await client.patch('/database/imp_person/1', { emailpromotion: 3 })).body.errors,
    ).toMatchObject([{ path: 'emailpromotion' }]);
    // Of a composite foreign key only the columns are served.
    expect((await client.get('/database/imp_refund/1')).body).toMatchObject({
      salesorderid: 1,
      salesorderdetailid: 1,
    });
    expect((await client.delete('/database/imp_salesorderdetail/1~1')).status).toBe(409);
    expect((await client.get('/database/imp_unitmeasure/CM')).body).toMatchObject({
      _id: 'CM',
      name: 'Centimetre',
    });
    expect((await client.get('/database/imp_vperson')).body.documents).toMatchObject([
      { firstname: 'Ken', salesquota: 250_000 },
    ]);
  });

  it('has left it as it was', () => expectUntouched(platform, []));
});
