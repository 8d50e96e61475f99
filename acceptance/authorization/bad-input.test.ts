/** Requests about permissions that make no sense: the answer names the field as the request does, and nothing is changed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api } from '../../test/support/api.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('problems of requests about permissions', () => {
  let platform: TestPlatform;
  let admin: Api;
  let permissions: PermissionsApi;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    admin = platform.admin;
    permissions = permissionsApi(admin);
    await permissions.define({
      name: 'Project',
      relations: { lead: ['User'] },
      permissions: { read: ['lead'], edit: ['lead'] },
    });
  });
  afterAll(() => platform.close());

  it('a misspelt request writes, gives and deletes nothing', async () => {
    await permissions.relate('User:kept lead Project:kept');
    const end = { expires_at: '2999-01-01T00:00:00Z' };
    const answers = [
      await admin.post('/authorization/relations', {
        subject: 'User:x',
        relation: 'lead',
        resource: 'Project:x',
        ...end,
      }),
      await admin.post('/authorization/relations/many', {
        subject: 'User:x',
        relation: 'lead',
        resources: ['Project:x'],
        ...end,
      }),
      await admin.post('/authorization/permissions', {
        subject: 'User:x',
        permission: 'read',
        resource: 'Project:x',
        ...end,
      }),
      await admin.delete('/authorization/relations', {
        query: { resourceType: 'Project', ...end },
      }),
      await admin.post('/authorization/rules', {
        resource: 'Project',
        action: 'read',
        role: 'user',
        ...end,
      }),
    ];
    expect(answers.map(({ status, body }) => [status, body.errors?.[0].path])).toEqual(
      answers.map(() => [400, 'expires_at']),
    );
    expect(
      (
        await admin.delete('/authorization/relations', {
          query: { resourceType: 'Project', search: 'none' },
        })
      ).status,
    ).toBe(400);
    expect(await permissions.can('User:kept edit Project:kept')).toBe(true);
    expect(
      (await admin.get('/authorization/relations', { query: { subject: 'User:x' } })).body.count,
    ).toBe(0);
    expect((await admin.get('/authorization/rules')).body.count).toBe(0);
  });

  it('a setting that names an unknown type is told as what it is', async () => {
    const subjects = (recordSubjects: string[]) =>
      admin.patch('/config/authorization', { config: { recordSubjects } });
    await subjects(['User', 'Tema']);
    const schema = {
      name: 'Owned',
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    };
    const { status, body } = await admin.post('/database/schemas', schema);
    expect([status, body.code]).toEqual([409, 'RESOURCE_INCOMPATIBLE']);
    expect(body.message).toContain('recordSubjects of the module authorization names Tema');
    await subjects(['User', 'Team']);
    expect((await admin.post('/database/schemas', schema)).status).toBe(200);
  });

  it('one of many relations, and one of many questions, is named by its number', async () => {
    const many = await admin.post('/authorization/relations/many', {
      subject: 'User:x',
      relation: 'lead',
      resources: ['Ghost:1'],
    });
    expect([many.status, many.body.errors[0].path]).toEqual([400, 'resources.0']);
    const refusal = async (...checks: object[]) =>
      (await admin.post('/authorization/permissions/check', { checks })).body;
    const good = { subject: 'User:q', permission: 'read', resource: 'Project:q' };
    expect((await refusal(good, good, { ...good, permission: 'fly' })).errors[0].path).toBe(
      'checks.2.permission',
    );
    expect((await refusal({ ...good, permission: 'fly' })).errors[0].path).toBe(
      'checks.0.permission',
    );
    expect((await refusal(good, { ...good, resource: 'Ghost:1' })).message).toMatch(
      /^checks\.1\.resource: /,
    );
  });

  it.each([
    ['subject', { subject: 'nonsense' }],
    ['subject', { subject: 'Ghost:1' }],
    ['resource', { resource: 'Project:' }],
    ['resource', { resource: 'Ghost:1' }],
    ['permission', { permission: '__proto__' }],
    ['permission', { permission: 'a b' }],
    ['permission', { permission: 'fly' }],
    ['scope', { scope: 'Team' }],
    ['scope', { scope: 'Ghost:1' }],
  ])('a wrong %s of a question is refused: %j', async (path, wrong) => {
    const query = { subject: 'User:a', permission: 'read', resource: 'Project:1', ...wrong };
    for (const way of ['can', 'evaluate']) {
      const { status, body } = await admin.get(`/authorization/permissions/${way}`, { query });
      expect([status, body.errors[0].path]).toEqual([400, path]);
    }
  });

  it('an id of 1,024 characters is taken everywhere, and a longer one is told to be too long', async () => {
    const query = { subject: 'User:a', permission: 'read', resource: 'Project:1' };
    for (const [path, before, after] of [
      ['subject', 'User:', ''],
      ['subject', 'Team:', '#member'],
      ['resource', 'Project:', ''],
      ['scope', 'Team:', ''],
    ] as const) {
      const ask = (id: string) =>
        admin.get('/authorization/permissions/can', {
          query: { ...query, [path]: `${before}${id}${after}` },
        });
      expect((await ask('x'.repeat(1_024))).status, path).toBe(200);
      expect(await ask('x'.repeat(1_025)), path).toMatchObject({
        status: 400,
        body: {
          errors: [{ path, rule: 'maxLength', message: 'an id has at most 1024 characters' }],
        },
      });
    }
  });

  it.each([
    ['resourceType', 'resources', { resourceType: 'Ghost' }],
    ['permission', 'resources', { permission: 'fly' }],
    ['subject', 'resources', { subject: 'Ghost:1' }],
    ['subjectType', 'subjects', { subjectType: 'Ghost' }],
    ['permission', 'subjects', { permission: 'fly' }],
    ['resource', 'subjects', { resource: 'Ghost:1' }],
  ])('a wrong %s of the list of %s is refused', async (path, list, wrong) => {
    const query = {
      subject: 'User:a',
      permission: 'read',
      resourceType: 'Project',
      resource: 'Project:1',
      subjectType: 'User',
      ...wrong,
    };
    const { status, body } = await admin.get(`/authorization/permissions/${list}`, { query });
    expect([status, body.errors[0].path]).toEqual([400, path]);
  });
});
