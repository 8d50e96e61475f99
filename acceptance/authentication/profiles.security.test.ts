/**
 * Public profiles: exactly the marked fields of a user, wherever a record refers to them, and nothing else
 * (CWE-359, exposure of private personal information): https://cwe.mitre.org/data/definitions/359.html
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const on = { enabled: true };
const signedIn = { enabled: true, authenticated: true };

/** What others never learn, not even by asking whether it has some value. */
const unmarked = [
  'email',
  'plan',
  'note',
  'hint',
  'secret',
  'active',
  'hashedPassword',
  '__v',
  'createdAt',
];

let platform: TestPlatform;
let anna: TestUser;
let bob: TestUser;
let task: string;

const configure = async (profiles: object, rest: object = {}) =>
  expectStatus(
    await platform.admin.patch('/config/authentication', { config: { profiles, ...rest } }),
    200,
    'configuration',
  );
const profileOf = (userId: string, api: Api = anna.api) =>
  api.get(`/authentication/users/${userId}/profile`);
const ask = async (query: string, api: Api = anna.api): Promise<Json> =>
  (await api.post('/graphql', { query })).body;

/** What everybody may know of Bob. */
const profileOfBob = () => ({ _id: bob.userId, displayName: 'Bob B.', avatar: { small: 's.png' } });

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const { schemas } = (await platform.admin.get('/database/schemas', { query: { limit: 100 } }))
    .body;
  const userSchema = schemas.find(({ name }: Json) => name === 'User')._id;
  const fields = {
    displayName: { type: 'String', access: { write: 'user' } },
    avatar: { small: 'String', original: { type: 'String', select: false } },
    plan: 'String',
    note: { type: 'String', access: { read: 'admin' } },
    hint: { type: 'String', access: { read: 'role:judge' } },
    secret: { type: 'String', select: false },
    mentor: { type: 'Relation', model: 'User' },
  };
  expectStatus(
    await platform.admin.post(`/database/schemas/${userSchema}/extensions`, { fields }),
    200,
    'extension',
  );
  anna = await platform.registerUser();
  bob = await platform.registerUser();
  const userData = {
    displayName: 'Bob B.',
    avatar: { small: 's.png', original: 'o.png' },
    plan: 'gold',
    note: 'n',
    hint: 'h',
    secret: 's',
    mentor: anna.userId,
  };
  expectStatus(
    await platform.admin.put(`/database/schemas/User/docs/${bob.userId}`, {
      changedDocument: userData,
    }),
    200,
    'data of Bob',
  );
  await platform.createSchema({
    name: 'Task',
    fields: {
      title: 'String',
      assignee: { type: 'Relation', model: 'User', onDelete: 'setNull' },
      watchers: [{ type: 'Relation', model: 'User' }],
    },
    conduitOptions: {
      cms: {
        enabled: true,
        crudOperations: { create: signedIn, read: on },
        query: {
          enabled: true,
          fields: ['displayName', ...unmarked].map((name) => `assignee.${name}`),
        },
      },
    },
  });
  const made = await anna.api.post('/database/Task', {
    title: 'Paint',
    assignee: bob.userId,
    watchers: [anna.userId, bob.userId],
  });
  task = expectStatus(made, 200, 'task').body._id;
});
afterAll(() => platform?.close());

describe('while nothing is marked', () => {
  it('there are no profiles, and references stay ids', async () => {
    expect((await profileOf(bob.userId)).status).toBe(404);
    expect(await anna.api.get(`/database/Task/${task}?populate=assignee`)).toMatchObject({
      status: 403,
      body: { code: 'POPULATE_FORBIDDEN' },
    });
    expect((await ask(`{ getDatabaseTaskId(id: "${task}") { assignee } }`)).data).toEqual({
      getDatabaseTaskId: { assignee: bob.userId },
    });
  });
});

