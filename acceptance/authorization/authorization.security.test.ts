/**
 * What must not be possible with permissions.
 * - https://cwe.mitre.org/data/definitions/639.html (authorization bypass through user-controlled key)
 * - https://cwe.mitre.org/data/definitions/441.html (confused deputy)
 * - https://cwe.mitre.org/data/definitions/863.html (incorrect authorization)
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import {
  liftLimits,
  type PermissionsApi,
  permissionsApi,
  vectorDefinitions,
} from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('permissions cannot be talked round', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let owner: TestUser;
  let stranger: TestUser;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    for (const definition of vectorDefinitions) await permissions.define(definition);
    [owner, stranger] = [await platform.registerUser(), await platform.registerUser()];
    await permissions.relate(
      `User:${owner.userId} owner Doc:1`,
      `User:${owner.userId} owner Team:t`,
      'Team:t owner Doc:2',
    );
    await platform.createSchema({
      name: 'Secret',
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
  });
  afterAll(() => platform.close());

  it('the subject of a question is the caller, whatever they send', async () => {
    const query = {
      action: 'read',
      resource: 'Doc:1',
      subject: `User:${owner.userId}`,
      userId: owner.userId,
    };
    expect((await stranger.api.get('/authorization/check', { query })).body).toEqual({
      allowed: false,
    });
    const body = {
      resource: 'Doc',
      action: 'read',
      resourceId: '1',
      subject: `User:${owner.userId}`,
      userId: owner.userId,
    };
    expect((await stranger.api.post('/authorization/check', body)).body).toEqual({
      allowed: false,
    });
  });

  it('nobody acts for a scope that is not theirs, not even for another user', async () => {
    for (const scope of ['Team:t', `User:${owner.userId}`, 'Doc:1']) {
      const answer = await stranger.api.get('/authorization/check', {
        query: { action: 'read', resource: 'Doc:2', scope },
      });
      expect(answer.status).toBe(403);
    }
    const own = { action: 'read', resource: 'Doc:1', scope: `User:${owner.userId}` };
    expect((await owner.api.get('/authorization/check', { query: own })).body).toEqual({
      allowed: true,
    });
  });

  it('who may only represent an object has its rights on others, not those on itself', async () => {
    await permissions.define({
      name: 'Project',
      relations: { owner: ['User', 'Project'], member: ['User'] },
      permissions: { read: ['owner'], edit: ['owner'], delete: ['owner'], represent: ['member'] },
      actAs: 'represent',
    });
    await platform.createSchema({
      name: 'Project',
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const create = async (query = {}) => {
      const answer = await owner.api.post('/database/Project', { text: 'x' }, { query });
      return expectStatus<{ _id: string }>(answer, 200, 'create').body._id;
    };
    const project = await create();
    await permissions.relate(
      `User:${owner.userId} member Project:${project}`,
      `User:${stranger.userId} member Project:${project}`,
    );
    const query = { scope: `Project:${project}` };
    const child = await create(query);
    const path = (id: string) => `/database/Project/${id}`;
    const statuses = async (id: string) => [
      (await stranger.api.get(path(id), { query })).status,
      (await stranger.api.patch(path(id), { text: 'y' }, { query })).status,
      (await stranger.api.delete(path(id), { query })).status,
    ];
    const check = async (id: string) =>
      (
        await stranger.api.get('/authorization/check', {
          query: { action: 'delete', resource: `Project:${id}`, ...query },
        })
      ).body;
    expect(await check(project)).toEqual({ allowed: false });
    expect(await statuses(project)).toEqual([404, 404, 404]);
    const list = await stranger.api.get('/database/Project', { query });
    expect((list.body as { documents: { _id: string }[] }).documents.map((d) => d._id)).toEqual([
      child,
    ]);
    expect(await check(child)).toEqual({ allowed: true });
    expect(await statuses(child)).toEqual([200, 200, 200]);
    // A relation of the object to itself says that it is meant.
    await permissions.relate(`Project:${project} owner Project:${project}`);
    expect(await check(project)).toEqual({ allowed: true });
    expect(await statuses(project)).toEqual([200, 200, 200]);
  });

  it('a scope in the body or an owner in the record changes nothing', async () => {
    const record = { text: 'x', scope: 'Team:t', owner: `User:${owner.userId}`, _id: randomUUID() };
    const { body } = expectStatus(
      await stranger.api.post('/database/Secret', record),
      200,
      'create',
    );
    const id = (body as { _id: string })._id;
    expect(id).not.toBe(record._id);
    expect(await permissions.can(`User:${stranger.userId} delete Secret:${id}`)).toBe(true);
    expect(await permissions.can(`Team:t read Secret:${id}`)).toBe(false);
  });

  it('a record belongs to no type of scope that its definition does not name', async () => {
    await permissions.relate(`User:${owner.userId} owner Doc:scope`);
    const answer = await owner.api.post(
      '/database/Secret',
      { text: 'x' },
      { query: { scope: 'Doc:scope' } },
    );
    expect([answer.status, (answer.body as { code: string }).code]).toEqual([403, 'SCOPE_REFUSED']);
  });

  it('users do not reach what is for operators', async () => {
    const admin = platform.adminAnonymous.with({ authorization: `Bearer ${owner.accessToken}` });
    const answers = await Promise.all([
      admin.post('/authorization/relations', {
        subject: `User:${owner.userId}`,
        relation: 'owner',
        resource: 'Doc:9',
      }),
      admin.post('/authorization/permissions', {
        subject: `User:${owner.userId}`,
        permission: 'read',
        resource: 'Doc:9',
      }),
      admin.get('/authorization/relations'),
      admin.post('/authorization/resources', { name: 'X', relations: {}, permissions: {} }),
      platform.client.post('/authorization/relations', {}),
      owner.api.get('/authorization/permissions/can'),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 404, 404]);
  });

  it.each([
    '../Doc:1',
    'Doc:1 ',
    ' Doc:1',
    'Doc:1\u0000',
    'Doc::1',
    'Doc:*',
    'Doc:1#owner',
    'doc:1',
    '__proto__:1',
    'Doc:\u202e1',
    `Doc:${'x'.repeat(1_100)}`,
  ])('a hostile reference is refused: %j', async (resource) => {
    const { status, body } = await owner.api.get('/authorization/check', {
      query: { action: 'read', resource },
    });
    expect(status).toBe(400);
    expect((body as { errors: { path: string }[] }).errors[0]?.path).toBe('resource');
  });

  it.each([
    '2030-12-31T23:59:60Z',
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+23:59',
    '9999-12-31T23:59:59-23:59',
    '2030-02-30T00:00:00Z',
    'tomorrow',
  ])('an expiry that is no moment is refused: %s', async (expiresAt) => {
    const relation = { subject: 'User:x', relation: 'owner', resource: 'Doc:1', expiresAt };
    const question = { subject: 'User:x', permission: 'read', resource: 'Doc:1' };
    for (const [path, body, place] of [
      ['/authorization/relations', relation, 'expiresAt'],
      ['/authorization/permissions', { ...question, expiresAt }, 'expiresAt'],
      [
        '/authorization/permissions/can',
        { ...question, contextualTuples: [relation] },
        'contextualTuples.0.expiresAt',
      ],
    ] as const) {
      const answer = await platform.admin.post(path, body);
      expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([400, place]);
    }
  });

  it('a type that nobody knows is refused wherever it is asked about', async () => {
    const query = { action: 'read', resource: 'Nothing:1' };
    expect((await owner.api.get('/authorization/check', { query })).status).toBe(400);
    expect((await owner.api.get('/authorization/role/Nothing:1')).status).toBe(400);
    expect(
      (await owner.api.get('/authorization/check', { query: { ...query, scope: 'Nothing:1' } }))
        .status,
    ).toBe(400);
    expect(
      (await owner.api.get('/authorization/role/Doc:1', { query: { scope: 'Nothing:1' } })).status,
    ).toBe(400);
  });

  it('types that begin alike are apart', async () => {
    await permissions.define({
      name: 'DocX',
      relations: { owner: ['User'] },
      permissions: { read: ['owner'] },
    });
    await platform.admin.post('/authorization/permissions', {
      subject: `User:${stranger.userId}`,
      permission: 'read',
      resource: 'DocX:1',
    });
    expect(await permissions.list(`User:${stranger.userId} read Doc`)).toEqual([]);
    expect(await permissions.can(`User:${stranger.userId} read Doc:1`)).toBe(false);
  });

  it('a right that was deleted with its type does not come back with it', async () => {
    const definition = {
      name: 'Phoenix',
      relations: { owner: ['User'] },
      permissions: { read: ['owner'] },
    };
    await permissions.define(definition);
    await permissions.relate('User:old owner Phoenix:1');
    await platform.admin.post('/authorization/permissions', {
      subject: 'User:old2',
      permission: 'read',
      resource: 'Phoenix:1',
    });
    expectStatus(await platform.admin.delete('/authorization/resources/Phoenix'), 200, 'delete');
    await permissions.define(definition);
    expect(await permissions.who('read Phoenix:1')).toEqual([]);
  });

  it('a right that is written while its relation is taken away does not sleep until it comes back', async () => {
    const relations = { owner: ['User'], guest: ['User'] };
    for (let round = 0; round < 12; round += 1) {
      const name = `Fleeting${round}`;
      const definition = { name, relations, permissions: { read: ['owner', 'guest'] } };
      await permissions.define(definition);
      const write = (user: string) =>
        platform.admin.post('/authorization/relations', {
          subject: `User:${user}`,
          relation: 'guest',
          resource: `${name}:1`,
        });
      const path = `/authorization/resources/${name}`;
      const narrower = { relations: { owner: ['User'] }, permissions: { read: ['owner'] } };
      const take = () =>
        round % 2 === 0
          ? platform.admin.patch(`${path}?force=true`, narrower)
          : platform.admin.delete(path);
      const early = Array.from({ length: 10 }, (_, i) => write(`early${i}`));
      const [taken] = await Promise.all([
        take(),
        ...early,
        ...Array.from({ length: 20 }, (_, i) => write(`late${i}`)),
      ]);
      expectStatus(taken, 200, 'take');
      await permissions.define({ ...definition, version: 9 });
      expect(await permissions.who(`read ${name}:1`)).toEqual([]);
    }
  });
});
