/** GraphQL over a whole platform: what comes back, and what the database is asked. */
import { buildClientSchema, getIntrospectionQuery } from 'graphql';
import * as graphql15 from 'graphql15';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../../test/support/api.ts';
import type { TestUser } from '../../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

const on = { enabled: true };
const open = {
  cms: { enabled: true, crudOperations: { create: on, read: on, update: on, delete: on } },
};
const signedIn = { enabled: true, authenticated: true };

let platform: TestPlatform;
let user: TestUser;
let ada: Json;
let bob: Json;
let post: Json;

/** Sends a document; answers the body. */
async function ask(
  query: string,
  variables: object = {},
  api: Api = platform.client,
): Promise<Json> {
  const answer = await api.post('/graphql', { query, variables });
  return { ...answer.body, status: answer.status, headers: answer.headers };
}

beforeAll(async () => {
  platform = await createTestPlatform();
  await platform.createSchema({ name: 'Firm', fields: { title: 'String' }, conduitOptions: open });
  await platform.createSchema({
    name: 'Author',
    fields: {
      name: { type: 'String', required: true, unique: true },
      born: 'Date',
      firm: { type: 'Relation', model: 'Firm' },
    },
    conduitOptions: open,
  });
  await platform.createSchema({
    name: 'Secret',
    fields: { text: 'String' },
    conduitOptions: {
      cms: { enabled: true, crudOperations: { create: signedIn, read: signedIn } },
    },
  });
  await platform.createSchema({
    name: 'Post',
    fields: {
      title: { type: 'String', required: true },
      tags: ['String'],
      rank: 'Number',
      place: { city: 'String' },
      extra: 'JSON',
      author: { type: 'Relation', model: 'Author' },
      editors: [{ type: 'Relation', model: 'Author' }],
      secret: { type: 'Relation', model: 'Secret' },
      owner: { type: 'Relation', model: 'User' },
    },
    conduitOptions: open,
  });
  user = await platform.registerUser();
  const firm = (await platform.client.post('/database/Firm', { title: 'Analytical' })).body;
  ada = (
    await platform.client.post('/database/Author', {
      name: 'Ada',
      born: '1815-12-10',
      firm: firm._id,
    })
  ).body;
  bob = (await platform.client.post('/database/Author', { name: 'Bob' })).body;
  const secret = (await user.api.post('/database/Secret', { text: 'hidden' })).body;
  const body = {
    title: 'One',
    tags: ['a', 'b'],
    rank: 1.5,
    place: { city: 'Rome' },
    extra: [1, { b: null }],
  };
  post = (
    await platform.client.post('/database/Post', {
      ...body,
      author: ada._id,
      editors: [bob._id, ada._id],
      secret: secret._id,
    })
  ).body;
  await platform.client.post('/database/Post', { title: 'Two' });
});
afterAll(() => platform.close());