describe('marked fields', () => {
  // Fields that are hidden, or that others may not read, stay so although they are marked.
  const fields = ['displayName', 'avatar', 'note', 'hint', 'secret', 'noSuchField'];
  beforeAll(() => configure({ fields }));

  it('are the profile, alone and by ids', async () => {
    expect(await profileOf(bob.userId)).toMatchObject({ status: 200 });
    expect((await profileOf(bob.userId)).body).toEqual(profileOfBob());
    const nobody = randomUUID();
    const ids = [bob.userId, nobody, anna.userId, bob.userId].join();
    const { body } = await anna.api.get(`/authentication/profiles?ids=${ids}`);
    expect(body).toEqual({
      documents: [profileOfBob(), { _id: anna.userId, displayName: null, avatar: null }],
      count: 2,
    });
    expect((await profileOf(nobody)).body).toMatchObject({ status: 404, code: 'USER_NOT_FOUND' });
  });

  it('need an account, and at most 100 ids', async () => {
    expect((await profileOf(bob.userId, platform.client)).status).toBe(401);
    const many = Array.from({ length: 101 }, () => randomUUID()).join();
    expect((await anna.api.get(`/authentication/profiles?ids=${many}`)).status).toBe(400);
    expect((await anna.api.get('/authentication/profiles?ids=7')).status).toBe(400);
    expect((await anna.api.get('/authentication/profiles')).status).toBe(400);
  });

  it('are what populate shows, in one record, in lists and in lists of references', async () => {
    const { body } = await anna.api.get(`/database/Task/${task}?populate=assignee,watchers`);
    expect(body.assignee).toEqual(profileOfBob());
    expect(body.watchers).toEqual([
      { _id: anna.userId, displayName: null, avatar: null },
      profileOfBob(),
    ]);
    const list = await anna.api.get('/database/Task?populate=assignee');
    expect(list.body.documents[0].assignee).toEqual(profileOfBob());
  });

  it('lead no further than they themselves', async () => {
    for (const path of ['assignee.mentor', 'assignee.plan', 'assignee._id'])
      expect(await anna.api.get(`/database/Task/${task}?populate=${path}`), path).toMatchObject({
        status: 400,
      });
  });

  it('are not readable as records, and operators see the whole user', async () => {
    expect((await anna.api.get('/database/User')).status).toBe(404);
    expect((await anna.api.get(`/database/User/${bob.userId}`)).status).toBe(404);
    const { schemas } = (await platform.admin.get('/database/schemas?search=Task')).body;
    const { body } = await platform.admin.get(
      `/database/schemas/${schemas[0].name}/docs/${task}?populate=assignee`,
    );
    expect(body.assignee).toMatchObject({ email: bob.email, plan: 'gold' });
  });

  it('are all that records can be found by', async () => {
    const found = (filter: object) => anna.api.post('/database/Task/query', { query: filter });
    expect(await found({ 'assignee.displayName': 'Bob B.' })).toMatchObject({
      status: 200,
      body: { count: 1 },
    });
    for (const name of unmarked)
      expect(await found({ [`assignee.${name}`]: 'x' }), name).toMatchObject({
        status: 400,
        body: { errors: [{ path: `query.assignee.${name}` }] },
      });
  });

  it('are an object of GraphQL, of which nothing else can be asked', async () => {
    const task1 = (selection: string) =>
      ask(`{ getDatabaseTaskId(id: "${task}") { ${selection} } }`);
    expect(
      (await task1('assignee { _id displayName } watchers { displayName }')).data.getDatabaseTaskId,
    ).toEqual({
      assignee: { _id: bob.userId, displayName: 'Bob B.' },
      watchers: [{ displayName: null }, { displayName: 'Bob B.' }],
    });
    for (const name of ['email', 'plan', '__v', 'hashedPassword', 'createdAt'])
      expect((await task1(`assignee { ${name} }`)).errors[0].message, name).toContain(
        'Cannot query field',
      );
    // The own account is whole.
    const own = await ask('{ getAuthenticationUser { email plan } }', bob.api);
    expect(own.data.getAuthenticationUser).toEqual({ email: bob.email, plan: 'gold' });
    const batch = `{ getAuthenticationProfiles(ids: ["${bob.userId}"]) { documents { displayName } } }`;
    expect((await ask(batch)).data.getAuthenticationProfiles.documents).toEqual([
      { displayName: 'Bob B.' },
    ]);
  });

  it('come with the members of a team', async () => {
    await configure({ fields: ['displayName', 'note'] }, { teams: { enabled: true } });
    const team = (await bob.api.post('/authentication/teams', { name: 'Painters' })).body._id;
    const { members } = (await bob.api.get(`/authentication/teams/${team}/members`)).body;
    expect(members).toMatchObject([{ displayName: 'Bob B.', email: bob.email, role: 'owner' }]);
    for (const name of ['plan', 'note', 'hint', 'secret', 'hashedPassword'])
      expect(members[0]).not.toHaveProperty(name);
  });
});

