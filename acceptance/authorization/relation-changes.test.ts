/** Many different relations and grants in one call: all or nothing, with preconditions that hold under concurrency. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deadlockCount } from '../../src/kernel/database/failures.ts';
import type { Json } from '../../test/support/api.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let permissions: ReturnType<typeof permissionsApi>;
let counter = 0;
const fresh = (): string => {
  counter += 1;
  return `Doc:d${counter}`;
};
const change = (body: object) => platform.admin.post('/authorization/relations/write', body);
const reader = (resource: string, user = 'ada') => ({
  subject: `User:${user}`,
  relation: 'reader',
  resource,
});
const tuplesOf = async (resource: string): Promise<string[]> => {
  const query = { resource };
  const found = [
    ...(await platform.admin.get('/authorization/relations', { query })).body.relations,
    ...(await platform.admin.get('/authorization/permissions', { query })).body.permissions,
  ];
  return found.map(({ computedTuple }: Json) => computedTuple).sort();
};

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  permissions = permissionsApi(platform.admin);
  await permissions.define({
    name: 'Doc',
    relations: { owner: ['User'], reader: ['User', 'User with office'] },
    permissions: { read: ['reader', 'owner'], edit: ['owner'] },
    conditions: { office: { eq: ['context.place', 'office'] } },
  });
});
afterAll(() => platform?.close());

/** 400 with its place, and nothing is written about what is named as `at`. */
const refusedAt =
  (at: string) =>
  async (body: object, path: string, rule: string): Promise<void> => {
    expect(await change(body), path).toMatchObject({
      status: 400,
      body: { errors: [{ path, rule }] },
    });
    expect(await tuplesOf(at)).toEqual([]);
  };

describe('writing and deleting together', () => {
  it('does both, answers what is there, and can be repeated', async () => {
    const [one, other] = [fresh(), fresh()];
    await permissions.relate(`User:old reader ${one}`);
    const body = {
      writes: [
        reader(one),
        { subject: 'User:bea', relation: 'owner', resource: other },
        { subject: 'User:cyd', permission: 'edit', resource: one },
        { ...reader(other, 'dan'), condition: 'office' },
      ],
      deletes: [reader(one, 'old'), { subject: 'User:old', permission: 'edit', resource: one }],
    };
    const first = await change(body);
    expect(first).toMatchObject({
      status: 200,
      body: {
        written: [
          { relation: 'reader', resource: one },
          { relation: 'owner', resource: other },
          { permission: 'edit', resource: one },
          { condition: 'office', resource: other },
        ],
        deleted: 1,
      },
    });
    expect(first.headers.get('consistency-token')).toBeTruthy();
    const again = await change(body);
    expect(again.body).toEqual({ ...first.body, deleted: 0 });
    expect(await tuplesOf(one)).toEqual([`User:ada#reader@${one}`, `User:cyd#edit@${one}`]);
    expect(await permissions.can(`User:cyd edit ${one}`)).toBe(true);
    expect(await permissions.can(`User:old read ${one}`)).toBe(false);
  });

  it('changes nothing where one part is wrong, and names it', async () => {
    const resource = fresh();
    const refused = refusedAt(resource);
    const good = reader(resource);
    await refused(
      { writes: [good, { ...good, relation: 'flies' }] },
      'writes.1.relation',
      'relation',
    );
    await refused({ writes: [good, { ...good, subject: 'Ghost:1' }] }, 'writes.1.subject', 'type');
    await refused(
      { writes: [good, { ...good, resource: 'Doc' }] },
      'writes.1.resource',
      'reference',
    );
    await refused({ writes: [good, good] }, 'writes.1', 'unique');
    await refused({ writes: [good], deletes: [good] }, 'deletes.0', 'unique');
    await refused({ writes: [{ ...good, permission: 'read' }] }, 'writes.0.relation', 'required');
    await refused({ writes: [{ ...good, relation: undefined }] }, 'writes.0.relation', 'required');
    await refused({}, 'writes', 'required');
    await refused(
      { writes: [good], preconditions: [{ exists: true, relation: 'owner' }] },
      'preconditions.0.resource',
      'required',
    );
    expect((await change({ writes: [{ ...good, expires: 'x' }] })).status).toBe(400);
    const many = Array.from({ length: 1001 }, (_, i) => reader(resource, `u${i}`));
    expect((await change({ writes: many })).status).toBe(400);
    const tooMany = { writes: many.slice(0, 600), deletes: many.slice(600, 1001) };
    await refused(tooMany, 'writes', 'maxItems');
  });

  it('refuse names that nothing can have: a guard that always holds, a revocation of nothing', async () => {
    const resource = fresh();
    const refused = refusedAt(resource);
    const good = reader(resource);
    const guarded = (guard: object) => ({ writes: [good], preconditions: [guard] });
    const absent = { exists: false, resource };
    const place = 'preconditions.0';
    await refused(guarded({ ...absent, relation: 'ownr' }), `${place}.relation`, 'relation');
    await refused(guarded({ ...absent, permission: 'raed' }), `${place}.permission`, 'permission');
    await refused(guarded({ exists: false, resource: 'Dok:1' }), `${place}.resource`, 'type');
    await refused(guarded({ ...absent, subject: 'Usr:1' }), `${place}.subject`, 'type');
    const anywhere = { exists: false, subject: good.subject, relation: 'ownr' };
    await refused(guarded(anywhere), `${place}.relation`, 'relation');
    await refused({ deletes: [{ ...good, relation: 'raeder' }] }, 'deletes.0.relation', 'relation');
    await refused({ deletes: [{ ...good, resource: 'Dok:1' }] }, 'deletes.0.resource', 'type');
    await refused(
      { writes: [{ ...good, attributes: { until: '2030-01-01' } }] },
      'writes.0.attributes',
      'condition',
    );
  });

  it('takes a thousand at once', async () => {
    const resource = fresh();
    const writes = Array.from({ length: 1000 }, (_, i) => reader(resource, `u${i}`));
    expect((await change({ writes })).body.written).toHaveLength(1000);
    expect((await change({ deletes: writes })).body.deleted).toBe(1000);
  });
});