describe('reading', () => {
  it('lists records with the fields that are selected', async () => {
    const { data, errors } = await ask(
      '{ getDatabasePost(limit: 1, sort: "title") { count documents { _id title tags rank place { city } extra __typename } } }',
    );
    expect(errors).toBeUndefined();
    const document = {
      _id: post._id,
      title: 'One',
      tags: ['a', 'b'],
      rank: 1.5,
      place: { city: 'Rome' },
      extra: [1, { b: null }],
      __typename: 'Post',
    };
    expect(data.getDatabasePost).toEqual({ count: 2, documents: [document] });
  });

  it('reads one record, with its version', async () => {
    const { data } = await ask(
      'query($id: ID!) { getDatabasePostId(id: $id) { title _v createdAt } }',
      { id: post._id },
    );
    expect(data.getDatabasePostId).toEqual({ title: 'One', _v: 0, createdAt: post.createdAt });
  });

  it('takes variables of the usual types where its own scalars stand', async () => {
    const { data } = await ask(
      'query($limit: Int = 5, $skip: Int!, $sort: [String!]) { getDatabasePost(limit: $limit, skip: $skip, sort: $sort) { documents { title } } }',
      { skip: 1, sort: ['title'] },
    );
    expect(data.getDatabasePost.documents).toEqual([{ title: 'Two' }]);
  });

  it('takes variables that are declared without "!", as documents for servers that mark nothing as required have them', async () => {
    const sorted =
      'query($id: String, $sort: [String]) { getDatabasePostId(id: $id) { title } getDatabasePost(sort: $sort) { count } }';
    const { data } = await ask(sorted, { id: post._id, sort: ['title'] });
    expect([data.getDatabasePostId.title, data.getDatabasePost.count]).toEqual(['One', 2]);
    const made =
      'mutation($body: postDatabasePostRequest) { postDatabasePost(params: $body) { title } }';
    const titled =
      'mutation($title: String) { postDatabasePost(params: { title: $title }) { title } }';
    const missing: readonly (readonly [string, object])[] = [
      [sorted, {}],
      [sorted, { id: null }],
      [sorted, { id: post._id, sort: [null] }],
      [made, {}],
      [titled, { title: null }],
      // A default does not stand in for null.
      ['query($id: String = "x") { getDatabasePostId(id: $id) { title } }', { id: null }],
      ['query($id: String = null) { getDatabasePostId(id: $id) { title } }', {}],
    ];
    for (const [query, variables] of missing) {
      for (let i = 0; i < 6; i++) {
        const refused = await platform.client.post('/graphql', { query, variables });
        expect([refused.status, refused.body.errors[0].extensions.code], query).toEqual([
          400,
          'BAD_USER_INPUT',
        ]);
        expect(refused.body.errors[0].message).toMatch(/^Variable "\$(?:id|sort|body|title)"/);
      }
    }
  });

  it('answers the same when a document comes again and again', async () => {
    const query =
      'query Often($n: Number) { first: getDatabasePost(limit: $n, sort: ["title"]) { documents { t: title author { name } editors { name } } } }';
    const answers = [];
    for (let i = 0; i < 8; i++) answers.push((await ask(query, { n: 1 })).data);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toEqual({
      first: {
        documents: [
          { t: 'One', author: { name: 'Ada' }, editors: [{ name: 'Bob' }, { name: 'Ada' }] },
        ],
      },
    });
  });

  it('lets fragments, aliases and directives decide what is answered', async () => {
    const query = `query($no: Boolean!) { a: getDatabasePost(sort: ["title"]) { ...Page } b: getDatabasePost(skip: 1, sort: ["title"]) { documents { title author @skip(if: $no) { name } } } }
      fragment Page on getDatabasePostResponse { documents { ...on Post { title author { ...Name } } } } fragment Name on Author { name }`;
    for (let i = 0; i < 6; i++) {
      const { data } = await ask(query, { no: i % 2 === 0 });
      expect(data.a.documents).toEqual([
        { title: 'One', author: { name: 'Ada' } },
        { title: 'Two', author: null },
      ]);
      expect(data.b.documents).toEqual([
        i % 2 === 0 ? { title: 'Two' } : { title: 'Two', author: null },
      ]);
    }
  });
});

describe('relations', () => {
  it('are populated as deep as they are selected', async () => {
    const { data, errors } = await ask(
      'query($id: String!) { getDatabasePostId(id: $id) { author { name firm { title } } editors { name } } }',
      { id: post._id },
    );
    expect(errors).toBeUndefined();
    expect(data.getDatabasePostId).toEqual({
      author: { name: 'Ada', firm: { title: 'Analytical' } },
      editors: [{ name: 'Bob' }, { name: 'Ada' }],
    });
  });

  it('give their id without a look at the record', async () => {
    const { data, errors } = await ask(
      'query($id: String!) { getDatabasePostId(id: $id) { author { _id } editors { _id __typename } secret { _id } } }',
      { id: post._id },
    );
    expect(errors).toBeUndefined();
    expect(data.getDatabasePostId).toEqual({
      author: { _id: ada._id },
      editors: [
        { _id: bob._id, __typename: 'Author' },
        { _id: ada._id, __typename: 'Author' },
      ],
      secret: { _id: post.secret },
    });
  });

  it('are refused where the caller may not read the target', async () => {
    const query = 'query($id: String!) { getDatabasePostId(id: $id) { title secret { text } } }';
    const { data, errors, status } = await ask(query, { id: post._id });
    expect({ data, status }).toEqual({ data: { getDatabasePostId: null }, status: 200 });
    expect(errors[0]).toMatchObject({
      path: ['getDatabasePostId'],
      extensions: { code: 403, conduitCode: 'POPULATE_FORBIDDEN' },
    });
    expect((await ask(query, { id: post._id }, user.api)).data.getDatabasePostId).toEqual({
      title: 'One',
      secret: { text: 'hidden' },
    });
  });

  it('stay ids where no list shows the target', async () => {
    const { errors } = await ask('{ getDatabasePost { documents { owner { email } } } }');
    expect(errors[0].extensions.code).toBe('GRAPHQL_VALIDATION_FAILED');
    expect((await ask('{ getDatabasePost { documents { owner } } }')).errors).toBeUndefined();
  });

  it('come back from mutations too', async () => {
    const query =
      'mutation($p: postDatabasePostRequest!) { postDatabasePost(params: $p) { _id title author { name } } }';
    const { data } = await ask(query, { p: { title: 'Made', author: ada._id } });
    expect(data.postDatabasePost).toMatchObject({ title: 'Made', author: { name: 'Ada' } });
    await platform.client.delete(`/database/Post/${data.postDatabasePost._id}`);
  });
});

