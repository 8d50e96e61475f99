/** The acceptance vectors of spec/authorization.md 5.9, by their numbers, through HTTP. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import {
  liftLimits,
  type PermissionsApi,
  permissionsApi,
  vectorDefinitions,
} from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

/** All orders of a list. */
const orders = <T>(items: readonly T[]): T[][] =>
  items.length <= 1
    ? [[...items]]
    : items.flatMap((item, i) => orders(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));

describe('the acceptance vectors', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  const chain = ['User:a owner Team:p', 'Team:p owner Team:c', 'Team:c owner Doc:1'] as const;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    for (const definition of vectorDefinitions) await permissions.define(definition);
  });
  afterAll(() => platform.close());
  beforeEach(async () => {
    for (const type of ['Doc', 'Folder', 'Team']) {
      for (const side of ['resourceType', 'subjectType'])
        await platform.admin.delete('/authorization/relations', { query: { [side]: type } });
    }
  });

  it('1-3: plain relations, deny by default, undeclared actions', async () => {
    await permissions.relate('User:a owner Doc:1');
    expect(await permissions.can('User:a delete Doc:1')).toBe(true);
    expect(await permissions.can('User:b read Doc:1')).toBe(false);
    const refused = await permissions.ask('User:a publish Doc:1');
    expect(refused.status).toBe(400);
    expect(refused.body.message).toContain('publish');
  });

  it('4-5: what everybody and what nobody may', async () => {
    expect(await permissions.can('User:z open Doc:9')).toBe(true);
    expect(await permissions.can('User:z none Doc:9')).toBe(false);
  });

  it('6-8: a team that owns', async () => {
    await permissions.relate('User:a owner Team:t', 'Team:t owner Doc:1');
    expect(await permissions.can('User:a read Doc:1')).toBe(true);
    expect(await permissions.can('User:a delete Doc:1')).toBe(false);
    expect(await permissions.can('Team:t delete Doc:1')).toBe(true);
  });

  it('9-10: what members and readers of a team get', async () => {
    await permissions.relate('User:m member Team:t', 'User:r readAll Team:t', 'Team:t owner Doc:1');
    expect(await permissions.can('User:m read Doc:1')).toBe(false);
    expect(await permissions.can('User:r read Doc:1')).toBe(true);
    expect(await permissions.can('User:r edit Doc:1')).toBe(false);
  });

  it.each(orders(chain).map((order) => [order]))(
    '11-12: %j gives access, and taking the last link away ends it at once',
    async (order) => {
      await permissions.relate(...order);
      expect(await permissions.can('User:a read Doc:1')).toBe(true);
      await permissions.unrelate('Team:c owner Doc:1');
      expect(await permissions.can('User:a read Doc:1')).toBe(false);
    },
  );

  it('13: taking a link in the middle away ends it at once', async () => {
    await permissions.relate(...chain);
    expect(await permissions.can('User:a read Doc:1')).toBe(true);
    await permissions.unrelate('Team:p owner Team:c');
    expect(await permissions.can('User:a read Doc:1')).toBe(false);
  });

  it('14-15: cycles end, and do not hide a real path', async () => {
    await permissions.relate(
      'Folder:a parent Folder:b',
      'Folder:b parent Folder:a',
      'User:u owner Folder:a',
    );
    expect(await permissions.can('User:x read Folder:b')).toBe(false);
    expect(await permissions.can('User:u read Folder:b')).toBe(true);
  });

  it('16: a chain of any length is followed to its end', async () => {
    const links = Array.from({ length: 99 }, (_, i) => `Folder:f${i} parent Folder:f${i + 1}`);
    await permissions.relate('User:u owner Folder:f0', ...links);
    for (const id of ['f20', 'f29', 'f99']) {
      expect(await permissions.can(`User:u read Folder:${id}`)).toBe(true);
      expect(await permissions.can(`User:x read Folder:${id}`)).toBe(false);
    }
  });

  it.each([
    ['User:a#', 'owner', 'Doc:1'],
    ['User:', 'owner', 'Doc:1'],
    ['User:a', 'owner', 'Doc:1:2'],
    ['User:a', 'can_read', 'Doc:1'],
    ['User:a', 'reader', 'Doc:1'],
    ['Team:t', 'viewer', 'Folder:a'],
    ['Folder:x', 'owner', 'Doc:1'],
    ['Doc:1', 'owner', 'Doc:1'],
    ['Team:t#member', 'owner', 'Doc:1'],
    ['Ghost:1', 'owner', 'Doc:1'],
    ['User:a', 'owner', 'Ghost:1'],
    ['User:a', 'can:read', 'Doc:1'],
  ])('17-19: refuses %s %s %s, with the place', async (subject, relation, resource) => {
    const { status, body } = await platform.admin.post('/authorization/relations', {
      subject,
      relation,
      resource,
    });
    expect(status).toBe(400);
    expect(['subject', 'relation', 'resource']).toContain(body.errors[0].path);
  });

  it('20: writing the same twice is one relation', async () => {
    const [first, second] = await permissions.relate('User:a owner Doc:1', 'User:a owner Doc:1');
    expect(second).toEqual(first);
    expect(first).toMatchObject({
      subject: 'User:a',
      subjectId: 'a',
      subjectType: 'User',
      relation: 'owner',
      resource: 'Doc:1',
      resourceId: '1',
      resourceType: 'Doc',
      computedTuple: 'User:a#owner@Doc:1',
    });
  });

  it('21: a bulk write counts what is there as written', async () => {
    await permissions.relate('User:a owner Doc:3', 'User:a owner Doc:50', 'User:a owner Doc:99');
    const resources = Array.from({ length: 100 }, (_, i) => `Doc:${i}`);
    const answer = await platform.admin.post('/authorization/relations/many', {
      subject: 'User:a',
      relation: 'owner',
      resources,
    });
    expect(
      expectStatus(answer, 200, 'many').body.map(({ resource }: { resource: string }) => resource),
    ).toEqual(resources);
    const { body } = await platform.admin.get('/authorization/relations', {
      query: { subject: 'User:a', resourceType: 'Doc' },
    });
    expect(body.count).toBe(100);
  });

  it('22: lists one type exactly', async () => {
    await permissions.define({
      name: 'Docs',
      relations: { owner: ['User'] },
      permissions: { read: ['owner'] },
    });
    await permissions.relate('User:a owner Doc:1', 'User:a owner Doc:10', 'User:a owner Docs:1');
    expect((await permissions.list('User:a read Doc')).sort()).toEqual(['Doc:1', 'Doc:10']);
  });

  it('23: pages stay whole while rights are revoked', async () => {
    const ids = Array.from({ length: 1000 }, (_, i) => `Doc:d${i}`);
    await platform.admin.post('/authorization/relations/many', {
      subject: 'User:a',
      relation: 'owner',
      resources: ids,
    });
    const query = { subject: 'User:a', permission: 'read', resourceType: 'Doc', limit: 50 };
    const seen: string[] = [];
    const revoked = new Set<string>();
    let cursor: string | undefined;
    do {
      const page = await platform.admin.get('/authorization/permissions/resources', {
        query: { ...query, ...(cursor ? { cursor } : {}) },
      });
      const found: string[] = page.body.resources;
      expect(found.filter((id) => revoked.has(id))).toEqual([]);
      seen.push(...found);
      cursor = page.body.cursor;
      const victim = ids.find((id) => !seen.includes(id) && !revoked.has(id));
      if (victim && revoked.size < 10) {
        await permissions.unrelate(`User:a owner ${victim}`);
        revoked.add(victim);
      }
    } while (cursor);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBe(ids.length - revoked.size);
  });

  it('24: an object may do to itself what its type declares', async () => {
    expect(await permissions.can('Doc:1 delete Doc:1')).toBe(true);
    expect((await permissions.ask('Doc:1 anything Doc:1')).status).toBe(400);
  });

  it('25-26: acting for a scope', async () => {
    const [editor, member] = [await platform.registerUser(), await platform.registerUser()];
    await permissions.relate(
      `User:${editor.userId} editAll Team:t`,
      `User:${member.userId} member Team:t`,
      'Team:t owner Doc:1',
    );
    const query = { action: 'edit', resource: 'Doc:1', scope: 'Team:t' };
    expect((await editor.api.get('/authorization/check', { query })).body).toEqual({
      allowed: true,
    });
    const refused = await member.api.get('/authorization/check', { query });
    expect(refused.status).toBe(403);
    expect(refused.body.code).toBe('SCOPE_REFUSED');
    // An empty scope is none; then the user's own rights count.
    expect(
      (await member.api.get('/authorization/check', { query: { ...query, scope: '' } })).body,
    ).toEqual({ allowed: false });
    const { body } = await editor.api.get('/authorization/role/Doc:1', {
      query: { scope: 'Team:t' },
    });
    expect(body).toEqual({ roles: ['owner'] });
    expect((await editor.api.get('/authorization/role/Doc:1')).body).toEqual({ roles: [] });
  });

  it('27-30: roles and rules', async () => {
    const [holder, other] = [await platform.registerUser(), await platform.registerUser()];
    const check = async (user: typeof holder, resource: string, action: string) =>
      expectStatus(
        await user.api.post('/authorization/check', { resource, action, resourceId: 'any' }),
        200,
        'check',
      ).body.allowed;
    const role = (
      await platform.admin.post('/authorization/roles', {
        name: 'editor',
        permissions: ['Posts:update'],
      })
    ).body;
    expectStatus(
      await platform.admin.post(`/authorization/users/${holder.userId}/roles`, { role: 'editor' }),
      200,
      'assign',
    );
    expect(await check(holder, 'Posts', 'update')).toBe(true);
    expect(await check(other, 'Posts', 'update')).toBe(false);

    expectStatus(
      await platform.admin.post('/authorization/rules', {
        resource: 'Posts',
        action: 'read',
        role: 'user',
        conditions: {},
      }),
      200,
      'rule',
    );
    expect(await check(other, 'Posts', 'read')).toBe(true);

    const conditions = { missing: { eq: 'x' } };
    expectStatus(
      await platform.admin.post('/authorization/rules', {
        resource: 'Posts',
        action: 'delete',
        role: 'user',
        conditions,
      }),
      200,
      'rule',
    );
    expect(await check(other, 'Posts', 'delete')).toBe(false);

    expectStatus(
      await platform.admin.delete(`/authorization/roles/${role._id}`),
      200,
      'delete role',
    );
    expect(await check(holder, 'Posts', 'update')).toBe(false);
  });
});