describe('preconditions', () => {
  it('hold for everything or nothing is changed', async () => {
    const resource = fresh();
    const owner = { subject: 'User:ada', relation: 'owner', resource };
    const absent = { exists: false, relation: 'owner', resource };
    const refused = await change({
      writes: [reader(resource)],
      preconditions: [absent, { exists: true, ...owner }],
    });
    expect(refused).toMatchObject({
      status: 412,
      body: { code: 'PRECONDITION_FAILED', errors: [{ path: 'preconditions.1', rule: 'exists' }] },
    });
    expect(await tuplesOf(resource)).toEqual([]);
    expect((await change({ writes: [owner], preconditions: [absent] })).status).toBe(200);
    expect(await change({ writes: [owner], preconditions: [absent] })).toMatchObject({
      status: 412,
      body: { errors: [{ path: 'preconditions.0', rule: 'absent' }] },
    });
    const handOver = {
      deletes: [owner],
      writes: [{ ...owner, subject: 'User:bea' }],
      preconditions: [{ exists: true, ...owner }],
    };
    expect((await change(handOver)).status).toBe(200);
    expect((await change(handOver)).status).toBe(412);
    expect(await tuplesOf(resource)).toEqual([`User:bea#owner@${resource}`]);
  });

  it('look at grants by "permission", and pass over what has expired', async () => {
    const resource = fresh();
    const grant = { subject: 'User:ada', permission: 'edit', resource };
    const conditional = { writes: [reader(resource)], preconditions: [{ exists: true, ...grant }] };
    expect((await change(conditional)).status).toBe(412);
    const expiresAt = new Date(Date.now() - 1000).toISOString();
    await change({ writes: [{ ...grant, expiresAt }] });
    expect((await change(conditional)).status).toBe(412);
    await change({ writes: [grant] });
    expect((await change(conditional)).status).toBe(200);
  });

  it('let one of 20 in that want the same place at once', async () => {
    const resource = fresh();
    const claim = (i: number) =>
      change({
        writes: [{ subject: `User:u${i}`, relation: 'owner', resource }],
        preconditions: [{ exists: false, relation: 'owner', resource }],
      });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => claim(i)));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 412)).toHaveLength(19);
    expect(await tuplesOf(resource)).toHaveLength(1);
  });

  it('let one of two in that each write what the other wants absent of a subject', async () => {
    const claim = (user: string, other: string) =>
      change({
        writes: [{ subject: `User:${user}`, relation: 'owner', resource: fresh() }],
        preconditions: [{ exists: false, relation: 'owner', subject: `User:${other}` }],
      });
    const pairs = Array.from({ length: 10 }, (_, i) => [`left${i}`, `right${i}`] as const);
    const answers = await Promise.all(
      pairs.map(([one, other]) => Promise.all([claim(one, other), claim(other, one)])),
    );
    const statuses = answers.map((pair) => pair.map(({ status }) => status).sort());
    expect(statuses).toEqual(pairs.map(() => [200, 412]));
  });

  it('let a hand-over happen once, whoever asks for it at the same time', async () => {
    const resource = fresh();
    await permissions.relate(`User:ada owner ${resource}`);
    const from = { subject: 'User:ada', relation: 'owner', resource };
    const handOver = (i: number) =>
      change({
        deletes: [from],
        writes: [{ subject: `User:u${i}`, relation: 'owner', resource }],
        preconditions: [{ exists: true, ...from }],
      });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => handOver(i)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(await tuplesOf(resource)).toHaveLength(1);
  });
});

