/** Rows that everybody sees, visitors without a token too: the subject `*` (docs/guides/permissions.md). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('public rows', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let [ada, bob]: TestUser[] = [];
  const pages: Json[] = [];

  const open = { enabled: true, authenticated: false };
  const closed = { enabled: true, authenticated: true };
  const crudOperations = { create: closed, read: open, update: closed, delete: closed };
  const options = {
    authorization: { enabled: true },
    cms: { enabled: true, crudOperations },
  } as const;
  const permissionsOf = { read: ['viewer', 'owner'], edit: ['owner'], delete: ['owner'] };
  const user = (who: TestUser | undefined): TestUser =>
    who ?? expect.unreachable('a user is missing');
  const idsOf = async (api: TestUser['api'], path = '/database/Page'): Promise<string[]> => {
    const { body } = expectStatus(await api.get(path), 200, path);
    expect(body.count).toBe(body.documents.length);
    return body.documents.map(({ _id }: Json) => _id);
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
    for (const name of ['Page', 'Private', 'Guarded'])
      await platform.createSchema({
        name,
        fields: { title: 'String' },
        conduitOptions:
          name === 'Guarded'
            ? {
                ...options,
                cms: { enabled: true, crudOperations: { ...crudOperations, read: closed } },
              }
            : options,
      });
    const viewers = { owner: ['User'], viewer: ['User', '*'] };
    for (const name of ['Page', 'Guarded'])
      await permissions.define({
        name,
        version: 1,
        relations: viewers,
        permissions: permissionsOf,
      });
    for (const title of ['one', 'two', 'three'])
      pages.push(
        expectStatus(await user(ada).api.post('/database/Page', { title }), 200, title).body,
      );
  });
  afterAll(() => platform.close());

  it('are exactly what visitors see, and what everybody else sees too', async () => {
    const [one, two] = pages;
    expect(await idsOf(platform.client)).toEqual([]);
    const [tuple] = await permissions.relate(`* viewer Page:${one?._id}`);
    expect(tuple).toMatchObject({ subject: '*', computedTuple: `*#viewer@Page:${one?._id}` });
    await permissions.relate(`User:${bob?.userId} viewer Page:${two?._id}`);
    await permissions.relate(`User:* viewer Page:${two?._id}`);
    expect(await idsOf(platform.client)).toEqual([one?._id]);
    expect(await idsOf(platform.client, '/database/Page?sort=-createdAt&limit=2')).toEqual([
      one?._id,
    ]);
    expect((await idsOf(user(bob).api)).sort()).toEqual([one?._id, two?._id].sort());
    expect((await platform.client.get(`/database/Page/${one?._id}`)).status).toBe(200);
    expect((await platform.client.get(`/database/Page/${two?._id}`)).status).toBe(404);
    const graphql = await platform.client.post('/graphql', {
      query: '{ getDatabasePage { count documents { title } } }',
    });
    expect(graphql.body).toEqual({
      data: { getDatabasePage: { count: 1, documents: [{ title: 'one' }] } },
    });
    expect(await permissions.can(`* read Page:${one?._id}`)).toBe(true);
    expect(await permissions.can(`* read Page:${two?._id}`)).toBe(false);
    expect(await permissions.can(`User:${bob?.userId} read Page:${one?._id}`)).toBe(true);
    expect(await permissions.can(`User:${bob?.userId} edit Page:${one?._id}`)).toBe(false);
    expect(await permissions.who(`read Page:${one?._id}`)).toContain('User:*');
    await permissions.unrelate(`* viewer Page:${one?._id}`);
    expect(await idsOf(platform.client)).toEqual([]);
    expect(await idsOf(user(bob).api)).toEqual([two?._id]);
  });

  it('need a relation that takes everybody, and a schema that is read without a login', async () => {
    expect((await platform.client.get('/database/Private')).status).toBe(401);
    expect((await platform.client.get('/database/Guarded')).status).toBe(401);
    // Who reads the schema is told that it is open to nobody.
    const { schemas } = (await platform.admin.get('/database/schemas?limit=100')).body;
    const told = async (schema: string): Promise<string> => {
      const { _id } = schemas.find(({ name }: Json) => name === schema);
      return (await platform.admin.get(`/database/schemas/${_id}`)).body.warnings.join();
    };
    expect(await told('Private')).toContain('visitors get 401');
    expect(await told('Page')).not.toContain('visitors');
    const write = (body: object) => platform.admin.post('/authorization/relations', body);
    const closedOne = await write({ subject: '*', relation: 'owner', resource: 'Page:x' });
    expect([closedOne.status, closedOne.body.errors[0].path]).toEqual([400, 'subject']);
    const grant = await platform.admin.post('/authorization/permissions', {
      subject: '*',
      permission: 'read',
      resource: 'Page:x',
    });
    expect(grant.status).toBe(400);
    for (const method of ['patch', 'delete'] as const) {
      const { status } = await platform.client[method](`/database/Page/${pages[0]?._id}`, {});
      expect(status).toBe(401);
    }
    expect((await platform.client.post('/database/Page', { title: 'x' })).status).toBe(401);
    expect((await platform.client.get('/database/Page?scope=User:x')).status).toBe(401);
  });

  it('are not hidden from visitors by what is said of somebody', async () => {
    await platform.createSchema({
      name: 'Story',
      fields: { title: 'String', hiddenFrom: [{ type: 'Relation', model: 'User' }] },
      conduitOptions: options,
    });
    const except = [
      { rule: 'caller.id in record.hiddenFrom' },
      { rule: "'guest' in caller.roles && caller.teams == []" },
    ];
    await permissions.define({
      name: 'Story',
      version: 1,
      relations: { owner: ['User'] },
      permissions: {
        read: { exclusion: { base: ['*'], subtract: except } },
        open: [{ rule: '!(caller.id in record.hiddenFrom)' }],
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    const path = '/database/schemas/Story/docs';
    const inputDocument = { title: 'for most', hiddenFrom: [user(bob).userId] };
    const { _id } = expectStatus(
      await platform.admin.post(path, { inputDocument }),
      200,
      'story',
    ).body;
    expect(await idsOf(platform.client, '/database/Story')).toEqual([_id]);
    expect(await idsOf(platform.client, '/database/Story?sort=-title')).toEqual([_id]);
    expect((await platform.client.get(`/database/Story/${_id}`)).status).toBe(200);
    expect(await idsOf(user(ada).api, '/database/Story')).toEqual([_id]);
    expect(await idsOf(user(bob).api, '/database/Story')).toEqual([]);
    expect(await permissions.can(`* read Story:${_id}`)).toBe(true);
    expect(await permissions.list('* read Story')).toEqual([`Story:${_id}`]);
    // A visitor has no id, so that nothing is true of it: neither that it is there, nor that it is not.
    expect(await permissions.can(`* open Story:${_id}`)).toBe(false);
    expect(await permissions.can(`User:${user(ada).userId} open Story:${_id}`)).toBe(true);
  });
});