describe('writing', () => {
  it('creates, changes and deletes', async () => {
    const made = (
      await ask(
        'mutation { postDatabasePost(params: { title: "New", extra: { a: [1, null] }, tags: [] }) { _id title extra tags } }',
      )
    ).data.postDatabasePost;
    expect(made).toMatchObject({ title: 'New', extra: { a: [1, null] }, tags: [] });
    const changed = await ask(
      'mutation($id: String!) { patchDatabasePostId(id: $id, params: { title: "B" }, ifMatch: "\\"0\\"") { title _v } }',
      { id: made._id },
    );
    expect(changed.data.patchDatabasePostId).toEqual({ title: 'B', _v: 1 });
    const cleared = await ask(
      'mutation($id: String!) { patchDatabasePostId(id: $id, params: { extra: null }) { title extra } }',
      {
        id: made._id,
      },
    );
    expect(cleared.data.patchDatabasePostId).toEqual({ title: 'B', extra: null });
    const late = await ask(
      'mutation($id: String!) { patchDatabasePostId(id: $id, params: { title: "C" }, ifMatch: "\\"0\\"") { title } }',
      { id: made._id },
    );
    expect(late.errors[0].extensions).toMatchObject({
      code: 412,
      conduitCode: 'PRECONDITION_FAILED',
    });
    const gone = await ask('mutation($id: String!) { deleteDatabasePostId(id: $id) { result } }', {
      id: made._id,
    });
    expect(gone.data.deleteDatabasePostId).toEqual({ result: 'Ok' });
  });

  it('puts variables into JSON literals, also when the document comes often', async () => {
    for (let i = 0; i < 6; i++) {
      const { data } = await ask(
        'mutation($x: JSONObject) { postDatabasePost(params: { title: "J", extra: { deep: [$x] } }) { _id extra } }',
        { x: i },
      );
      expect(data.postDatabasePost.extra).toEqual({ deep: [i] });
      await platform.client.delete(`/database/Post/${data.postDatabasePost._id}`);
    }
  });

  it('does one mutation after the other', async () => {
    const query =
      'mutation { a: postDatabaseAuthor(params: { name: "Twin" }) { name } b: postDatabaseAuthor(params: { name: "Twin" }) { name } }';
    const { data, errors } = await ask(query);
    expect(data).toEqual({ a: { name: 'Twin' }, b: null });
    expect(errors[0]).toMatchObject({
      path: ['b'],
      extensions: { code: 409, conduitCode: 'RECORD_NOT_UNIQUE' },
    });
  });

  it.each([
    ['1', 'A'],
    // As long as one may be.
    ['1'.repeat(250), 'E'],
  ])('honours an Idempotency-Key for each field (once-%s)', async (key, title) => {
    const api = platform.client.with({ 'idempotency-key': `once-${key}` });
    const query = `mutation { a: postDatabaseFirm(params: { title: "${title}" }) { _id } b: postDatabaseFirm(params: { title: "${title}B" }) { _id } }`;
    const first = await api.post('/graphql', { query });
    const second = await api.post('/graphql', { query });
    expect(second.body).toEqual(first.body);
    expect(first.body.data.a._id).not.toBe(first.body.data.b._id);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
  });

  it('acts as nobody any more once a field before has signed out', async () => {
    const signsOut = 'postAuthenticationLogout { result }';
    const reads = { query: '{ getAuthenticationUser { _id } }' };
    const { api } = await platform.registerUser();
    const fields = `mutation { ${signsOut} after: deleteAuthenticationSessions { result } }`;
    expect((await api.post('/graphql', { query: fields })).body).toMatchObject({
      data: { postAuthenticationLogout: { result: 'LoggedOut' } },
      errors: [{ path: ['after'], extensions: { code: 401 } }],
    });
    const { api: again } = await platform.registerUser();
    const list = [reads, { query: `mutation { ${signsOut} }` }, reads];
    expect((await again.post('/graphql', list)).body).toMatchObject([
      { data: { getAuthenticationUser: { _id: expect.any(String) } } },
      { data: { postAuthenticationLogout: { result: 'LoggedOut' } } },
      { errors: [{ extensions: { code: 401 } }] },
    ]);
  });

  it('honours it for each operation of a list', async () => {
    const api = platform.client.with({ 'idempotency-key': 'once-2' });
    const query =
      'mutation M($t: String!) { postDatabaseFirm(params: { title: $t }) { _id title } }';
    const list = ['C', 'D'].map((t) => ({ query, variables: { t } }));
    const first = await api.post('/graphql', list);
    expect(first.body).toMatchObject(
      ['C', 'D'].map((title) => ({ data: { postDatabaseFirm: { title } } })),
    );
    expect((await api.post('/graphql', list)).body).toEqual(first.body);
  });
});