describe('who is public', () => {
  it('visitors see profiles only where the operator says so', async () => {
    await configure({ fields: ['displayName'], visitors: false });
    const path = `/database/Task/${task}?populate=assignee`;
    expect((await platform.client.get(path)).body.code).toBe('POPULATE_FORBIDDEN');
    await configure({ fields: ['displayName'], visitors: true });
    const profile = { _id: bob.userId, displayName: 'Bob B.' };
    expect((await platform.client.get(path)).body.assignee).toEqual(profile);
    expect((await profileOf(bob.userId, platform.client)).body).toEqual(profile);
    await configure({ visitors: false });
  });

  it('a blocked user keeps their name unless the operator wants it gone', async () => {
    const carl = await platform.registerUser();
    const path = `/database/Task/${task}?populate=watchers`;
    expectStatus(
      await platform.admin.post(`/authentication/users/${bob.userId}/block`),
      200,
      'block',
    );
    await configure({ fields: ['displayName'], hideBlocked: false });
    expect((await profileOf(bob.userId, carl.api)).body.displayName).toBe('Bob B.');
    await configure({ hideBlocked: true });
    expect((await profileOf(bob.userId, carl.api)).status).toBe(404);
    const { watchers } = (await carl.api.get(path)).body;
    expect(watchers).toEqual([{ _id: anna.userId, displayName: null }, bob.userId]);
    const query = `{ getDatabaseTaskId(id: "${task}") { assignee { _id displayName } } }`;
    expect((await ask(query, carl.api)).data.getDatabaseTaskId.assignee).toEqual({
      _id: bob.userId,
      displayName: null,
    });
    await platform.admin.post(`/authentication/users/${bob.userId}/unblock`);
    expect((await profileOf(bob.userId, carl.api)).body.displayName).toBe('Bob B.');
  });

  it('a deleted user is gone', async () => {
    const dora = await platform.registerUser();
    const made = await anna.api.post('/database/Task', { title: 'x', watchers: [dora.userId] });
    await platform.admin.delete(`/authentication/users/${dora.userId}`);
    expect((await profileOf(dora.userId)).status).toBe(404);
    const { body } = await anna.api.get(`/database/Task/${made.body._id}?populate=watchers`);
    expect(JSON.stringify(body.watchers)).not.toContain('displayName');
  });

  it('what users do not have is told where it is marked', async () => {
    const { body } = await configure({ fields: ['displayName', 'displayname'] });
    expect(body.warnings).toEqual([
      'profiles.fields.1: users have no field "displayname"; it is shown once they do',
    ]);
    expect((await configure({ fields: ['displayName'] })).body.warnings).toEqual([]);
  });

  it('what is a matter of the account cannot be marked', async () => {
    for (const name of ['hashedPassword', 'active', 'hasTwoFA', 'twoFaMethod', 'isVerified'])
      expect(
        await platform.admin.patch('/config/authentication', {
          config: { profiles: { fields: ['displayName', name] } },
        }),
        name,
      ).toMatchObject({ status: 400, body: { errors: [{ path: 'profiles.fields.1' }] } });
  });
});
