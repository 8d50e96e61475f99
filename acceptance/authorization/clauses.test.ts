/** What issue 12 says of permissions and no other file here asks: each test fails if its sentence is not true. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let permissions: PermissionsApi;
let [ada, bob]: TestUser[] = [];

const user = (who: TestUser | undefined): TestUser => who ?? expect.unreachable('no user');
const subjectOf = (who: TestUser | undefined): string => `User:${user(who).userId}`;
const admin = (path: string, body: object): Promise<Answer<Json>> =>
  platform.admin.post(`/authorization/${path}`, body);

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  permissions = permissionsApi(platform.admin);
  [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
});
afterAll(() => platform?.close());

describe('conditions', () => {
  /** Values of the tuple, values of the request that let somebody in, and some that do not. */
  const forms: Readonly<
    Record<string, { rule: string; params: object; attributes: object; yes: object; no: object }>
  > = {
    span: {
      rule: 'at < granted + lasts',
      params: { at: 'timestamp', granted: 'timestamp', lasts: 'duration' },
      attributes: { granted: '2026-01-01T00:00:00Z', lasts: '1h' },
      yes: { at: '2026-01-01T00:59:59Z' },
      no: { at: '2026-01-01T01:00:00Z' },
    },
    network: {
      rule: 'zone.containsIP(address)',
      params: { zone: 'cidr', address: 'ip' },
      attributes: { zone: '10.1.0.0/16' },
      yes: { address: '10.1.2.3' },
      no: { address: '10.2.2.3' },
    },
    text: {
      rule: 'word.lowerAscii().startsWith(start) && size(word) < 6',
      params: { word: 'string', start: 'string' },
      attributes: { start: 'ab' },
      yes: { word: 'ABC' },
      no: { word: 'abcdef' },
    },
    list: {
      rule: 'word in words && sizes.all(s, s > 1)',
      params: { word: 'string', words: 'list<string>', sizes: 'list<int>' },
      attributes: { words: ['a', 'b'] },
      yes: { word: 'b', sizes: [2, 3] },
      no: { word: 'b', sizes: [2, 1] },
    },
    map: {
      rule: 'plan in seats && seats[plan] > used',
      params: { plan: 'string', seats: 'map<int>', used: 'int' },
      attributes: { seats: { small: 2, large: 9 } },
      yes: { plan: 'large', used: 8 },
      no: { plan: 'small', used: 8 },
    },
  };

  beforeAll(async () => {
    await permissions.define({
      name: 'Gate',
      relations: { guest: Object.keys(forms).map((one) => `User with ${one}`) },
      permissions: { pass: ['guest'] },
      conditions: Object.fromEntries(
        Object.entries(forms).map(([name, { rule, params }]) => [name, { rule, params }]),
      ),
    });
    for (const [condition, { attributes }] of Object.entries(forms))
      expectStatus(
        await admin('relations', {
          subject: subjectOf(ada),
          relation: 'guest',
          resource: `Gate:${condition}`,
          condition,
          attributes,
        }),
        200,
        condition,
      );
  });

  /** The same question in every form that takes a context. */
  async function answers(id: string, context: object): Promise<unknown> {
    const [subject, permission, resource] = [subjectOf(ada), 'pass', `Gate:${id}`];
    const [can, list, who, own] = await Promise.all([
      admin('permissions/can', { subject, permission, resource, context }),
      admin('permissions/resources', { subject, permission, resourceType: 'Gate', context }),
      admin('permissions/subjects', { permission, resource, context }),
      user(ada).api.post('/authorization/check/many', {
        checks: [{ action: permission, resource }],
        context,
      }),
    ]);
    return {
      can: can.body.allowed,
      listed: list.body.resources.includes(resource),
      who: who.body.subjects.includes(subject),
      own: own.body.results[0].allowed,
    };
  }
  const all = (may: boolean) => ({ can: may, listed: may, who: may, own: may });

  it.each(Object.keys(forms))('over %s hold where they hold, in every question', async (id) => {
    const { yes, no } = forms[id] ?? expect.unreachable();
    expect(await answers(id, yes)).toEqual(all(true));
    expect(await answers(id, no)).toEqual(all(false));
  });

  it('take a value of the tuple first, then of the request', async () => {
    // What the tuple says, no request changes.
    expect(await answers('network', { zone: '0.0.0.0/0', address: '10.2.2.3' })).toEqual(
      all(false),
    );
    expectStatus(
      await admin('relations', {
        subject: subjectOf(ada),
        relation: 'guest',
        resource: 'Gate:open',
        condition: 'network',
      }),
      200,
      'without a zone of its own',
    );
    expect(await answers('open', { zone: '0.0.0.0/0', address: '10.2.2.3' })).toEqual(all(true));
  });
});