describe('errors', () => {
  it('carry the status and the stable code of the operation', async () => {
    const { data, errors, status } = await ask('{ getAuthenticationUser { email } }');
    expect({ data, status }).toEqual({ data: { getAuthenticationUser: null }, status: 200 });
    expect(errors[0].extensions).toMatchObject({
      code: 401,
      status: 401,
      conduitCode: 'UNAUTHORIZED',
      name: 'UNAUTHORIZED',
      requestId: expect.any(String),
    });
    expect(
      (await ask('{ getAuthenticationUser { email } }', {}, user.api)).data.getAuthenticationUser
        .email,
    ).toBe(user.email);
  });

  it('name the place of what is wrong with the input', async () => {
    const { errors } = await ask(
      'mutation { postAuthenticationLocal(params: { email: "", password: "x" }) { accessToken } }',
    );
    expect(errors[0].extensions).toMatchObject({
      code: 400,
      errors: [{ path: 'email', rule: 'minLength' }],
    });
  });

  it('stand beside the data of other fields', async () => {
    const { data, errors } = await ask(
      '{ ok: getDatabasePost { count } bad: getDatabasePostId(id: "none") { title } }',
    );
    expect(data).toEqual({ ok: { count: 2 }, bad: null });
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatchObject({ path: ['bad'], extensions: { code: 404 } });
  });

  it('are about the credential only where one is needed', async () => {
    const api = platform.client.with({ authorization: 'Basic nonsense' });
    const { data, errors } = await ask(
      '{ getAuthenticationUser { email } getDatabasePost { count } }',
      {},
      api,
    );
    expect(data).toEqual({ getAuthenticationUser: null, getDatabasePost: null });
    expect(errors.map(({ extensions }: Json) => extensions.code)).toEqual([401, 401]);
    expect(
      (
        await ask(
          'mutation { postAuthenticationLocal(params: { email: "nobody@example.com", password: "x" }) { accessToken } }',
          {},
          api,
        )
      ).errors[0].message,
    ).not.toContain('header');
  });

  it('let a refresh token do what it is for', async () => {
    const { refreshToken } = await platform.login(user.email, user.password);
    const api = platform.client.with({ authorization: `Bearer ${refreshToken}` });
    expect(
      (await ask('mutation { postAuthenticationRenew { accessToken } }', {}, api)).data
        .postAuthenticationRenew.accessToken,
    ).toEqual(expect.any(String));
  });
});

describe('the schema', () => {
  it('can be read by clients of graphql 15 and 16', async () => {
    const query = getIntrospectionQuery();
    const { data } = await ask(query);
    expect(buildClientSchema(data).getType('Post')).toBeDefined();
    expect(
      graphql15
        .buildClientSchema((await ask(graphql15.getIntrospectionQuery())).data)
        .getType('Post'),
    ).toBeDefined();
    expect(graphql15.buildClientSchema(data).getQueryType()?.getFields()).toHaveProperty(
      'getDatabasePostId',
    );
  });

  it('has what was made when the admin call has returned, and not what was taken away', async () => {
    expect((await ask('{ getDatabaseFresh { count } }')).errors[0].extensions.code).toBe(
      'GRAPHQL_VALIDATION_FAILED',
    );
    const { _id } = await platform.createSchema({
      name: 'Fresh',
      fields: { a: 'String' },
      conduitOptions: open,
    });
    expect((await ask('{ getDatabaseFresh { count documents { a } } }')).data).toEqual({
      getDatabaseFresh: { count: 0, documents: [] },
    });
    await platform.admin.put(`/database/schemas/${_id}`, { fields: { a: 'String', b: 'Number' } });
    expect((await ask('{ getDatabaseFresh { count documents { a b } } }')).errors).toBeUndefined();
    await platform.admin.delete(`/database/schemas/${_id}`, { query: { deleteData: true } });
    expect((await ask('{ getDatabaseFresh { count } }')).errors[0].extensions.code).toBe(
      'GRAPHQL_VALIDATION_FAILED',
    );
  });

  it('serves changes while queries run', async () => {
    const errors: Json[] = [];
    let going = true;
    const reader = (async () => {
      while (going)
        errors.push(
          ...((await ask('{ getDatabasePost { count documents { author { name } } } }')).errors ??
            []),
        );
    })();
    for (let i = 0; i < 5; i++) {
      await platform.createSchema({
        name: `Swap${i}`,
        fields: { a: 'String' },
        conduitOptions: open,
      });
      expect((await ask(`{ getDatabaseSwap${i} { count } }`)).data).toEqual({
        [`getDatabaseSwap${i}`]: { count: 0 },
      });
    }
    going = false;
    await reader;
    expect(errors).toEqual([]);
  });
});
