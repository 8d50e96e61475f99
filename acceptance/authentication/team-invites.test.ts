/** Invitations to teams: by mail, persistent, at registration; what they prove, and what lists do not show. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createTestWallet } from '../../test/support/wallet.ts';

let platform: TestPlatform;
let owner: TestUser;
let team: string;
let counter = 0;
const next = (): number => {
  counter += 1;
  return counter;
};

const teamPath = '/authentication/teams';
const address = (): string => `guest${next()}@invited.example`;
const configure = async (teams: object) => {
  const invites = {
    enabled: true,
    sendEmail: false,
    inviteUrl: 'https://app.example.com/join?from=mail',
    maxPerDay: 200,
  };
  const all = {
    enabled: true,
    enableDefaultTeam: false,
    allowRegistrationWithoutInvite: true,
    allowEmailMismatchForInvites: false,
    ...teams,
  };
  const answer = await platform.admin.patch('/config/authentication', {
    config: {
      teams: { ...all, invites: { ...invites, ...(all as { invites?: object }).invites } },
    },
  });
  expect(answer).toMatchObject({ status: 200 });
};
const createTeam = async (): Promise<string> =>
  (await owner.api.post(teamPath, { name: `team ${next()}` })).body._id as string;
const invite = async (body: object): Promise<string> => {
  const answer = await owner.api.post(`${teamPath}/${team}/invite`, body);
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body.result);
};
const persistent = async (role = 'member'): Promise<string> =>
  String((await owner.api.post(`${teamPath}/${team}/invite/persistent`, { role })).body.result);
const accept = (user: TestUser, invitationToken: string) =>
  user.api.post(`${teamPath}/invite/accept`, { invitationToken });
const verify = (user: TestUser) =>
  platform.admin.patch(`/authentication/users/${user.userId}`, { isVerified: true });
const roleOf = async ({ userId }: { readonly userId: string }): Promise<string | undefined> => {
  const { body } = await platform.admin.get(`${teamPath}/${team}/members?search=${userId}`);
  return (body.members as { role: string }[])[0]?.role;
};
const register = (body: object) =>
  platform.client.post('/authentication/local/new', { password: 'Battery-Staple-17', ...body });
/** The link in the last mail to an address. */
const mailedTo = async (recipient: string): Promise<URL> => {
  const links = await waitFor(async () => {
    const { body } = await platform.admin.get('/communications/messages', { query: { recipient } });
    return (await platform.admin.get(`/communications/messages/${body.messages[0]._id}`)).body
      .content?.links as string[] | undefined;
  });
  return new URL(String(links[0]));
};

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  owner = await platform.registerUser();
  await configure({});
});
beforeEach(async () => {
  await configure({});
  team = await createTeam();
});
afterAll(() => platform?.close());