describe('users', () => {
  it('ask for a scope, where they may act for it, each question by itself', async () => {
    await permissions.define({
      name: 'Squad',
      relations: { member: ['User'], lead: ['User'] },
      permissions: { enter: ['member'], close: ['lead'] },
    });
    await permissions.define({
      name: 'Door',
      relations: { keeper: ['Squad'], guest: ['User'] },
      permissions: { enter: ['keeper', 'guest'], close: ['keeper'] },
    });
    const squad = 'Squad:night';
    await permissions.relate(
      `${subjectOf(ada)} member ${squad}`,
      `${squad} keeper Door:1`,
      `${subjectOf(ada)} guest Door:2`,
    );
    const checks = [
      { action: 'enter', resource: 'Door:1' },
      { action: 'enter', resource: 'Door:2' },
      { action: 'close', resource: 'Door:1' },
    ];
    const many = (scope: string) =>
      user(ada).api.post('/authorization/check/many', { checks, scope });
    const one = await user(ada).api.get('/authorization/check', {
      query: { action: 'close', resource: 'Door:1', scope: squad },
    });
    expect(one).toMatchObject({ status: 403, body: { code: 'SCOPE_REFUSED' } });
    expect((await many(squad)).body.results).toMatchObject([
      { allowed: true },
      { allowed: false },
      {
        allowed: false,
        undecided: { code: 'SCOPE_REFUSED', message: one.body.message, missing: [] },
      },
    ]);
    const allowed = async (scope: string) =>
      (await many(scope)).body.results.map((result: Json) => result.allowed);
    expect(await allowed('')).toEqual([false, true, false]);
    expect(await allowed('Squad:day')).toEqual([false, false, false]);
    expect(await many('Ghost:1')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'scope' }] },
    });
  });

  it('ask many questions at once, each with its own answer', async () => {
    const many = (body: object, who = ada) => user(who).api.post('/authorization/check/many', body);
    const checks = ['network', 'map', 'nothing'].map((id) => ({
      action: 'pass',
      resource: `Gate:${id}`,
    }));
    const { body } = expectStatus(
      await many({ checks, context: { address: '10.1.2.3' } }),
      200,
      'many',
    );
    expect(body.results).toMatchObject([
      { allowed: true },
      {
        allowed: false,
        undecided: { code: 'CONTEXT_MISSING', missing: expect.arrayContaining(['plan']) },
      },
      { allowed: false },
    ]);
    expect(body.results[2]).toEqual({ allowed: false });
    const others = await many({ checks, context: { address: '10.1.2.3' } }, bob);
    expect(others.body.results).toEqual(checks.map(() => ({ allowed: false })));
    for (const [wrong, path] of [
      [{ action: 'fly', resource: 'Gate:map' }, 'checks.1.action'],
      [{ action: 'pass', resource: 'Ghost:1' }, 'checks.1.resource'],
      [{ action: 'can:pass', resource: 'Gate:map' }, 'checks.1.action'],
      [{ action: 'pass', resource: 'Gate' }, 'checks.1.resource'],
    ] as const)
      expect(await many({ checks: [checks[0], wrong] }), path).toMatchObject({
        status: 400,
        body: { errors: [{ path }] },
      });
    const tooMany = Array.from({ length: 51 }, () => checks[0]);
    expect((await many({ checks: tooMany })).status).toBe(400);
    expect((await platform.client.post('/authorization/check/many', { checks })).status).toBe(401);
  });
});

