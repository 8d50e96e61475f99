/** GraphQL as a client of the interface meets it: over HTTP, with schemas that an operator has made. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { blocksOf, createGuideRunner } from './guides/code.ts';

const open = { enabled: true };
const users = { enabled: true, authenticated: true };

describe('GraphQL', () => {
  let platform: TestPlatform;
  const ask = async (query: string, variables: object = {}, token?: string): Promise<Json> => {
    const answer = await platform.client.post(
      '/graphql',
      { query, variables },
      token === undefined ? {} : { token },
    );
    return { status: answer.status, ...answer.body };
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    const conduitOptions = {
      cms: {
        enabled: true,
        crudOperations: { create: users, read: open, update: users, delete: users },
      },
    };
    await platform.createSchema({
      name: 'Singer',
      fields: { name: { type: 'String', required: true } },
      conduitOptions,
    });
    const fields = {
      title: { type: 'String', required: true },
      singer: { type: 'Relation', model: 'Singer' },
    } as const;
    await platform.createSchema({ name: 'Song', fields, conduitOptions });
  });
  afterAll(() => platform.close());

  it('runs the program of the guide', async () => {
    await platform.createSchema({ name: 'Post', fields: { title: 'String' } });
    await platform.client.post('/database/Post', { title: 'Hello' });
    const { accessToken } = await platform.registerUser();
    const code = (await blocksOf('graphql')).get('js');
    const given = await createGuideRunner(platform).run(code, { accessToken }, 'data, errors');
    expect(given.errors).toBeUndefined();
    expect(given.data.getDatabasePost.documents).toMatchObject([{ title: 'Hello' }]);
  });

  it('takes a user from registration to a record with its relation', async () => {
    const credentials = 'params: { email: "ella@example.com", password: "Battery-Staple-17" }';
    const registered = await ask(
      `mutation { postAuthenticationLocalNew(${credentials}) { user { email } } }`,
    );
    expect(registered.data).toEqual({
      postAuthenticationLocalNew: { user: { email: 'ella@example.com' } },
    });
    const { accessToken } = (
      await ask(`mutation { postAuthenticationLocal(${credentials}) { accessToken } }`)
    ).data.postAuthenticationLocal;

    const write =
      'mutation($p: postDatabaseSingerRequest!) { postDatabaseSinger(params: $p) { _id } }';
    const refused = await ask(write, { p: { name: 'Ella' } });
    expect(refused).toMatchObject({
      status: 200,
      data: { postDatabaseSinger: null },
      errors: [{ extensions: { code: 401 } }],
    });
    const singer = (await ask(write, { p: { name: 'Ella' } }, accessToken)).data.postDatabaseSinger
      ._id;

    const song =
      'mutation($s: ID) { postDatabaseSong(params: { title: "Misty", singer: $s }) { _id title singer { name } } }';
    expect((await ask(song, { s: singer }, accessToken)).data.postDatabaseSong).toMatchObject({
      title: 'Misty',
      singer: { name: 'Ella' },
    });
    const list = await ask(
      '{ getDatabaseSong(limit: 2, sort: ["-createdAt"]) { count documents { title singer { _id name } } } }',
    );
    expect(list.data.getDatabaseSong).toEqual({
      count: 1,
      documents: [{ title: 'Misty', singer: { _id: singer, name: 'Ella' } }],
    });

    await ask('mutation { postAuthenticationLogout { result } }', {}, accessToken);
    expect(
      (await ask('{ getAuthenticationUser { email } }', {}, accessToken)).errors[0].extensions.code,
    ).toBe(401);
  });

  it('answers a document that is not valid with 400', async () => {
    expect(await ask('{ getDatabaseNothing { count } }')).toMatchObject({
      status: 400,
      errors: [{ extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }],
    });
  });

  it('follows the configuration at once', async () => {
    const introspection = '{ __schema { queryType { name } } }';
    const configure = (graphql: object) => platform.admin.patch('/config/router', { graphql });
    expect((await ask(introspection)).data.__schema.queryType.name).toBe('Query');
    await configure({ introspection: false });
    expect((await ask(introspection)).status).toBe(400);
    await configure({ introspection: 'auto' });
    await platform.admin.patch('/config/core', { env: 'production' });
    expect((await ask(introspection)).status).toBe(400);
    expect(
      (await platform.client.get('/graphql', { headers: { accept: 'text/html' } })).status,
    ).toBe(400);
    const twice = '{ a: getDatabaseSong { count } b: getDatabaseSong { count } }';
    expect((await ask(twice)).errors).toBeUndefined();
    await configure({ maxRootFields: 1 });
    expect((await ask(twice)).errors[0].extensions.code).toBe('GRAPHQL_LIMIT_EXCEEDED');
    await configure({ maxRootFields: 20, maxDepth: 2 });
    expect(
      (await ask('{ getDatabaseSong { documents { title } } }')).errors[0].extensions.code,
    ).toBe('GRAPHQL_LIMIT_EXCEEDED');
    await configure({ enabled: false });
    expect((await ask('{ __typename }')).status).toBe(404);
  });
});
