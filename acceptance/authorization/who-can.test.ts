/** Who may do something: by people and by sets of them, on one resource and on several at once. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('who can', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    await permissions.define({
      name: 'Crew',
      relations: { member: ['User', 'Crew#member'], boss: ['User'] },
      permissions: { read: ['member'], lead: ['boss'] },
    });
    await permissions.define({
      name: 'Plan',
      relations: {
        reader: ['User', 'Crew#member', 'Crew#lead', 'User with place'],
        owner: ['Crew'],
        banned: ['User', 'Crew#member'],
      },
      permissions: {
        read: ['reader', 'owner->read'],
        calm: { exclusion: { base: ['reader'], subtract: ['banned'] } },
      },
      conditions: { place: { params: { place: 'string' }, rule: 'place == "home"' } },
    });
    await permissions.relate(
      'Crew:inner#member member Crew:outer',
      'User:ann member Crew:inner',
      'User:bea boss Crew:outer',
      'Crew:outer#member reader Plan:1',
      'Crew:outer#lead reader Plan:1',
      'Crew:other#member banned Plan:1',
      'Crew:inner#member banned Plan:1',
      'Crew:inner owner Plan:2',
      'User:cyd reader Plan:3',
    );
    const narrow = { subject: 'User:dan', relation: 'reader', resource: 'Plan:3' };
    expectStatus(
      await platform.admin.post('/authorization/relations', { ...narrow, condition: 'place' }),
      200,
      'narrow',
    );
  });
  afterAll(() => platform.close());

  const sets = async (
    subjectType: string,
    permission: string,
    resource: string,
    limit = 100,
  ): Promise<readonly string[]> => {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const query = { subjectType, permission, resource, limit, ...(cursor && { cursor }) };
      const answer = await platform.admin.get('/authorization/permissions/subjects', { query });
      const { body } = expectStatus(answer, 200, 'who');
      found.push(...body.subjects);
      cursor = body.cursor;
    } while (cursor !== undefined);
    return found;
  };
  const many = (body: Json) =>
    platform.admin.post('/authorization/permissions/subjects/many', body);

  it('lists sets of people, each of which a check allows', async () => {
    expect(await sets('Crew#member', 'read', 'Plan:1')).toEqual([
      'Crew:inner#member',
      'Crew:outer#member',
    ]);
    expect(await sets('Crew#member', 'read', 'Plan:1', 1)).toEqual([
      'Crew:inner#member',
      'Crew:outer#member',
    ]);
    expect(await sets('Crew#lead', 'read', 'Plan:1')).toEqual(['Crew:outer#lead']);
    // A set that is named on the other side of an exclusion has nothing.
    expect(await sets('Crew#member', 'calm', 'Plan:1')).toEqual(['Crew:outer#member']);
    // Whom an owner lets read are those for whom its own action holds.
    expect(await sets('Crew#member', 'read', 'Plan:2')).toEqual(['Crew:inner#member']);
    for (const set of ['Crew:inner#member', 'Crew:outer#member', 'Crew:outer#lead'])
      expect(await permissions.can(`${set} read Plan:1`)).toBe(true);
    expect(await permissions.can('Crew:other#member read Plan:1')).toBe(false);
    expect(await sets('User', 'read', 'Plan:1')).toEqual(['User:ann', 'User:bea']);
  });

  it('refuses forms that are none', async () => {
    for (const subjectType of ['Crew#nothing', 'Ghost#member', 'Crew#', '#member', 'Crew#a#b']) {
      const query = { subjectType, permission: 'read', resource: 'Plan:1' };
      const answer = await platform.admin.get('/authorization/permissions/subjects', { query });
      expect([subjectType, answer.status, answer.body.errors[0].path]).toEqual([
        subjectType,
        400,
        'subjectType',
      ]);
    }
  });

  it('answers for several resources at once, each in its own place', async () => {
    const resources = ['Plan:1', 'Plan:2', 'Plan:3', 'Plan:none'];
    const { body } = expectStatus(await many({ resources, permission: 'read' }), 200, 'many');
    expect(body.results).toEqual([
      { resource: 'Plan:1', subjects: ['User:ann', 'User:bea'] },
      { resource: 'Plan:2', subjects: ['User:ann'] },
      { resource: 'Plan:3', subjects: ['User:cyd'], incomplete: true },
      { resource: 'Plan:none', subjects: [] },
    ]);
    const home = { resources: ['Plan:3'], permission: 'read', context: { place: 'home' } };
    expect((await many(home)).body.results[0].subjects).toEqual(['User:cyd', 'User:dan']);
    const contextualTuples = [{ subject: 'User:eve', relation: 'reader', resource: 'Plan:none' }];
    const around = { resources, permission: 'read', contextualTuples };
    expect((await many(around)).body.results[3].subjects).toEqual(['User:eve']);
  });

  it('goes on from a page of one by its cursor, and names what is wrong', async () => {
    const first = await many({ resources: ['Plan:1'], permission: 'read', limit: 1 });
    const [{ subjects, cursor }] = expectStatus(first, 200, 'first').body.results;
    expect(subjects).toEqual(['User:ann']);
    const rest = await platform.admin.post('/authorization/permissions/subjects', {
      resource: 'Plan:1',
      permission: 'read',
      cursor,
    });
    expect(expectStatus(rest, 200, 'rest').body.subjects).toEqual(['User:bea']);
    const place = async (body: Json) => {
      const answer = await many(body);
      return [answer.status, answer.body.errors[0].path];
    };
    const permission = 'read';
    expect(await place({ resources: ['Plan:1', 'Plan'], permission })).toEqual([
      400,
      'resources.1',
    ]);
    expect(await place({ resources: ['Plan:1', 'Ghost:1'], permission })).toEqual([
      400,
      'resources.1',
    ]);
    expect(await place({ resources: ['Plan:1'], permission: 'fly' })).toEqual([400, 'permission']);
    const tooMany = Array.from({ length: 51 }, (_, i) => `Plan:${i}`);
    expect((await many({ resources: tooMany, permission })).status).toBe(400);
  });

  it('leaves out whom only records name, and who are not there', async () => {
    const toUser = { type: 'Relation', model: 'User' } as const;
    const rowAuthorised = { authorization: { enabled: true } } as const;
    const [ada, bob, cyd] = [
      await platform.registerUser(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    await platform.createSchema({
      name: 'Area',
      fields: { title: 'String' },
      conduitOptions: rowAuthorised,
    });
    await platform.createSchema({
      name: 'Job',
      fields: {
        workers: { type: [toUser] },
        areas: { type: [{ type: 'Relation', model: 'Area' }] },
        names: ['String'],
      },
      conduitOptions: rowAuthorised,
    });
    const rest = { edit: ['owner'], delete: ['owner'] };
    await permissions.define({
      name: 'Area',
      version: 1,
      relations: { owner: ['User'] },
      permissions: { read: ['*'], ...rest },
    });
    await permissions.define({
      name: 'Job',
      version: 1,
      relations: { owner: ['User'], worker: { from: 'workers' }, area: { from: 'areas' } },
      permissions: {
        read: ['owner', 'worker', 'area', { rule: 'caller.id in record.names' }],
        ...rest,
      },
    });
    const newDoc = async (schema: string, inputDocument: object): Promise<string> =>
      expectStatus(
        await platform.admin.post(`/database/schemas/${schema}/docs`, { inputDocument }),
        200,
        schema,
      ).body._id;
    const [here, gone] = [await newDoc('Area', {}), await newDoc('Area', {})];
    const job = await newDoc('Job', {
      workers: [ada.userId, bob.userId],
      areas: [here, gone],
      names: [cyd.userId, 'a word', 'User'],
    });
    const users = (...who: { userId: string }[]) =>
      who.map(({ userId }) => `User:${userId}`).sort();
    const read = (type: string) => sets(type, 'read', `Job:${job}`);
    expect(await read('User')).toEqual(users(ada, bob, cyd));
    expect(await sets('User', 'read', `Job:${job}`, 1)).toEqual(users(ada, bob, cyd));
    expect(await read('Area')).toEqual([`Area:${here}`, `Area:${gone}`].sort());
    for (const { userId } of [ada, cyd])
      expectStatus(await platform.admin.delete(`/authentication/users/${userId}`), 200, 'user');
    expectStatus(await platform.admin.delete(`/database/schemas/Area/docs/${gone}`), 200, 'area');
    expect(await read('User')).toEqual(users(bob));
    expect(await read('Area')).toEqual([`Area:${here}`]);
    // What everybody may is listed of areas that there are.
    expect(await permissions.list(`User:${bob.userId} read Area`)).toEqual([`Area:${here}`]);
    // Whom operators name is somebody for them.
    await permissions.relate(`User:eve owner Area:${here}`);
    await permissions.relate('User:eve owner Area:of-theirs');
    expect(await sets('User', 'edit', `Area:${here}`)).toEqual(['User:eve']);
    expect(await permissions.list('User:eve read Area')).toEqual(
      [`Area:${here}`, 'Area:of-theirs'].sort(),
    );
  });

  it('lists whom a rule names itself', async () => {
    const [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
    await platform.createSchema({
      name: 'Desk',
      fields: { region: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const gone = randomUUID();
    const read = [
      { rule: `caller.id == '${ada.userId}' || caller.id == '${gone}'` },
      { rule: `caller.id in {'eu': ['${bob.userId}']}[record.region]` },
    ];
    await permissions.define({
      name: 'Desk',
      version: 1,
      relations: { owner: ['User'] },
      permissions: { read, edit: [{ rule: `caller.id != '${ada.userId}'` }], delete: ['owner'] },
    });
    const who = async (region: string, permission: string): Promise<Json> => {
      const path = '/database/schemas/Desk/docs';
      const { body } = await platform.admin.post(path, { inputDocument: { region } });
      const query = { permission, resource: `Desk:${body._id}` };
      return (await platform.admin.get('/authorization/permissions/subjects', { query })).body;
    };
    const all = [ada, bob].map(({ userId }) => `User:${userId}`);
    expect(await who('eu', 'read')).toEqual({ subjects: all.toSorted() });
    expect(await who('us', 'read')).toEqual({ subjects: all.slice(0, 1) });
    expect(await who('us', 'edit')).toEqual({ subjects: ['User:*'] });
  });
});
