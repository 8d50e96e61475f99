/** Preconditions and deletions of relations that records say: they count like stored ones, or are refused by name. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let ada: TestUser;
let bob: TestUser;
let cyd: TestUser;

const change = (body: object) => platform.admin.post('/authorization/relations/write', body);
const standing = (who: TestUser, relation: string, resource: string) => ({
  subject: `User:${who.userId}`,
  relation,
  resource,
});
const create = async (fields: object): Promise<string> =>
  `Job:${expectStatus(await ada.api.post('/database/Job', fields), 200, 'create').body._id}`;
const patch = async (resource: string, fields: object): Promise<void> => {
  const address = `/database/Job/${resource.slice('Job:'.length)}`;
  expectStatus(await ada.api.patch(address, fields), 200, 'change');
};
const ownersOf = async (resource: string): Promise<string[]> => {
  const query = { resource, relation: 'owner' };
  const { body } = await platform.admin.get('/authorization/relations', { query });
  return body.relations.map(({ subject }: { subject: string }) => subject);
};

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  [ada, bob, cyd] = [
    await platform.registerUser(),
    await platform.registerUser(),
    await platform.registerUser(),
  ];
  const toUser = { type: 'Relation', model: 'User' } as const;
  await platform.createSchema({
    name: 'Job',
    fields: { title: 'String', lead: toUser, crew: { type: [toUser] } },
    conduitOptions: { authorization: { enabled: true } },
  });
  await permissionsApi(platform.admin).define({
    name: 'Job',
    version: 1,
    relations: {
      owner: ['User'],
      watcher: ['User'],
      lead: { from: 'lead' },
      crew: { from: 'crew' },
    },
    permissions: {
      read: ['owner', 'lead', 'crew', 'watcher'],
      edit: ['owner', 'lead'],
      delete: ['owner'],
    },
  });
});
afterAll(() => platform?.close());

describe('what records say', () => {
  it('counts for preconditions: owners, references and lists of them', async () => {
    const resource = await create({ lead: bob.userId, crew: [bob.userId, cyd.userId] });
    const watch = { writes: [standing(cyd, 'watcher', resource)] };
    const expecting = async (exists: boolean, filter: object): Promise<number> =>
      (await change({ ...watch, preconditions: [{ exists, ...filter }] })).status;
    const there = [
      standing(ada, 'owner', resource),
      standing(bob, 'lead', resource),
      standing(cyd, 'crew', resource),
      { resource, relation: 'crew' },
      { subject: `User:${bob.userId}` },
    ];
    for (const filter of there)
      expect([await expecting(true, filter), await expecting(false, filter)]).toEqual([200, 412]);
    await patch(resource, { lead: null, crew: [bob.userId] });
    const gone = [
      standing(bob, 'owner', resource),
      standing(bob, 'lead', resource),
      standing(cyd, 'crew', resource),
      { resource, relation: 'lead' },
      { subject: `User:${ada.userId}`, relation: 'lead' },
      { subject: `Role:${bob.userId}#hold`, relation: 'crew' },
    ];
    for (const filter of gone)
      expect([await expecting(true, filter), await expecting(false, filter)]).toEqual([412, 200]);
  });

  it('is handed over by whoever is the first of many, and by nobody after', async () => {
    const resource = await create({ title: 'x' });
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        change({
          deletes: [standing(ada, 'owner', resource)],
          writes: [standing(i % 2 === 0 ? bob : cyd, 'owner', resource)],
          preconditions: [{ exists: true, ...standing(ada, 'owner', resource) }],
        }),
      ),
    );
    const statuses = answers.map(({ status }) => status).sort((a, b) => a - b);
    expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 412)]);
    expect(await ownersOf(resource)).toHaveLength(1);
  });

  it('is not deleted as a relation, where a field of the record says it', async () => {
    const resource = await create({ lead: bob.userId, crew: [cyd.userId] });
    for (const tuple of [standing(bob, 'lead', resource), standing(cyd, 'crew', resource)]) {
      expect(await change({ deletes: [tuple] })).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'deletes.0.relation', rule: 'record' }] },
      });
      const { relation } = tuple;
      expect(await change({ writes: [standing(bob, 'watcher', resource), tuple] })).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'writes.1.relation', rule: 'record' }] },
      });
      const filters: Record<string, string>[] = [
        { resource, relation },
        { resourceType: 'Job', relation },
        { subject: tuple.subject, relation },
        { subjectType: 'User', relation },
        tuple,
      ];
      for (const query of filters)
        expect(await platform.admin.delete('/authorization/relations', { query })).toMatchObject({
          status: 400,
          body: { errors: [{ path: 'relation', rule: 'record' }] },
        });
    }
    expect((await bob.api.get(`/database/Job/${resource.slice('Job:'.length)}`)).status).toBe(200);
  });
});
