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

  it('a misspelt question is not answered as another one', async () => {
    const body = { subject: 'User:x', permission: 'read', resource: 'Project:x' };
    const { resource, subject, ...rest } = body;
    const tuple = { subject, relation: 'lead', resource, expiresat: '2020-01-01T00:00:00Z' };
    const way = '/authorization/permissions';
    const { api } = await platform.registerUser();
    const context = { place: 'here' };
    const answers = [
      await admin.post(`${way}/can`, { ...body, contextualTuples: [tuple] }),
      await admin.post(`${way}/evaluate`, { ...body, contextualTuples: [tuple] }),
      await admin.post(`${way}/resources`, {
        ...rest,
        subject,
        resourceType: 'Project',
        context,
        at: 1,
      }),
      await admin.post(`${way}/subjects`, { ...rest, resource, contexts: context }),
      await admin.post(`${way}/subjects/many`, { ...rest, resources: [resource], scope: 'Team:x' }),
      await admin.post(`${way}/check`, { checks: [{ ...body, context }] }),
      await api.post('/authorization/check/many', {
        checks: [{ action: 'read', resource, context }],
      }),
      await api.post('/authorization/resources', {
        ...{ permission: 'read', resourceType: 'Project', contextualTuples: [] },
      }),
    ];
    expect(answers.map(({ status, body }) => [status, body.errors?.[0].path])).toEqual(
      [
        ...['contextualTuples.0.expiresat', 'contextualTuples.0.expiresat', 'at', 'contexts'],
        ...['scope', 'checks.0.context', 'checks.0.context', 'contextualTuples'],
      ].map((path) => [400, path]),
    );
  });

  it('nothing is deleted of types and relations that nobody knows', async () => {
    for (const [path, query] of [
      ['resourceType', { resourceType: 'Projct' }],
      ['subjectType', { subjectType: 'Usr' }],
      ['subject', { subject: 'Usr:x' }],
      ['relation', { resourceType: 'Project', relation: 'laed' }],
    ] as const) {
      const { status, body } = await admin.delete('/authorization/relations', { query });
      expect([status, body.errors?.[0].path]).toEqual([400, path]);
    }
    const query = { resourceType: 'Project', permission: 'raed' };
    expect((await admin.delete('/authorization/permissions/many', { query })).status).toBe(400);
  });

  it('a rule with a value that cannot be is refused when it is declared', async () => {
    await platform.createSchema({
      name: 'Gate',
      fields: { address: 'String', openFrom: 'Date' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const define = (rule: string, conditionRule: string) =>
      admin.patch('/authorization/resources/Gate', {
        relations: { owner: ['User'], viewer: ['User with there'] },
        permissions: { read: ['owner', { rule }], edit: ['owner'], delete: ['owner'] },
        conditions: { there: { params: { address: 'ip' }, rule: conditionRule } },
      });
    const [rule, condition] = ["ip(record.address).in_cidr('10.0.0.0/8')", "address == ip('::1')"];
    for (const [refused, path, place] of [
      [define(rule.replace('/8', '/99'), condition), 'permissions.read[1].rule', 'column 28'],
      [
        define("record.openFrom < timestamp('2026-02-30T00:00:00Z')", condition),
        'permissions.read[1].rule',
        'column 29',
      ],
      [define(rule, "address == ip('::1::')"), 'conditions.there.rule', 'column 15'],
    ] as const) {
      const { status, body } = await refused;
      expect([status, body.errors?.[0].path]).toEqual([400, path]);
      expect(body.errors[0].message).toContain(place);
    }
    expect((await define(rule, condition)).status).toBe(200);
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
