/** Values that come with a question: conditions in CEL, lists and who-can under given circumstances, batches. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('questions with a context', () => {
  let platform: TestPlatform;
  let ada: TestUser;
  const subject = () => `User:${ada.userId}`;
  const relate = (
    resource: string,
    condition?: string,
    attributes?: object,
    relatedTo = subject(),
  ) =>
    platform.admin.post('/authorization/relations', {
      subject: relatedTo,
      relation: 'viewer',
      resource,
      ...(condition && { condition }),
      ...(attributes && { attributes }),
    });
  const question = (id: string) => ({
    subject: subject(),
    permission: 'read',
    resource: `Room:${id}`,
  });

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    ada = await platform.registerUser();
    const definition = {
      name: 'Room',
      relations: { viewer: ['User', 'User with inOffice', 'User with untilThen'] },
      permissions: { read: ['viewer'] },
      conditions: {
        inOffice: {
          params: { address: 'ip', office: 'cidr' },
          rule: 'office.containsIP(address)',
        },
        untilThen: { params: { until: 'timestamp' }, rule: 'now < until' },
      },
    };
    expectStatus(await platform.admin.post('/authorization/resources', definition), 200, 'define');
    await relate('Room:open');
    await relate('Room:office', 'inOffice', { office: '10.1.0.0/16' });
    await relate('Room:timed', 'untilThen', { until: '2999-01-01T00:00:00Z' });
    await relate('Room:over', 'untilThen', { until: '2020-01-01T00:00:00Z' });
  });
  afterAll(() => platform.close());

  it('lists of resources take one, and say where a value was missing', async () => {
    const list = async (context?: object): Promise<Json> => {
      const body = { subject: subject(), permission: 'read', resourceType: 'Room' };
      const path = '/authorization/permissions/resources';
      return expectStatus(
        await platform.admin.post(path, { ...body, ...(context && { context }) }),
        200,
        'list',
      ).body;
    };
    expect(await list({ address: '10.1.2.3' })).toEqual({
      resources: ['Room:office', 'Room:open', 'Room:timed'],
    });
    expect(await list({ address: '10.2.2.3' })).toEqual({
      resources: ['Room:open', 'Room:timed'],
    });
    expect(await list()).toEqual({ resources: ['Room:open', 'Room:timed'], incomplete: true });
    const query = { subject: subject(), permission: 'read', resourceType: 'Room' };
    const got = await platform.admin.get('/authorization/permissions/resources', { query });
    expect(got.body).toEqual({ resources: ['Room:open', 'Room:timed'], incomplete: true });
  });

  it('users list what they themselves may act on, and nobody else', async () => {
    const path = '/authorization/resources';
    const body = { permission: 'read', resourceType: 'Room', context: { address: '10.1.0.1' } };
    expect((await ada.api.post(path, body)).body).toEqual({
      resources: ['Room:office', 'Room:open', 'Room:timed'],
    });
    const bob = await platform.registerUser();
    expect((await bob.api.post(path, body)).body).toEqual({ resources: [] });
    expect((await platform.client.post(path, body)).status).toBe(401);
    const page = await ada.api.post(path, { ...body, limit: 1 });
    expect([page.body.resources, typeof page.body.cursor]).toEqual([['Room:office'], 'string']);
  });

  it('users list for a scope that they may act for under it', async () => {
    const crew = {
      name: 'Crew',
      relations: { member: ['User with inOffice'] },
      permissions: { read: ['member'] },
      conditions: {
        inOffice: {
          params: { address: 'ip', office: 'cidr' },
          rule: 'office.containsIP(address)',
        },
      },
    };
    const hall = {
      name: 'Hall',
      relations: { viewer: ['Crew'] },
      permissions: { read: ['viewer'] },
    };
    for (const one of [crew, hall])
      expectStatus(await platform.admin.post('/authorization/resources', one), 200, one.name);
    const office = { condition: 'inOffice', attributes: { office: '10.1.0.0/16' } };
    for (const tuple of [
      { subject: subject(), relation: 'member', resource: 'Crew:night', ...office },
      { subject: 'Crew:night', relation: 'viewer', resource: 'Hall:great' },
    ])
      expectStatus(await platform.admin.post('/authorization/relations', tuple), 200, 'relate');
    const list = (context?: object) =>
      ada.api.post('/authorization/resources', {
        ...{ permission: 'read', resourceType: 'Hall', scope: 'Crew:night' },
        ...(context && { context }),
      });
    expect((await list({ address: '10.1.0.1' })).body).toEqual({ resources: ['Hall:great'] });
    expect(await list({ address: '10.2.0.1' })).toMatchObject({
      status: 403,
      body: { code: 'SCOPE_REFUSED' },
    });
    expect(await list()).toMatchObject({ status: 400, body: { code: 'CONTEXT_MISSING' } });
  });

  it('who-can takes one, with relations that count for the question only', async () => {
    const who = async (id: string, extra: object = {}): Promise<Json> => {
      const body = { resource: `Room:${id}`, permission: 'read', ...extra };
      return (await platform.admin.post('/authorization/permissions/subjects', body)).body;
    };
    expect(await who('office', { context: { address: '10.1.0.1' } })).toEqual({
      subjects: [subject()],
    });
    expect(await who('office', { context: { address: '10.9.0.1' } })).toEqual({ subjects: [] });
    expect(await who('office')).toEqual({ subjects: [], incomplete: true });
    const office = { office: '10.1.0.0/16' };
    await relate('Room:everybody', 'inOffice', office, 'User:*');
    expect(await who('everybody')).toEqual({ subjects: [], incomplete: true });
    const inside = { context: { address: '10.1.0.1' } };
    expect(await who('everybody', inside)).toEqual({ subjects: ['User:*'] });
    const contextualTuples = [
      { subject: 'User:guest', relation: 'viewer', resource: 'Room:empty' },
    ];
    expect(await who('empty', { contextualTuples })).toEqual({ subjects: ['User:guest'] });
    expect(await who('empty')).toEqual({ subjects: [] });
  });

  it('one question without an answer does not fail a batch', async () => {
    const { status, body } = await platform.admin.post('/authorization/permissions/check', {
      checks: ['open', 'office', 'over', 'timed'].map(question),
    });
    expect(status).toBe(200);
    expect(body.results.map(({ allowed }: Json) => allowed)).toEqual([true, false, false, true]);
    expect(body.results.map((one: Json) => one.undecided?.missing)).toEqual([
      undefined,
      ['address'],
      undefined,
      undefined,
    ]);
    const decided = await platform.admin.post('/authorization/permissions/check', {
      checks: ['office'].map(question),
      context: { address: '10.1.0.1' },
    });
    expect(decided.body).toEqual({ results: [{ allowed: true }] });
  });

  it('no value is asked for that changes nothing: what is asked of every object, and the one that may count has not', async () => {
    const conditions = { here: { params: { place: 'string' }, rule: 'place == "here"' } };
    for (const definition of [
      { name: 'Gate', relations: { pass: ['User'] }, permissions: { see: ['pass'] } },
      {
        name: 'Court',
        relations: { gate: ['Gate', 'Gate with here'] },
        permissions: {
          enter: { every: 'gate->see' },
          stay: { exclusion: { base: ['*'], subtract: { every: 'gate->see' } } },
        },
        conditions,
      },
    ])
      expectStatus(
        await platform.admin.post('/authorization/resources', definition),
        200,
        definition.name,
      );
    const gate = (court: string, id: string, condition?: string) =>
      platform.admin.post('/authorization/relations', {
        ...{ subject: `Gate:${id}`, relation: 'gate', resource: `Court:${court}` },
        ...(condition && { condition }),
      });
    const pass = { subject: subject(), relation: 'pass', resource: 'Gate:mine' };
    expectStatus(await platform.admin.post('/authorization/relations', pass), 200, 'pass');
    for (const [court, id, condition] of [
      ['shut', 'other', 'here'],
      ['half', 'mine', 'here'],
      ['mixed', 'mine', 'here'],
      ['mixed', 'other', undefined],
      ['twins', 'mine', 'here'],
      ['twins', 'other', 'here'],
    ] as const)
      expectStatus(await gate(court, id, condition), 200, court);
    const asked = async (court: string, permission: string) => {
      const answer = await platform.admin.post('/authorization/permissions/can', {
        ...{ subject: subject(), permission, resource: `Court:${court}` },
      });
      return answer.body.allowed ?? answer.body.code;
    };
    const both = async (court: string) => [await asked(court, 'enter'), await asked(court, 'stay')];
    expect(await both('shut')).toEqual([false, true]);
    expect(await both('mixed')).toEqual([false, true]);
    expect(await both('half')).toEqual(['CONTEXT_MISSING', 'CONTEXT_MISSING']);
    // Each is taken by itself, though with any value both count or none (decision 518): lists do not show it either.
    expect(await both('twins')).toEqual(['CONTEXT_MISSING', 'CONTEXT_MISSING']);
    const list = (permission: string) =>
      platform.admin.post('/authorization/permissions/resources', {
        ...{ subject: subject(), permission, resourceType: 'Court' },
      });
    expect((await list('stay')).body).toEqual({
      resources: ['Court:mixed', 'Court:shut'],
      incomplete: true,
    });
    const why = await platform.admin.post('/authorization/permissions/evaluate', {
      ...{ subject: subject(), permission: 'enter', resource: 'Court:shut' },
    });
    expect(why.body).toMatchObject({ outcome: 'denied', allowed: false });
    // Not for the value that nobody gave, but for the gate.
    expect(JSON.stringify(why.body.reason)).toContain('"about":"Gate:other pass"');
  });

  it('a value of a wrong type is 400 that names it, also in a relation', async () => {
    const asked = await platform.admin.post('/authorization/permissions/can', {
      ...question('office'),
      context: { address: 'here' },
    });
    expect([asked.status, asked.body.errors[0]]).toEqual([
      400,
      {
        path: 'context.address',
        rule: 'type',
        message: 'must be an address such as 192.0.2.1 or 2001:db8::1',
      },
    ]);
    const wrong = await relate('Room:x', 'inOffice', { office: '10.1.0.0/99' });
    expect([wrong.status, wrong.body.errors[0].path]).toEqual([400, 'attributes.office']);
  });
});