describe('rules about records', () => {
  it('that need a value of the request leave rows out of lists, and are decided where it comes', async () => {
    await platform.createSchema({
      name: 'Offer',
      fields: { region: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const rule = { rule: 'record.region == region', params: { region: 'string' } };
    await permissions.define({
      name: 'Offer',
      version: 1,
      relations: { owner: ['User'] },
      permissions: { read: ['owner', rule], edit: ['owner'], delete: ['owner'] },
    });
    const made = await user(ada).api.post('/database/Offer', { region: 'north' });
    const resource = `Offer:${expectStatus(made, 200, 'offer').body._id}`;
    expect((await user(ada).api.get('/database/Offer')).body.count).toBe(1);
    expect((await user(bob).api.get('/database/Offer')).body).toMatchObject({ count: 0 });
    const question = { subject: subjectOf(bob), permission: 'read', resource };
    const can = (context: object) => admin('permissions/can', { ...question, context });
    expect((await can({ region: 'north' })).body).toEqual({ allowed: true });
    expect((await can({ region: 'south' })).body).toEqual({ allowed: false });
    expect(await can({})).toMatchObject({ status: 400, body: { code: 'CONTEXT_MISSING' } });
    const list = (context: object) =>
      admin('permissions/resources', {
        subject: subjectOf(bob),
        permission: 'read',
        resourceType: 'Offer',
        context,
      });
    expect((await list({ region: 'north' })).body).toEqual({ resources: [resource] });
    expect((await list({})).body).toEqual({ resources: [], incomplete: true });
  });
});

describe('visitors', () => {
  it('have what everybody has, where no login is asked for', async () => {
    const closed = { enabled: true, authenticated: true };
    const read = { enabled: true, authenticated: false };
    const crudOperations = { create: closed, read, update: closed, delete: closed };
    await platform.createSchema({
      name: 'Notice',
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true }, cms: { enabled: true, crudOperations } },
    });
    await permissions.define({
      name: 'Notice',
      version: 1,
      relations: { owner: ['User'] },
      permissions: {
        read: { exclusion: { base: ['*'], subtract: ['hide'] } },
        hide: [{ rule: "record.text == 'hidden'" }],
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    for (const text of ['open', 'hidden'])
      expectStatus(await user(ada).api.post('/database/Notice', { text }), 200, text);
    const { body } = expectStatus(await platform.client.get('/database/Notice'), 200, 'list');
    expect([body.count, body.documents.map(({ text }: Json) => text)]).toEqual([1, ['open']]);
  });
});

describe('explanations', () => {
  it('go on behind the parts that were told', async () => {
    const relations = ['reader', 'writer', 'keeper', 'warden'];
    await permissions.define({
      name: 'Hall',
      relations: Object.fromEntries(relations.map((one) => [one, ['User', 'Team#member']])),
      permissions: { read: relations },
    });
    expectStatus(
      await admin('relations/write', {
        writes: relations.flatMap((relation) =>
          ['one', 'two'].map((team) => ({
            subject: `Team:${team}#member`,
            relation,
            resource: 'Hall:1',
          })),
        ),
      }),
      200,
      'sets',
    );
    const parts = async (skip: number, limit = 500): Promise<Json[]> => {
      const question = { subject: subjectOf(bob), permission: 'read', resource: 'Hall:1' };
      const answer = await admin('permissions/evaluate', { ...question, skip, limit });
      return expectStatus(answer, 200, 'explain').body.reason.parts;
    };
    const whole = await parts(0);
    expect(whole.length).toBeGreaterThanOrEqual(relations.length);
    const first = await parts(0, 3);
    expect(first.length).toBeLessThan(whole.length);
    expect(await parts(2)).toEqual(whole.slice(2));
    expect(await parts(whole.length)).toEqual([]);
  });
});

describe('sharing', () => {
  const shared = (...types: string[]) => ({ types, shareable: true });
  const give = (resource: string, subject: string, relation = 'reader', more: object = {}) =>
    user(ada).api.post(`/authorization/shares/${resource}`, { subject, relation, ...more });

  beforeAll(async () => {
    await permissions.define({
      name: 'User',
      version: 2,
      relations: { friend: ['User'] },
      permissions: {},
    });
    await permissions.define({
      name: 'Board',
      relations: {
        lead: ['User'],
        manager: ['User', 'Board#editor'],
        editor: shared('User'),
        reader: shared('User', '*', 'Board#reader', 'User#friend'),
      },
      permissions: {
        read: ['reader', 'edit'],
        edit: ['editor', 'lead'],
        close: ['manager'],
        share: ['lead'],
      },
    });
  });

  it('holds its bound however many share at once, and renews what is there', async () => {
    const board = `Board:${randomUUID()}`;
    await permissions.relate(`${subjectOf(ada)} lead ${board}`);
    const guests = await Promise.all(
      Array.from({ length: 6 }, async () => subjectOf(await platform.registerUser())),
    );
    expectStatus(
      await admin('relations/write', {
        writes: Array.from({ length: 998 }, () => ({
          subject: `User:${randomUUID()}`,
          relation: 'reader',
          resource: board,
        })),
      }),
      200,
      'fill',
    );
    const answers = await Promise.all(guests.map((guest) => give(board, guest)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    for (const { status, body } of answers)
      if (status !== 200) expect([status, body.code]).toEqual([409, 'SHARES_FULL']);
    const got = guests.filter((_, i) => answers[i]?.status === 200);
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    expectStatus(await give(board, got[0] ?? '', 'reader', { expiresAt }), 200, 'renew');
    const ended = new Date(Date.now() - 1000).toISOString();
    const share = { subject: got[1], relation: 'reader', resource: board, expiresAt: ended };
    expectStatus(await admin('relations', share), 200, 'end');
    const left = guests.find((one) => !got.includes(one)) ?? '';
    expectStatus(await give(board, left), 200, 'in the place that is free');
  });

  it('gives nothing that a set of the same type leads to and the giver lacks', async () => {
    const board = `Board:${randomUUID()}`;
    await permissions.relate(`${subjectOf(ada)} lead ${board}`, `${board}#editor manager ${board}`);
    expect(await give(board, subjectOf(bob), 'editor')).toMatchObject({
      status: 403,
      body: { code: 'SHARING_REFUSED', message: expect.stringContaining('close') },
    });
    await permissions.relate(`${subjectOf(ada)} manager ${board}`);
    expectStatus(await give(board, subjectOf(bob), 'editor'), 200, 'as a manager');
  });

  it('is neither with everybody nor with sets of people that the giver cannot read', async () => {
    const board = `Board:${randomUUID()}`;
    await permissions.relate(`${subjectOf(ada)} lead ${board}`);
    for (const [subject, rule] of [
      ['*', 'wildcard'],
      [`${subjectOf(bob)}#friend`, 'unknown'],
      [`Board:${randomUUID()}#reader`, 'unknown'],
    ] as const)
      expect(await give(board, subject), subject).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'subject', rule }] },
      });
    expectStatus(await give(board, `${board}#reader`), 200, 'a set that they read');
  });
});
