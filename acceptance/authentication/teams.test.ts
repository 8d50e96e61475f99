/** Teams from the making to the end: parents, default team, invitations, registration, records, erasure. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let owner: TestUser;
let guest: TestUser;
let counter = 0;
const next = (): number => {
  counter += 1;
  return counter;
};

const unique = (what: string): string => `${what} ${next()}`;
const teamPath = '/authentication/teams';
const configure = async (teams: object, rest: object = {}) =>
  expect(
    (await platform.admin.patch('/config/authentication', { config: { teams, ...rest } })).status,
  ).toBe(200);
const createTeam = async (user: TestUser, body: object = {}): Promise<string> =>
  (await user.api.post(teamPath, { name: unique('team'), ...body })).body._id as string;
const roleOf = async (team: string, user: TestUser): Promise<string | undefined> => {
  const { body } = await platform.admin.get(`${teamPath}/${team}/members?search=${user.userId}`);
  return (body.members as { role: string }[])[0]?.role;
};
const invite = async (team: string, body: object, by = owner): Promise<string> =>
  String((await by.api.post(`${teamPath}/${team}/invite`, body)).body.result);

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  owner = await platform.registerUser();
  guest = await platform.registerUser();
});
beforeEach(() => configure({ enabled: true, invites: { enabled: true } }));
afterAll(() => platform?.close());

test('there are no routes while teams are off or nobody can answer for permissions', async () => {
  await configure({ enabled: false });
  expect((await owner.api.get(teamPath)).status).toBe(404);
  expect((await platform.admin.get(`${teamPath}/${randomUUID()}`)).status).toBe(404);
  await configure({ enabled: true });
  expect((await owner.api.get(teamPath)).status).toBe(200);
  await platform.admin.patch('/config/authorization', { config: { active: false } });
  expect((await owner.api.get(teamPath)).status).toBe(404);
  await platform.admin.patch('/config/authorization', { config: { active: true } });
  expect((await owner.api.get(teamPath)).status).toBe(200);
});

describe('a team', () => {
  test('is created, read, listed with its parent, renamed and deleted', async () => {
    const created = await owner.api.post(teamPath, { name: '  Readers  ' });
    expect(created).toMatchObject({
      status: 200,
      body: { name: 'Readers', parentTeam: null, isDefault: false },
    });
    const parentTeam = created.body._id as string;
    const sub = await createTeam(owner, { parentTeam, addCreatorToTeam: true });
    const other = await createTeam(owner, { parentTeam });
    const listed = (await owner.api.get(`${teamPath}?populate=parentTeam&search=${sub}`)).body;
    expect(listed).toMatchObject({
      count: 1,
      teams: [{ _id: sub, parentTeam: { _id: parentTeam, name: 'Readers' } }],
    });
    expect((await owner.api.get(`${teamPath}?search=${other}`)).body).toEqual({
      teams: [],
      count: 0,
    });
    expect((await owner.api.get(`${teamPath}/${parentTeam}/teams?sort=-name`)).body).toMatchObject({
      count: 2,
    });
    expect(
      (await owner.api.patch(`${teamPath}/${sub.toUpperCase()}`, { name: 'Writers' })).body,
    ).toMatchObject({
      _id: sub,
      name: 'Writers',
    });
    expect((await owner.api.delete(`${teamPath}/${parentTeam}`)).status).toBe(200);
    expect((await platform.admin.get(`${teamPath}/${sub}`)).body).toMatchObject({
      parentTeam: null,
    });
    expect(
      (await platform.admin.get(`/authorization/relations?subject=Team:${parentTeam}`)).body.count,
    ).toBe(0);
    expect((await owner.api.get(`${teamPath}/${parentTeam}`)).status).toBe(404);
  });

  test('shows its parent only to those who may read that', async () => {
    const parentTeam = await createTeam(owner);
    const sub = await createTeam(owner, { parentTeam });
    await platform.admin.post(`${teamPath}/${sub}/members`, { members: [guest.userId] });
    expect((await guest.api.get(`${teamPath}/${sub}?populate=parentTeam`)).body).toMatchObject({
      parentTeam,
    });
    expect((await owner.api.get(`${teamPath}/${sub}?populate=parentTeam`)).body).toMatchObject({
      parentTeam: { _id: parentTeam },
    });
  });

  test('has a name of its own at its place, also for two at once', async () => {
    const parentTeam = await createTeam(owner);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => owner.api.post(teamPath, { name: 'twin', parentTeam })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([
      200, 409, 409, 409, 409, 409, 409, 409,
    ]);
    expect(answers.find(({ status }) => status === 409)?.body).toMatchObject({
      code: 'TEAM_EXISTS',
      errors: [{ path: 'name' }],
    });
    const name = unique('root');
    expect((await owner.api.post(teamPath, { name })).status).toBe(200);
    expect((await owner.api.post(teamPath, { name: `${name} ` })).status).toBe(409);
    // Another customer's team is nobody's business: its name is neither taken nor told.
    expect((await guest.api.post(teamPath, { name })).status).toBe(200);
    expect((await platform.admin.post(teamPath, { name })).status).toBe(200);
    expect((await platform.admin.post(teamPath, { name })).status).toBe(409);
  });

  test.each([[''], ['   '], ['x'.repeat(101)], ['a\u0000b'], ['a\nb'], ['a\u202eb'], [7], [null]])(
    'cannot be called %j',
    async (name) => {
      expect((await owner.api.post(teamPath, { name })).status).toBe(400);
    },
  );

  test('that is the default cannot be deleted, and is one', async () => {
    const created = await platform.admin.post(teamPath, {
      name: unique('default'),
      isDefault: true,
    });
    expect(created.status).toBe(200);
    expect(
      await platform.admin.post(teamPath, { name: unique('default'), isDefault: true }),
    ).toMatchObject({
      status: 409,
      body: { code: 'DEFAULT_TEAM_EXISTS' },
    });
    const path = `${teamPath}/${created.body._id}`;
    expect((await platform.admin.delete(path)).status).toBe(412);
    await platform.admin.post(`${path}/members`, { members: [owner.userId], role: 'owner' });
    expect((await owner.api.delete(path)).status).toBe(412);
    expect((await platform.admin.patch(path, { isDefault: false })).status).toBe(200);
    expect((await platform.admin.delete(path)).status).toBe(200);
    expect((await platform.admin.delete(path)).status).toBe(404);
  });

  test('is not deleted while a sub-team would clash with another team', async () => {
    const name = unique('taken');
    await createTeam(guest, { name });
    const own = await createTeam(owner, { name });
    const parentTeam = await createTeam(owner);
    const sub = await createTeam(owner, { parentTeam, name });
    expect(await owner.api.delete(`${teamPath}/${parentTeam}`)).toMatchObject({
      status: 409,
      body: { code: 'TEAM_EXISTS' },
    });
    expect((await platform.admin.get(`${teamPath}/${sub}`)).body).toMatchObject({ parentTeam });
    // The same name at another customer is not in the way.
    expect((await owner.api.delete(`${teamPath}/${own}`)).status).toBe(200);
    expect((await owner.api.delete(`${teamPath}/${parentTeam}`)).status).toBe(200);
  });

  test('does not show who made it', async () => {
    const made = await owner.api.post(teamPath, { name: unique('shown') });
    const seen = [
      made.text,
      (await owner.api.get(teamPath)).text,
      (await platform.admin.get(`${teamPath}/${made.body._id}`)).text,
    ];
    expect(seen.join()).not.toContain('madeBy');
    expect(
      (await owner.api.post(teamPath, { name: unique('forged'), madeBy: null })).text,
    ).not.toContain('madeBy');
  });
});

describe('a move', () => {
  const move = (team: string, parentTeam: string | null) =>
    platform.admin.patch(`${teamPath}/${team}`, { parentTeam });

  test('changes what the parent passes on, at once', async () => {
    const from = await createTeam(owner);
    const to = await createTeam(guest);
    const team = await createTeam(owner, { parentTeam: from });
    expect([
      (await owner.api.get(`${teamPath}/${team}`)).status,
      (await guest.api.get(`${teamPath}/${team}`)).status,
    ]).toEqual([200, 403]);
    expect((await move(team, to)).status).toBe(200);
    expect([
      (await owner.api.get(`${teamPath}/${team}`)).status,
      (await guest.api.get(`${teamPath}/${team}`)).status,
    ]).toEqual([403, 200]);
    expect((await move(team, null)).body).toMatchObject({ parentTeam: null });
    expect((await guest.api.get(`${teamPath}/${team}`)).status).toBe(403);
  });

  test('never closes a circle, also not by several at once', async () => {
    const [a, b, c] = [await createTeam(owner), await createTeam(owner), await createTeam(owner)];
    expect((await move(a, a)).status).toBe(400);
    const answers = await Promise.all([move(a, b), move(b, c), move(c, a)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 400]);
    expect(answers.find(({ status }) => status === 400)?.body).toMatchObject({
      errors: [{ path: 'parentTeam', rule: 'circle' }],
    });
  });

  test('keeps within ten levels', async () => {
    let deepest = await createTeam(owner);
    for (let level = 2; level <= 10; level += 1)
      deepest = await createTeam(owner, { parentTeam: deepest });
    expect(await owner.api.post(teamPath, { name: 'too deep', parentTeam: deepest })).toMatchObject(
      {
        status: 400,
        body: { errors: [{ rule: 'depth' }] },
      },
    );
    const parent = await createTeam(owner);
    await createTeam(owner, { parentTeam: parent });
    expect((await move(parent, deepest)).status).toBe(400);
    expect((await owner.api.get(`${teamPath}/${deepest}`)).status).toBe(200);
    expect((await move(parent, '00000000-0000-7000-8000-000000000000')).status).toBe(400);
  });
});

describe('members', () => {
  test('are found, sorted, paged and counted by the database, each once with the highest role', async () => {
    const team = await createTeam(owner);
    const found = [];
    for (let i = 0; i < 5; i += 1)
      found.push(await platform.registerUser({ email: `page${i}@members.example` }));
    await platform.admin.post(`${teamPath}/${team}/members`, {
      members: found.map(({ userId }) => userId),
    });
    await platform.admin.post('/authorization/relations', {
      subject: `User:${found[0]?.userId}`,
      relation: 'editAll',
      resource: `Team:${team}`,
    });
    const page = (
      await owner.api.get(`${teamPath}/${team}/members?search=@MEMBERS.&sort=-email&skip=1&limit=2`)
    ).body;
    expect(page).toMatchObject({
      count: 5,
      members: [{ email: 'page3@members.example' }, { email: 'page2@members.example' }],
    });
    const roles = (await owner.api.get(`${teamPath}/${team}/members?sort=-role&limit=3`)).body;
    expect(roles).toMatchObject({
      count: 6,
      members: [
        { role: 'owner' },
        { role: 'editAll', email: 'page0@members.example' },
        { role: 'member' },
      ],
    });
    expect((await owner.api.get(`${teamPath}/${team}/members?search=%25`)).body.count).toBe(0);
    expect((await owner.api.get(`${teamPath}/${team}/members?sort=hashedPassword`)).status).toBe(
      400,
    );
    expect((await owner.api.get(`${teamPath}/${team}/members?limit=1001`)).status).toBe(400);
  });

  test('see little of each other; operators see the user', async () => {
    const team = await createTeam(owner);
    const [seen] = (await owner.api.get(`${teamPath}/${team}/members`)).body.members as Record<
      string,
      unknown
    >[];
    expect(Object.keys(seen ?? {}).sort()).toEqual([
      '__v',
      '_id',
      'active',
      'createdAt',
      'email',
      'isAnonymous',
      'isVerified',
      'role',
      'updatedAt',
      'username',
    ]);
    const [whole] = (await platform.admin.get(`${teamPath}/${team}/members`)).body
      .members as Record<string, unknown>[];
    expect(whole).toHaveProperty('phoneNumber');
    expect(whole).not.toHaveProperty('hashedPassword');
  });

  test('are changed all or none, and get one role in place of all others', async () => {
    const team = await createTeam(owner);
    await platform.admin.post(`${teamPath}/${team}/members`, { members: [guest.userId] });
    const path = `${teamPath}/${team}/members`;
    const stranger = await platform.registerUser();
    expect(
      await owner.api.patch(path, { members: [guest.userId, stranger.userId], role: 'readAll' }),
    ).toMatchObject({
      status: 400,
      body: { code: 'MEMBER_UNKNOWN' },
    });
    expect(await roleOf(team, guest)).toBe('member');
    expect(
      (
        await owner.api.patch(path, {
          members: [guest.userId, guest.userId.toUpperCase()],
          role: 'editAll',
        })
      ).status,
    ).toBe(200);
    const { body } = await platform.admin.get(
      `/authorization/relations?subject=User:${guest.userId}&resource=Team:${team}`,
    );
    expect(body).toMatchObject({ count: 1, relations: [{ relation: 'editAll' }] });
    expect(
      (await platform.admin.post(path, { members: ['00000000-0000-7000-8000-000000000000'] }))
        .status,
    ).toBe(400);
    expect((await platform.admin.post(path, { members: ['no id'] })).status).toBe(400);
    expect((await platform.admin.post(path, { members: [] })).status).toBe(400);
    expect(
      (
        await platform.admin.post(`${teamPath}/00000000-0000-7000-8000-000000000000/members`, {
          members: [guest.userId],
        })
      ).status,
    ).toBe(404);
  });

  test('who are deleted leave nothing behind', async () => {
    const team = await createTeam(owner);
    const gone = await platform.registerUser();
    await platform.admin.post(`${teamPath}/${team}/members`, {
      members: [gone.userId],
      role: 'editAll',
    });
    await invite(team, { email: 'invited-by@gone.example', role: 'member' }, gone);
    await invite(team, { email: gone.email, role: 'owner' });
    expect((await gone.api.delete('/authentication/user')).status).toBe(200);
    expect(
      (await platform.admin.get(`/authorization/relations?subject=User:${gone.userId}`)).body.count,
    ).toBe(0);
    expect((await platform.admin.get(`${teamPath}/${team}/invites`)).body).toEqual({
      invites: [],
      count: 0,
    });
    expect((await owner.api.get(`${teamPath}/${team}/members`)).body.count).toBe(1);
  });

  test('can leave, but for the last owner of a team that no other owns', async () => {
    const team = await createTeam(owner);
    const leave = (user: TestUser) => user.api.post(`${teamPath}/${team}/leave`);
    expect(await leave(guest)).toMatchObject({ status: 400, body: { code: 'MEMBER_UNKNOWN' } });
    await platform.admin.post(`${teamPath}/${team}/members`, {
      members: [guest.userId],
      role: 'owner',
    });
    const answers = await Promise.all([leave(owner), leave(guest)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect((await platform.admin.get(`${teamPath}/${team}/members`)).body).toMatchObject({
      count: 1,
      members: [{ role: 'owner' }],
    });
  });

  test('cannot be added without an invitation unless that is allowed', async () => {
    const team = await createTeam(owner);
    expect((await owner.api.post(`${teamPath}/${team}/add`, { userId: guest.userId })).status).toBe(
      404,
    );
    await configure({ enabled: true, allowAddWithoutInvite: true });
    expect((await owner.api.post(`${teamPath}/${team}/add`, { userId: guest.userId })).status).toBe(
      200,
    );
    expect(await roleOf(team, guest)).toBe('member');
    expect(await owner.api.post(`${teamPath}/${team}/add`, { userId: team })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'userId' }] },
    });
    // Whoever makes a team would else read the address of everybody whose id they know.
    const members = (query: Record<string, string>) =>
      owner.api.get(`${teamPath}/${team}/members`, { query }).then(({ body }) => body);
    const shown = async (): Promise<unknown> =>
      (await members({})).members.find(({ _id }: { _id: string }) => _id === guest.userId).email;
    expect(await shown()).toBeNull();
    expect((await members({ search: guest.email })).count).toBe(0);
    expect((await members({ search: guest.userId })).count).toBe(1);
    expect((await members({ search: owner.email })).members[0]?.email).toBe(owner.email);
    const own = await platform.admin.get(`${teamPath}/${team}/members`, {
      query: { search: guest.email },
    });
    expect(own.body.members[0].email).toBe(guest.email);
    await configure({ enabled: true, allowAddWithoutInvite: true, invites: { enabled: true } });
    const { result } = (
      await owner.api.post(`${teamPath}/${team}/invite`, { email: guest.email, role: 'member' })
    ).body;
    const accepted = await guest.api.post(`${teamPath}/invite/accept`, { invitationToken: result });
    expect(accepted.status, accepted.text).toBe(200);
    expect(await shown()).toBe(guest.email);
    await configure({ enabled: true, allowAddWithoutInvite: false });
    expect((await owner.api.post(`${teamPath}/${team}/add`, { userId: guest.userId })).status).toBe(
      404,
    );
  });
});

describe('what a member may do with records of their team', () => {
  test.each([
    ['none', [404, 404]],
    ['read', [200, 403]],
    ['edit', [200, 200]],
  ] as const)('memberAccess %s', async (memberAccess, [reads, edits]) => {
    await configure({ enabled: true, memberAccess });
    const schema = `Note${memberAccess}`;
    await platform.createSchema({
      name: schema,
      fields: { text: 'String' },
      conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
    });
    const team = await createTeam(owner);
    const parent = await createTeam(owner);
    const relative = await platform.registerUser();
    await platform.admin.patch(`${teamPath}/${team}`, { parentTeam: parent });
    await platform.admin.post(`${teamPath}/${team}/members`, { members: [guest.userId] });
    await platform.admin.post(`${teamPath}/${parent}/members`, { members: [relative.userId] });
    const { body: note } = await owner.api.post(`/database/${schema}?scope=Team:${team}`, {
      text: 'ours',
    });
    expect((await guest.api.get(`/database/${schema}/${note._id}`)).status).toBe(reads);
    expect(
      (await guest.api.patch(`/database/${schema}/${note._id}`, { text: 'mine' })).status,
    ).toBe(edits);
    // A member of the parent gets nothing from below, and nobody runs a team by editing its records.
    expect((await relative.api.get(`/database/${schema}/${note._id}`)).status).toBe(404);
    expect((await guest.api.patch(`${teamPath}/${team}`, { name: unique('mine') })).status).toBe(
      403,
    );
    expect(
      (await guest.api.post(`${teamPath}/${team}/invite`, { email: 'a@b.example', role: 'member' }))
        .status,
    ).toBe(403);
    expect((await guest.api.get(`${teamPath}/${team}/teams`)).status).toBe(403);
  });
});

test('a definition of Team that an operator wrote stays as it is', async () => {
  const read = async () =>
    (await platform.admin.get('/authorization/resources/Team')).body as {
      relations: object;
      permissions: Record<string, string[]>;
    };
  const { relations, permissions } = await read();
  const own = { ...permissions, applaud: ['member'] };
  expect(
    (await platform.admin.patch('/authorization/resources/Team', { relations, permissions: own }))
      .status,
  ).toBe(200);
  await configure({ enabled: true, memberAccess: 'none' });
  expect((await read()).permissions).toEqual(own);
  const { invite: _, ...without }: Record<string, string[]> = own;
  const lost = await platform.admin.patch('/authorization/resources/Team', {
    relations,
    permissions: without,
  });
  expect([lost.status, lost.body.errors?.[0].path]).toEqual([409, 'permissions.invite']);
  expect(
    (await platform.admin.patch('/authorization/resources/Team', { relations, permissions }))
      .status,
  ).toBe(200);
  await configure({ enabled: true, memberAccess: 'read' });
  expect((await read()).permissions.read).toContain('member');
});