describe('deleting what matches', () => {
  it('takes direct permissions along where it is asked to, and alone', async () => {
    const resource = fresh();
    const grant = { subject: 'User:ada', permission: 'edit', resource };
    const fill = () =>
      change({ writes: [reader(resource), grant, { ...grant, permission: 'read' }] });
    const remove = (path: string, query: Record<string, string>) =>
      platform.admin.delete(`/authorization/${path}`, { query });
    await fill();
    expect((await remove('relations', { resource })).body).toEqual({ deleted: 1 });
    expect(await tuplesOf(resource)).toHaveLength(2);
    expect((await remove('permissions/many', { resource, permission: 'edit' })).body.deleted).toBe(
      1,
    );
    expect((await remove('permissions/many', { resource })).body.deleted).toBe(1);
    await fill();
    expect((await remove('relations', { resource, grants: 'true' })).body).toEqual({ deleted: 3 });
    const both = { resource, grants: 'true', relation: 'reader' };
    expect((await remove('relations', both)).status).toBe(400);
    expect((await remove('permissions/many', { permission: 'edit' })).status).toBe(400);
    expect((await remove('permissions/many', { resource, permision: 'edit' })).status).toBe(400);
  });
});

it('waits for no other in a circle, where grants are the first of their action', async () => {
  const actions = Array.from({ length: 20 }, (_, n) => `act${n}`);
  const own = Object.fromEntries(actions.map((action) => [action, ['owner']]));
  const relations = { owner: ['User'] };
  for (const name of ['Left', 'Right'])
    await permissions.define({ name, relations, permissions: { read: ['owner'], ...own } });
  const before = deadlockCount();
  for (const [n, permission] of actions.entries()) {
    const owner = (type: string) => ({
      ...{ subject: 'User:ada', relation: 'owner', resource: `${type}:${n}` },
    });
    const grant = (type: string) => ({
      ...{ subject: 'User:ada', permission, resource: `${type}:${n}` },
    });
    const keyed = () => ({ headers: { 'idempotency-key': randomUUID() } });
    const preconditions = ['Left', 'Right'].map((type) => ({
      exists: false,
      ...owner(type),
      subject: 'User:eve',
    }));
    const together = (writes: readonly object[], options = {}) =>
      platform.admin.post('/authorization/relations/write', { writes, preconditions }, options);
    const answers = await Promise.all([
      together([grant('Left'), owner('Left')], keyed()),
      together([owner('Left'), owner('Right')]),
      platform.admin.post('/authorization/permissions', grant('Right'), keyed()),
      platform.admin.post('/authorization/permissions', grant('Left'), keyed()),
      together([grant('Right'), owner('Right')], keyed()),
    ]);
    for (const { status, text } of answers) expect(status, text).toBe(200);
  }
  expect(deadlockCount() - before).toBe(0);
});
