/** Roles and rules of the 0.16 line (interface 4.2, spec/authorization.md 2.2). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('roles and rules', () => {
  let platform: TestPlatform;
  let admin: Api;
  const check = async (user: TestUser, resource: string, action: string, resourceId = 'any') =>
    expectStatus(
      await user.api.post('/authorization/check', { resource, action, resourceId }),
      200,
      'check',
    ).body.allowed;
  const createRole = async (name: string, permissions: string[]): Promise<Json> =>
    expectStatus(await admin.post('/authorization/roles', { name, permissions }), 200, name).body;
  const createRule = async (rule: object): Promise<Json> =>
    expectStatus(await admin.post('/authorization/rules', rule), 200, 'rule').body;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    admin = platform.admin;
  });
  afterAll(() => platform.close());

  it('there are two roles from the start, which stay', async () => {
    const { body } = await admin.get('/authorization/roles');
    expect(body.roles.map(({ name, permissions }: Json) => [name, permissions])).toEqual([
      ['admin', ['*:*']],
      ['user', []],
    ]);
    expect(body.count).toBe(2);
    for (const { _id } of body.roles) {
      expect((await admin.delete(`/authorization/roles/${_id}`)).status).toBe(400);
      expect((await admin.put(`/authorization/roles/${_id}`, { name: 'other' })).status).toBe(400);
    }
  });

  it('a role is made, changed, given, taken and deleted', async () => {
    const user = await platform.registerUser();
    const role = await createRole('author', ['Posts:create', 'Comments:*']);
    expect(role).toMatchObject({
      name: 'author',
      description: '',
      permissions: ['Posts:create', 'Comments:*'],
    });
    expect((await admin.post('/authorization/roles', { name: 'author' })).status).toBe(409);
    const ofUser = `/authorization/users/${user.userId}/roles`;
    for (let i = 0; i < 2; i += 1)
      expectStatus(await admin.post(ofUser, { role: 'author' }), 200, 'assign');
    expect((await admin.get(ofUser)).body).toMatchObject({ roles: [{ _id: role._id }], count: 1 });
    expect([
      await check(user, 'Posts', 'create'),
      await check(user, 'Comments', 'delete'),
      await check(user, 'Posts', 'delete'),
    ]).toEqual([true, true, false]);
    const changed = await admin.put(`/authorization/roles/${role._id}`, {
      permissions: ['Posts:delete'],
      description: 'Writes',
    });
    expect(changed.body).toMatchObject({
      name: 'author',
      description: 'Writes',
      permissions: ['Posts:delete'],
    });
    expect([await check(user, 'Posts', 'create'), await check(user, 'Posts', 'delete')]).toEqual([
      false,
      true,
    ]);
    expectStatus(await admin.delete(`${ofUser}/${role._id}`), 200, 'revoke');
    expect((await admin.delete(`${ofUser}/${role._id}`)).status).toBe(404);
    expect(await check(user, 'Posts', 'delete')).toBe(false);
    expectStatus(await admin.delete(`/authorization/roles/${role._id}`), 200, 'delete');
    expect((await admin.delete(`/authorization/roles/${role._id}`)).status).toBe(404);
  });

  it('ids in capitals mean the same user and role', async () => {
    const user = await platform.registerUser();
    const role = await createRole('loud', ['Posts:shout']);
    const ofUser = `/authorization/users/${user.userId.toUpperCase()}/roles`;
    expectStatus(await admin.post(ofUser, { role: role._id.toUpperCase() }), 200, 'assign');
    expect(await check(user, 'Posts', 'shout')).toBe(true);
    expect((await admin.get(ofUser)).body.count).toBe(1);
    expectStatus(await admin.delete(`${ofUser}/${role._id.toUpperCase()}`), 200, 'revoke');
    expect(await check(user, 'Posts', 'shout')).toBe(false);
    expectStatus(await admin.post(ofUser, { role: 'loud' }), 200, 'assign');
    expectStatus(
      await admin.delete(`/authorization/roles/${role._id.toUpperCase()}`),
      200,
      'delete',
    );
    expect(
      (await admin.get('/authorization/relations', { query: { resource: `Role:${role._id}` } }))
        .body.count,
    ).toBe(0);
  });

  it('a role is held through a team, by a grant, and not when its definition says otherwise', async () => {
    const [member, granted, outsider] = [
      await platform.registerUser(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    const everyone = async () =>
      Promise.all(
        [member, granted, outsider].map(async (user) => [
          await check(user, 'Shift', 'plan'),
          (await rolesOf(user)).length,
        ]),
      );
    const rolesOf = async ({ userId }: TestUser): Promise<Json[]> =>
      (await admin.get(`/authorization/users/${userId}/roles`)).body.roles;
    const define = async (permissions: object) => {
      const relations = { assignee: ['User', 'Team#member'], suspended: ['User'] };
      expectStatus(
        await admin.patch('/authorization/resources/Role', { relations, permissions }),
        200,
        'define',
      );
    };
    const relate = async (subject: string, relation: string, resource: string) =>
      expectStatus(
        await admin.post('/authorization/relations', { subject, relation, resource }),
        200,
        'relate',
      );
    const role = await createRole('planner', ['Shift:plan']);
    await define({ hold: ['assignee'] });
    await relate(`User:${member.userId}`, 'member', 'Team:night');
    await relate('Team:night#member', 'assignee', `Role:${role._id}`);
    const grant = {
      subject: `User:${granted.userId}`,
      permission: 'hold',
      resource: `Role:${role._id}`,
    };
    expectStatus(await admin.post('/authorization/permissions', grant), 200, 'grant');
    expect(await everyone()).toEqual([
      [true, 1],
      [true, 1],
      [false, 0],
    ]);
    await define({ hold: { exclusion: { base: ['assignee'], subtract: ['suspended'] } } });
    await relate(`User:${member.userId}`, 'suspended', `Role:${role._id}`);
    expect((await everyone())[0]).toEqual([false, 0]);
    expectStatus(await admin.delete(`/authorization/roles/${role._id}`), 200, 'delete');
    expect((await everyone()).flat()).toEqual([false, 0, false, 0, false, 0]);
    await define({ hold: ['assignee'] });
  });

  it('a definition of roles does not lose what roles hang on', async () => {
    const { relations, permissions } = (await admin.get('/authorization/resources/Role')).body;
    for (const [lost, path] of [
      [{ relations: {}, permissions: {} }, 'permissions.hold'],
      [{ relations, permissions: {} }, 'permissions.hold'],
      [
        { relations: { holder: ['User'] }, permissions: { hold: ['holder'] } },
        'relations.assignee',
      ],
    ] as const) {
      const { status, body } = await admin.patch('/authorization/resources/Role', lost);
      expect([status, body.errors?.[0].path]).toEqual([409, path]);
    }
    expect((await admin.get('/authorization/resources/Role')).body).toMatchObject({
      relations,
      permissions,
    });
  });

  it('everything is allowed to an admin', async () => {
    const user = await platform.registerUser();
    expectStatus(
      await admin.post(`/authorization/users/${user.userId}/roles`, { role: 'admin' }),
      200,
      'assign',
    );
    expect(await check(user, 'Anything', 'whatever')).toBe(true);
  });

  it('rules hold where their conditions hold, and nowhere else', async () => {
    const [author, other] = [await platform.registerUser(), await platform.registerUser()];
    await platform.createSchema({
      name: 'Story',
      fields: { author: 'String', stars: 'Number', state: 'String' },
    });
    const story = async (body: object): Promise<string> =>
      (await author.api.post<Json>('/database/Story', body)).body._id;
    const mine = await story({ author: author.userId, stars: 5, state: 'live' });
    const dull = await story({ author: author.userId, stars: 1, state: 'live' });
    const conditions = {
      author: { eq: { caller: '_id' } },
      stars: { gt: 2 },
      state: { in: ['live', 'draft'] },
    };
    const rule = await createRule({ resource: 'Story', action: 'edit', role: 'user', conditions });
    expect(rule).toMatchObject({ resource: 'Story', action: 'edit', role: 'user', conditions });
    expect(await check(author, 'Story', 'edit', mine)).toBe(true);
    expect(await check(other, 'Story', 'edit', mine)).toBe(false);
    expect(await check(author, 'Story', 'edit', dull)).toBe(false);
    expect(await check(author, 'Story', 'edit', randomUUID())).toBe(false);
    const path = `/authorization/rules/${rule._id}`;
    const changed = await admin.put(path, {
      conditions: { 'caller._id': other.userId, state: 'live' },
    });
    expect(changed.body.action).toBe('edit');
    expect([
      await check(author, 'Story', 'edit', mine),
      await check(other, 'Story', 'edit', mine),
    ]).toEqual([false, true]);
    expect((await admin.get('/authorization/rules')).body).toMatchObject({
      rules: [{ _id: rule._id }],
      count: 1,
    });
    expectStatus(await admin.delete(path), 200, 'delete');
    expect(await check(other, 'Story', 'edit', mine)).toBe(false);
    expect((await admin.delete(path)).status).toBe(404);
  });

  it('a relation allows as well', async () => {
    const user = await platform.registerUser();
    const definition = {
      name: 'Room',
      relations: { guest: ['User'] },
      permissions: { enter: ['guest'] },
    };
    expectStatus(await admin.post('/authorization/resources', definition), 200, 'define');
    const relation = { subject: `User:${user.userId}`, relation: 'guest', resource: 'Room:1' };
    expectStatus(await admin.post('/authorization/relations', relation), 200, 'relate');
    expect(await check(user, 'Room', 'enter', '1')).toBe(true);
    expect(await check(user, 'Room', 'enter', '2')).toBe(false);
    expect(await check(user, 'Room', 'paint', '1')).toBe(false);
  });

  it('takes what 0.16 clients send: $ operators, $user, role ids, no resource id', async () => {
    const user = await platform.registerUser();
    await platform.createSchema({ name: 'Memo', fields: { author: 'String', state: 'String' } });
    const { body } = await user.api.post<Json>('/database/Memo', {
      author: user.email,
      state: 'live',
    });
    const rule = {
      resource: 'Memo',
      action: 'edit',
      role: 'user',
      conditions: { author: '$user.email', state: { $nin: ['closed'], $exists: true } },
    };
    await createRule(rule);
    expect((await admin.post('/authorization/rules', rule)).status).toBe(409);
    expect(await check(user, 'Memo', 'edit', body._id)).toBe(true);
    const general = async (action: string) =>
      (await user.api.post('/authorization/check', { resource: 'Memo', action })).body;
    expect(await general('edit')).toEqual({ allowed: false });
    const role = await createRole('memos', ['Memo:list']);
    const ofUser = `/authorization/users/${user.userId}/roles`;
    expect((await admin.post(ofUser, { role: role._id })).body).toEqual({
      message: 'Role assigned successfully',
    });
    expect(await general('list')).toEqual({ allowed: true });
    expectStatus(await admin.delete(`${ofUser}/memos`), 200, 'revoke by name');
    expect(await general('list')).toEqual({ allowed: false });
    expectStatus(await admin.delete(`${ofUser}/user`), 200, 'the role of everybody stays');
    expect(
      (
        await admin.get('/authorization/rules', {
          query: { resource: 'Memo', role: 'user', search: 'ed', sort: '-createdAt' },
        })
      ).body.count,
    ).toBe(1);
    expect(
      (await admin.get('/authorization/roles', { query: { search: 'MEM', limit: 1 } })).body.roles,
    ).toHaveLength(1);
    expect((await admin.get('/authorization/roles', { query: { search: '%' } })).body.count).toBe(
      0,
    );
  });

  it('rules go with their role', async () => {
    const role = await createRole('passing', []);
    const rule = await createRule({ resource: 'X', action: 'y', role: 'passing' });
    expectStatus(await admin.delete(`/authorization/roles/${role._id}`), 200, 'delete');
    expect((await admin.put(`/authorization/rules/${rule._id}`, { action: 'z' })).status).toBe(404);
  });

  it('refuses what makes no sense', async () => {
    const user = await platform.registerUser();
    const rule = { resource: 'X', action: 'y', role: 'user' };
    const answers = await Promise.all([
      admin.post('/authorization/roles', { name: '' }),
      admin.post('/authorization/roles', { name: 'r', permissions: ['everything'] }),
      admin.post('/authorization/rules', { ...rule, conditions: { a: { regex: '.*' } } }),
      admin.post('/authorization/rules', { ...rule, conditions: { 'a b': 1 } }),
      admin.post('/authorization/rules', { ...rule, conditions: { a: [1] } }),
      admin.post('/authorization/rules', { ...rule, resource: 'a b' }),
      admin.post('/authorization/rules', { ...rule, role: 'ghost' }),
      admin.post(`/authorization/users/${randomUUID()}/roles`, { role: 'user' }),
      admin.post(`/authorization/users/${user.userId}/roles`, { role: 'ghost' }),
      user.api.post('/authorization/check', { resource: 'X', action: 'y', resourceId: 'a b' }),
      user.api.post('/authorization/check', { resource: 'X y', action: 'y', resourceId: 'a' }),
      platform.client.post('/authorization/check', { resource: 'X', action: 'y', resourceId: 'a' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([
      400, 400, 400, 400, 400, 400, 400, 404, 404, 400, 400, 401,
    ]);
  });
});
