/**
 * Fields by which `User` is extended belong to the server unless they are declared open (CWE-915, mass assignment):
 * https://cwe.mitre.org/data/definitions/915.html
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { openTestConnection } from '../../test/support/connection.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const fields = {
  plan: 'String',
  credits: { type: 'Number', description: 'What is left to spend' },
  secretNote: { type: 'String', select: false },
  nickname: { type: 'String', access: { write: 'user' } },
  internal: { type: 'String', access: { read: 'admin' } },
  grade: { type: 'String', access: { read: 'role:judge', write: 'role:judge' } },
};
const closed = ['plan', 'credits', 'secretNote', 'internal', 'grade'];
const values: Json = {
  plan: 'enterprise',
  credits: 999_999,
  secretNote: 'x',
  internal: 'x',
  grade: 'A',
  nickname: 'an',
};
const password = 'Correct-Horse-43';

describe('user data', () => {
  let platform: TestPlatform;
  let anna: TestUser;
  let userSchema: string;
  let counter = 0;
  const address = (): string => {
    counter += 1;
    return `user-data-${counter}@example.com`;
  };
  const change = (userData: object) => anna.api.patch('/authentication/user', { userData });
  const stored = async (userId: string): Promise<Json> =>
    (await platform.admin.get('/authentication/users', { query: { search: userId } })).body
      .users[0];
  const configure = async (config: object) =>
    expectStatus(
      await platform.admin.patch('/config/authentication', { config }),
      200,
      'configuration',
    );
  const refused = (name: string) => ({
    status: 400,
    body: { code: 'USER_DATA_UNKNOWN', errors: [{ path: `userData.${name}`, rule: 'access' }] },
  });

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    const { schemas } = (await platform.admin.get('/database/schemas', { query: { limit: 100 } }))
      .body;
    userSchema = schemas.find(({ name }: Json) => name === 'User')._id;
    expectStatus(
      await platform.admin.post(`/database/schemas/${userSchema}/extensions`, { fields }),
      200,
      'extension',
    );
    await configure({
      teams: { enabled: true, invites: { enabled: true } },
      anonymousUsers: { enabled: true },
    });
    anna = await platform.registerUser();
  });
  afterAll(() => platform?.close());

  it.each(closed)(
    'has a field %s that the user cannot set: not later, not at registration, not for somebody else',
    async (name) => {
      const userData = { [name]: values[name] };
      expect(await change(userData)).toMatchObject(refused(name));
      const registration = { email: address(), password, userData };
      expect(await platform.client.post('/authentication/local/new', registration)).toMatchObject(
        refused(name),
      );
      expect(
        await platform.client.post('/authentication/local/new/anonymous', { userData }),
      ).toMatchObject(refused(name));
      const team = (await anna.api.post('/authentication/teams', { name: `team of ${name}` })).body
        ._id;
      const invitation = { email: address(), role: 'member', userData };
      expect(await anna.api.post(`/authentication/teams/${team}/invite`, invitation)).toMatchObject(
        refused(name),
      );
      expect(
        await anna.api.post(`/authentication/teams/${team}/invite/persistent`, {
          role: 'member',
          userData,
        }),
      ).toMatchObject(refused(name));
      expect((await stored(anna.userId))[name] ?? null).toBeNull();
    },
  );

  it('has a field that is declared open, in all these ways', async () => {
    expect(await change({ nickname: 'an' })).toMatchObject({
      status: 200,
      body: { nickname: 'an' },
    });
    expect(await change({ nickname: 'b', plan: 'gold' })).toMatchObject(refused('plan'));
    expect((await stored(anna.userId)).nickname).toBe('an');
    const made = await platform.client.post('/authentication/local/new', {
      email: address(),
      password,
      userData: { nickname: 'new' },
    });
    expect(made).toMatchObject({ status: 200, body: { user: { nickname: 'new' } } });
  });

  it('is given by operators, also with an invitation', async () => {
    const team = (await platform.admin.post('/authentication/teams', { name: 'Customers' })).body
      ._id;
    const userData = { plan: 'gold', internal: 'partner' };
    const invitation = await platform.admin.post(
      `/authentication/teams/${team}/invite/persistent`,
      { role: 'member', userData },
    );
    const invitationToken = expectStatus(invitation, 200, 'invitation').body.result;
    const made = await platform.client.post('/authentication/local/new', {
      email: address(),
      password,
      invitationToken,
    });
    const { user } = expectStatus(made, 200, 'registration').body;
    expect(user).toMatchObject({ plan: 'gold' });
    expect(user).not.toHaveProperty('internal');
    expect(await stored(user._id)).toMatchObject({ plan: 'gold', internal: 'partner' });
  });

  it('is shown to its user but for what access.read closes, and by role', async () => {
    const own = (await anna.api.get('/authentication/user')).body;
    expect(own).toHaveProperty('plan');
    for (const name of ['internal', 'secretNote', 'grade']) expect(own).not.toHaveProperty(name);
    expectStatus(
      await platform.admin.post('/authorization/roles', { name: 'judge', permissions: [] }),
      200,
      'role',
    );
    expectStatus(
      await platform.admin.post(`/authorization/users/${anna.userId}/roles`, { role: 'judge' }),
      200,
      'assignment',
    );
    expect(await change({ grade: 'A' })).toMatchObject({ status: 200, body: { grade: 'A' } });
    expect((await anna.api.get('/authentication/user')).body).toMatchObject({ grade: 'A' });
  });

  it('is open to users in the old way where the configuration says so', async () => {
    await configure({ userData: { openFields: ['credits'] } });
    expect((await change({ credits: 5 })).status).toBe(200);
    expect(await change({ plan: 'gold' })).toMatchObject(refused('plan'));
    await configure({ userData: { openByDefault: true, openFields: [] } });
    expect((await change({ plan: 'gold' })).status).toBe(200);
    expect(await change({ grade: 'B', internal: 'x' })).toMatchObject({ status: 200 });
    await configure({ userData: { openByDefault: false } });
    expect(await change({ plan: 'gold' })).toMatchObject(refused('plan'));
  });

  it('stays as it was for fields that were there before', async () => {
    const sql = await openTestConnection(platform.databaseUrl ?? '');
    try {
      await sql.query(
        "drop table penstock.open_user_fields; delete from penstock.migrations where id = 'user-data-0001-open-fields'",
      );
    } finally {
      await sql.close();
    }
    const upgraded = await createTestPlatform({ databaseUrl: platform.databaseUrl ?? '' });
    try {
      const openFields = Object.keys(fields).sort();
      await waitFor(async () => {
        const { userData } = (await upgraded.admin.get('/config/authentication')).body.config;
        expect(userData).toEqual({ openByDefault: false, openFields });
        return true;
      });
      const user = await upgraded.login(anna.email, anna.password);
      expect(
        (await user.api.patch('/authentication/user', { userData: { plan: 'old way' } })).status,
      ).toBe(200);
      const more = { ...fields, later: 'String' };
      expectStatus(
        await upgraded.admin.post(`/database/schemas/${userSchema}/extensions`, { fields: more }),
        200,
        'a new field',
      );
      expect(
        await user.api.patch('/authentication/user', { userData: { later: 'x' } }),
      ).toMatchObject(refused('later'));
    } finally {
      await upgraded.close();
    }
  });

  it('has no rules of which nobody could say whether they hold', async () => {
    for (const rule of ['owner', 'relation:editor']) {
      const wrong = { fields: { odd: { type: 'String', access: { write: rule } } } };
      const answer = await platform.admin.post(`/database/schemas/${userSchema}/extensions`, wrong);
      expect(answer).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'fields.odd.access.write' }] },
      });
    }
  });
});