describe('an invitation to an address', () => {
  test('works once, for the user with that address, whatever its case', async () => {
    const user = await platform.registerUser({ email: address() });
    const token = await invite({ email: user.email.toUpperCase(), role: 'editAll' });
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(await accept(await platform.registerUser(), token)).toMatchObject({
      status: 403,
      body: { code: 'INVALID_INVITATION' },
    });
    expect((await accept(user, token)).body).toEqual({ result: 'OK' });
    expect(await roleOf(user)).toBe('editAll');
    expect((await accept(user, token)).status).toBe(403);
  });

  test('of 50 uses at once exactly one succeeds', async () => {
    const user = await platform.registerUser({ email: address() });
    const token = await invite({ email: user.email, role: 'member' });
    const answers = await Promise.all(Array.from({ length: 50 }, () => accept(user, token)));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(new Set(statuses)).toEqual(new Set([200, 403, 429]));
  });

  test('replaces an earlier one, and is revoked by the address', async () => {
    const user = await platform.registerUser({ email: address() });
    const first = await invite({ email: user.email, role: 'member' });
    const second = await invite({ email: user.email, role: 'readAll' });
    expect((await owner.api.get(`${teamPath}/${team}/invites`)).body).toMatchObject({
      count: 1,
      invites: [{ role: 'readAll' }],
    });
    expect((await accept(user, first)).status).toBe(403);
    const revoke = () =>
      owner.api.delete(`${teamPath}/${team}/invite`, { query: { email: user.email } });
    expect([(await revoke()).status, (await revoke()).status]).toEqual([200, 404]);
    expect((await accept(user, second)).status).toBe(403);
  });

  test('may be used with other addresses where that is allowed', async () => {
    const token = await invite({ email: address(), role: 'member' });
    const user = await platform.registerUser();
    expect((await accept(user, token)).status).toBe(403);
    await configure({ allowEmailMismatchForInvites: true });
    expect((await accept(user, token)).status).toBe(200);
  });

  test('never takes a higher role away', async () => {
    const user = await platform.registerUser({ email: address() });
    await platform.admin.post(`${teamPath}/${team}/members`, {
      members: [user.userId],
      role: 'editAll',
    });
    expect((await accept(user, await invite({ email: user.email, role: 'member' }))).status).toBe(
      200,
    );
    expect(await roleOf(user)).toBe('editAll');
    expect((await accept(user, await invite({ email: user.email, role: 'owner' }))).status).toBe(
      200,
    );
    expect(await roleOf(user)).toBe('owner');
  });

  test('is worth what its maker may still give', async () => {
    const helper = await platform.registerUser();
    const give = (role: string) =>
      platform.admin.patch(`${teamPath}/${team}/members`, { members: [helper.userId], role });
    await platform.admin.post(`${teamPath}/${team}/members`, {
      members: [helper.userId],
      role: 'editAll',
    });
    const user = await platform.registerUser({ email: address() });
    const { result } = (
      await helper.api.post(`${teamPath}/${team}/invite`, { email: user.email, role: 'editAll' })
    ).body;
    await give('readAll');
    expect((await accept(user, String(result))).status).toBe(403);
    await give('editAll');
    await platform.admin.post(`/authentication/users/${helper.userId}/block`);
    expect((await accept(user, String(result))).status).toBe(403);
    await platform.admin.post(`/authentication/users/${helper.userId}/unblock`);
    expect((await accept(user, String(result))).status).toBe(200);
  });

  test('goes with its team', async () => {
    const user = await platform.registerUser({ email: address() });
    const token = await invite({ email: user.email, role: 'member' });
    expect((await owner.api.delete(`${teamPath}/${team}`)).status).toBe(200);
    expect((await accept(user, token)).status).toBe(403);
  });

  test('is not made while invitations are off', async () => {
    await configure({ invites: { enabled: false } });
    expect(
      await owner.api.post(`${teamPath}/${team}/invite`, { email: address(), role: 'member' }),
    ).toMatchObject({
      status: 403,
      body: { code: 'INVITES_DISABLED' },
    });
    expect(
      (await owner.api.post(`${teamPath}/${team}/invite/persistent`, { role: 'member' })).status,
    ).toBe(403);
  });

  test.each([
    { email: 'nobody', role: 'member' },
    { email: 'a@b.example', role: 'admin' },
    { email: 'a@b.example', role: 'owner->read' },
    { role: 'member' },
    { email: 'a@b.example', role: 'member', userData: { isVerified: true } },
    { email: 'a@b.example', role: 'member', userData: { hashedPassword: 'x' } },
    { email: 'somebody@anonymous.com', role: 'member' },
  ])('%j is refused', async (body) => {
    expect((await owner.api.post(`${teamPath}/${team}/invite`, body)).status).toBe(400);
  });
});

describe('a list of invitations', () => {
  /** spec/authentication.md W2; CWE-200, https://cwe.mitre.org/data/definitions/200.html */
  test('shows no token, to nobody', async () => {
    const user = await platform.registerUser({ email: address() });
    await verify(user);
    const tokens = [await invite({ email: user.email, role: 'member' }), await persistent()];
    for (const { text } of [
      await owner.api.get(`${teamPath}/${team}/invites`),
      await platform.admin.get(`${teamPath}/${team}/invites`),
      await user.api.get(`${teamPath}/invites`),
    ]) {
      for (const token of tokens) expect(text).not.toContain(token);
    }
  });

  test('of the own ones gives a handle that is worth nothing to others', async () => {
    const user = await platform.registerUser({ email: address() });
    await invite({ email: user.email, role: 'readAll' });
    const mine = async () =>
      (await user.api.get(`${teamPath}/invites`)).body.invites as {
        teamId: string;
        role: string;
        invitationToken: string;
      }[];
    // An address that nobody has proven may be somebody else's.
    expect(await mine()).toEqual([]);
    await verify(user);
    const [own] = await mine();
    expect(own).toMatchObject({ teamId: team, role: 'readAll' });
    const handle = own?.invitationToken ?? '';
    expect((await accept(await platform.registerUser(), handle)).status).toBe(403);
    expect(
      (
        await platform.client.get(`${teamPath}/invite/user/data`, {
          query: { invitationToken: handle },
        })
      ).status,
    ).toBe(404);
    expect((await register({ email: address(), invitationToken: handle })).status).toBe(403);
    expect((await accept(user, handle)).status).toBe(200);
    expect(await roleOf(user)).toBe('readAll');
  });

  test('of the own ones shows what its inviter may still give', async () => {
    const [user, helper] = [
      await platform.registerUser({ email: address() }),
      await platform.registerUser(),
    ];
    await verify(user);
    const members = `${teamPath}/${team}/members`;
    const give = (role: string) => platform.admin.post(members, { members: [helper.userId], role });
    const rolesOffered = async () =>
      (await user.api.get(`${teamPath}/invites`)).body.invites.map(
        ({ role }: { role: string }) => role,
      );
    expect((await give('editAll')).status).toBe(200);
    const sub = (await owner.api.post(teamPath, { name: `team ${next()}` })).body._id;
    const offer = { email: user.email, role: 'editAll' };
    await owner.api.post(`${teamPath}/${sub}/invite`, { ...offer, role: 'member' });
    expect((await helper.api.post(`${teamPath}/${team}/invite`, offer)).status).toBe(200);
    expect((await rolesOffered()).sort()).toEqual(['editAll', 'member']);
    await platform.admin.post(`/authentication/users/${helper.userId}/block`);
    expect(await rolesOffered()).toEqual(['member']);
    await platform.admin.post(`/authentication/users/${helper.userId}/unblock`);
    expect((await rolesOffered()).sort()).toEqual(['editAll', 'member']);
    expect((await owner.api.delete(`${members}?members=${helper.userId}`)).status).toBe(200);
    expect(await rolesOffered()).toEqual(['member']);
  });

  test('are made by one user up to a number in a day, whatever teams they make', async () => {
    await configure({ invites: { maxPerDay: 2 } });
    const user = await platform.registerUser();
    const statuses: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      const made = await user.api.post(teamPath, { name: `team ${next()}` });
      const body = { email: address(), role: 'member' };
      statuses.push((await user.api.post(`${teamPath}/${made.body._id}/invite`, body)).status);
    }
    expect(statuses).toEqual([200, 200, 429, 429]);
    await configure({});
  });

  test('of a user without an address is empty', async () => {
    await invite({ email: address(), role: 'owner' });
    await persistent('owner');
    const { body } = await platform.admin.post('/authentication/users', {
      username: `name${next()}`,
      password: 'Battery-Staple-17',
    });
    await platform.admin.patch('/config/authentication', {
      config: { local: { username_auth_enabled: true } },
    });
    const login = await platform.client.post('/authentication/username', {
      username: body.user.username,
      password: 'Battery-Staple-17',
    });
    const api = platform.client.with({ authorization: `Bearer ${login.body.accessToken}` });
    expect((await api.get(`${teamPath}/invites`)).body).toEqual({ invites: [] });
  });
});

describe('a persistent invitation', () => {
  test('works for everybody until it is revoked, by its token or its id', async () => {
    const token = await persistent('readAll');
    const users = [await platform.registerUser(), await platform.registerUser()];
    for (const user of users) expect((await accept(user, token)).status).toBe(200);
    expect(await Promise.all(users.map(roleOf))).toEqual(['readAll', 'readAll']);
    const revoke = (invitationToken: string) =>
      owner.api.delete(`${teamPath}/${team}/invite/persistent`, { query: { invitationToken } });
    expect([(await revoke(token)).status, (await revoke(token)).status]).toEqual([200, 404]);
    expect((await accept(await platform.registerUser(), token)).status).toBe(403);
    const another = await persistent();
    const [{ _id }] = (await owner.api.get(`${teamPath}/${team}/invites`)).body.invites as [
      { _id: string },
    ];
    expect((await accept(await platform.registerUser(), _id)).status).toBe(403);
    expect((await revoke(_id)).status).toBe(200);
    expect((await accept(await platform.registerUser(), another)).status).toBe(403);
  });

  test('of an operator stands on its own', async () => {
    const { result } = (
      await platform.admin.post(`${teamPath}/${team}/invite/persistent`, { role: 'owner' })
    ).body;
    const user = await platform.registerUser();
    expect((await accept(user, String(result))).status).toBe(200);
    expect(await roleOf(user)).toBe('owner');
    expect(
      (
        await platform.admin.delete(`${teamPath}/${team}/invite/persistent`, {
          query: { invitationToken: String(result) },
        })
      ).status,
    ).toBe(200);
  });
});

describe('joining by GET', () => {
  test('needs the bearer header: a link that is followed with a cookie does nothing', async () => {
    const user = await platform.registerUser();
    const query = { invitationToken: await persistent() };
    const withCookie = platform.client.with({ cookie: `accessToken=${user.accessToken}` });
    expect((await withCookie.get(`${teamPath}/invite/accept`, { query })).status).toBe(401);
    expect((await platform.client.get(`${teamPath}/invite/accept`, { query })).status).toBe(401);
    expect(await roleOf(user)).toBeUndefined();
    expect((await user.api.get(`${teamPath}/invite/accept`, { query })).body).toEqual({
      result: 'OK',
    });
  });
});

describe('registration', () => {
  test('makes one default team for many who register at once', async () => {
    await configure({ enableDefaultTeam: true });
    // Somebody has the name already; that must not stop anybody.
    for (const api of [platform.admin, owner.api])
      await api.post(teamPath, { name: 'Default Team' });
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => register({ email: address() })),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
    const roots = (await platform.admin.get(teamPath, { query: { limit: 1000 } })).body.teams as {
      name: string;
      isDefault: boolean;
    }[];
    const standard = roots.filter(({ isDefault }) => isDefault).map(({ name }) => name);
    expect(standard).toEqual([expect.stringMatching(/^Default Team ./)]);
  });

  test('joins the team of the invitation, and the default team', async () => {
    await configure({ enableDefaultTeam: true });
    const email = address();
    const invitationToken = await invite({ email, role: 'editAll' });
    const { status, body } = await register({ email, invitationToken });
    // The inviter knows this token: it does not prove the mailbox.
    expect({ status, verified: body.user?.isVerified }).toEqual({ status: 200, verified: false });
    expect(await roleOf({ userId: body.user._id })).toBe('editAll');
    const roots = (await platform.admin.get(teamPath, { query: { limit: 1000 } })).body.teams as {
      _id: string;
      isDefault: boolean;
    }[];
    const [standard] = roots.filter(({ isDefault }) => isDefault);
    expect(
      (await platform.admin.get(`${teamPath}/${standard?._id}/members?search=${body.user._id}`))
        .body,
    ).toMatchObject({
      count: 1,
      members: [{ role: 'member' }],
    });
    expect((await register({ email: address(), invitationToken })).status).toBe(403);
  });

  test('needs an invitation where it is asked for, and the right one', async () => {
    await configure({ allowRegistrationWithoutInvite: false });
    const email = address();
    expect(await register({ email })).toMatchObject({
      status: 403,
      body: { code: 'INVITATION_REQUIRED' },
    });
    expect(await register({ email, invitationToken: 'x'.repeat(43) })).toMatchObject({
      status: 403,
      body: { code: 'INVALID_INVITATION' },
    });
    const token = await invite({ email, role: 'member' });
    expect(await register({ email: address(), invitationToken: token })).toMatchObject({
      status: 403,
      body: { code: 'INVALID_INVITATION' },
    });
    expect((await register({ email, invitationToken: token })).status).toBe(200);
    expect((await register({ email: address(), invitationToken: await persistent() })).status).toBe(
      200,
    );
    expect(
      (
        await platform.admin.post('/authentication/users', {
          email: address(),
          password: 'Battery-Staple-17',
        })
      ).status,
    ).toBe(200);
  });

  test('needs an invitation with a wallet too', async () => {
    await configure({ allowRegistrationWithoutInvite: false });
    await platform.admin.patch('/config/authentication', {
      config: { metamask: { enabled: true } },
    });
    const { address: ethPublicAddress, sign } = createTestWallet();
    const { message } = (
      await platform.client.post('/authentication/metamask/nonce', { ethPublicAddress })
    ).body;
    const signIn = (more: object = {}) =>
      platform.client.post('/authentication/metamask/authenticate', {
        ethPublicAddress,
        signature: sign(message),
        ...more,
      });
    expect(await signIn()).toMatchObject({ status: 403, body: { code: 'INVITATION_REQUIRED' } });
    const mailed = await invite({ email: address(), role: 'member' });
    expect(await signIn({ invitationToken: mailed })).toMatchObject({
      status: 403,
      body: { code: 'INVALID_INVITATION' },
    });
    const answer = await signIn({ invitationToken: await persistent() });
    expect(answer.status).toBe(200);
    expect(await roleOf(answer.body)).toBe('member');
  });

  test('does not go on without the invitation that it brings, also while teams are off', async () => {
    const email = address();
    const invitationToken = await invite({ email, role: 'member' });
    await configure({ enabled: false });
    expect(await register({ email, invitationToken })).toMatchObject({
      status: 403,
      body: { code: 'INVALID_INVITATION' },
    });
    expect((await register({ email })).status).toBe(200);
  });

  test('with one invitation by several at once makes one account', async () => {
    await configure({ allowEmailMismatchForInvites: true });
    const invitationToken = await invite({ email: address(), role: 'member' });
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => register({ email: address(), invitationToken })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 403, 403, 403, 403, 403]);
  });
});

describe('a mailed invitation', () => {
  test('leads to the page with another token than the inviter got, and proves the mailbox', async () => {
    await configure({ invites: { sendEmail: true } });
    const email = address();
    const answered = await invite({ email, role: 'member' });
    const link = await mailedTo(email);
    const mailed = link.searchParams.get('invitationToken') ?? '';
    expect(link.searchParams.get('from')).toBe('mail');
    expect(mailed).not.toBe(answered);
    expect(
      (
        await platform.client.get(`${teamPath}/invite/user/data`, {
          query: { invitationToken: mailed },
        })
      ).body,
    ).toEqual({
      email,
      userData: null,
    });
    const { body } = await register({ email, invitationToken: mailed });
    expect(body.user).toMatchObject({ email, isVerified: true });
    expect((await register({ email: address(), invitationToken: answered })).status).toBe(403);
  });

  test('leads only to pages that are allowed', async () => {
    const body = { email: address(), role: 'member', redirectUri: 'https://evil.example.net/' };
    for (const sendEmail of [true, false]) {
      await configure({ invites: { sendEmail } });
      expect((await owner.api.post(`${teamPath}/${team}/invite`, body)).status).toBe(403);
    }
    const config = { teams: { invites: { inviteUrl: 'javascript:alert(1)' } } };
    expect((await platform.admin.patch('/config/authentication', { config })).status).toBe(400);
  });
});
