/** What operators do with users beyond the list: the second factor, forced passwords, single sessions, acting as a user. */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform?.close());

const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;

test('a whole user can be sent back: what cannot be set is ignored', async () => {
  const { userId } = await platform.registerUser();
  const path = `/authentication/users/${userId}`;
  const { body: listed } = await platform.admin.get(`/authentication/users?search=${userId}`);
  const [user] = listed.users as Record<string, unknown>[];
  const answer = await platform.admin.patch(path, {
    ...user,
    active: false,
    hashedPassword: 'x',
    isVerified: true,
  });
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({ _id: userId, active: true, isVerified: true });
});

test('a second factor that could not be used is not set', async () => {
  const { userId, email, password } = await platform.registerUser();
  const update = (change: object) =>
    platform.admin.patch(`/authentication/users/${userId}`, change);
  expect(await update({ hasTwoFA: true })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'twoFaMethod' }] },
  });
  expect(await update({ hasTwoFA: true, twoFaMethod: 'authenticator' })).toMatchObject({
    status: 400,
  });
  expect(await update({ hasTwoFA: true, twoFaMethod: 'sms' })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'phoneNumber' }] },
  });
  expect(
    await update({ hasTwoFA: true, twoFaMethod: 'sms', phoneNumber: '+306900000077' }),
  ).toMatchObject({
    status: 200,
    body: { hasTwoFA: true },
  });
  expect(await update({ phoneNumber: null })).toMatchObject({ status: 400 });
  expect(
    (await platform.client.post('/authentication/local', { email, password })).body,
  ).toMatchObject({ twoFaRequired: true });
  expect((await platform.admin.post(`/authentication/users/${userId}/reset-2fa`)).status).toBe(200);
  expect((await platform.admin.post(`/authentication/users/${userId}/reset-2fa`)).status).toBe(400);
  expect(
    (await platform.client.post('/authentication/local', { email, password })).body,
  ).not.toHaveProperty('twoFaRequired');
});

test('users are found by the provider that they are linked to', async () => {
  await platform.registerUser();
  const count = async (provider: string) =>
    (await platform.admin.get(`/authentication/users?provider=${provider}`)).body.count as number;
  expect(await count('local')).toBeGreaterThan(0);
  expect(await count('google')).toBe(0);
  expect((await platform.admin.get("/authentication/users?provider=x'y")).status).toBe(400);
  expect((await platform.admin.get('/authentication/users?isActive=maybe')).status).toBe(400);
});

test('a user is made to choose a new password', async () => {
  const user = await platform.registerUser();
  expect(
    (await platform.admin.post(`/authentication/users/${user.userId}/reset-password`)).status,
  ).toBe(200);
  expect((await user.api.get('/authentication/user')).status).toBe(401);
  expect(
    (
      await platform.client.post('/authentication/local', {
        email: user.email,
        password: user.password,
      })
    ).status,
  ).toBe(401);
  const { body } = await platform.admin.get('/communications/messages', {
    query: { recipient: user.email },
  });
  expect(JSON.stringify(body)).toContain('PasswordRequired');
  const nameOnly = await platform.admin.post('/authentication/users', {
    username: 'no.mail',
    password: 'Battery-Staple-17',
  });
  expect(
    (await platform.admin.post(`/authentication/users/${nameOnly.body.user._id}/reset-password`))
      .status,
  ).toBe(400);
});

test('single sessions are ended', async () => {
  const user = await platform.registerUser();
  const { body } = await platform.admin.get(`/authentication/users/${user.userId}/sessions`);
  const [session] = body.sessions as { _id: string; impersonated: boolean }[];
  expect(session).toMatchObject({ impersonated: false });
  const path = `/authentication/users/${user.userId}/sessions/${session?._id}`;
  expect(
    (
      await platform.admin.delete(
        `/authentication/users/${(await platform.registerUser()).userId}/sessions/${session?._id}`,
      )
    ).status,
  ).toBe(404);
  expect((await platform.admin.delete(path)).status).toBe(200);
  expect((await platform.admin.delete(path)).status).toBe(404);
  expect((await user.api.get('/authentication/user')).status).toBe(401);
});

test('acting as a user is marked, short, and proves nothing', async () => {
  const user = await platform.registerUser();
  const path = `/authentication/users/${user.userId}/impersonate`;
  expect((await platform.admin.post(path, {})).status).toBe(400);
  const { status, body } = await platform.admin.post(path, {
    reason: 'the basket of ticket 17 is empty',
  });
  expect(status).toBe(200);
  const claims = claimsOf(body.accessToken);
  expect(claims).toMatchObject({
    sub: user.userId,
    sudo: false,
    act: { sub: 'masterkey' },
    impersonatedBy: 'masterkey',
  });
  expect(Number(claims.exp) - Number(claims.iat)).toBeLessThanOrEqual(15 * 60);
  const acting = platform.client.with({ authorization: `Bearer ${body.accessToken}` });
  expect((await acting.get('/authentication/user')).body).toMatchObject({ _id: user.userId });
  expect(await acting.delete('/authentication/user')).toMatchObject({
    status: 403,
    body: { code: 'SUDO_REQUIRED' },
  });
  expect((await acting.post('/authentication/renew')).status).toBe(401);
  const { body: list } = await user.api.get('/authentication/sessions');
  expect(
    (list.sessions as { impersonated: boolean }[]).map(({ impersonated }) => impersonated).sort(),
  ).toEqual([false, true]);
  await waitFor(async () => {
    const { text } = await platform.admin.get('/audit-logs?limit=50');
    return text.includes('authentication.users.impersonate') && text.includes('ticket 17');
  });
  await platform.admin.post(`/authentication/users/${user.userId}/block`);
  expect((await acting.get('/authentication/user')).status).toBe(403);
  expect((await platform.admin.post(path, { reason: 'once more' })).status).toBe(403);
  expect(
    (
      await platform.admin.post(
        '/authentication/users/00000000-0000-7000-8000-000000000000/impersonate',
        { reason: 'nobody' },
      )
    ).status,
  ).toBe(404);
});

test('acting as a user ends with the sessions of the operator, and with the rights to it', async () => {
  const user = await platform.registerUser();
  const password = 'Helping-Hand-99';
  const made = await platform.admin.post('/admins', {
    username: 'helper',
    password,
    isSuperAdmin: true,
  });
  const path = `/admins/${expectStatus(made, 200, 'admin').body.admin._id}`;
  const login = async () =>
    (await platform.admin.post('/login', { username: 'helper', password })).body.token as string;
  const act = async (token: string) => {
    const route = `/authentication/users/${user.userId}/impersonate`;
    const { body } = await platform.adminAnonymous.post(route, { reason: 'a case' }, { token });
    const acting = { token: String(body.accessToken) };
    expect((await platform.client.get('/authentication/user', acting)).status).toBe(200);
    return async () => (await platform.client.get('/authentication/user', acting)).status;
  };
  const token = await login();
  const before = await act(token);
  await platform.adminAnonymous.post('/logout', undefined, { token });
  expect(await before()).toBe(401);
  for (const end of [{ isSuperAdmin: false }, { active: false }]) {
    const status = await act(await login());
    expectStatus(await platform.admin.patch(path, end), 200, 'change');
    expect(await status()).toBe(401);
    await platform.admin.patch(path, { isSuperAdmin: true, active: true });
  }
  const operator = { token: await login() };
  const minted = await platform.adminAnonymous.post('/api-tokens', { name: 'ticket' }, operator);
  const byToken = await act(String(minted.body.token));
  const { body } = await platform.adminAnonymous.get('/api-tokens', operator);
  const revoked = `/api-tokens/${body.tokens[0]._id}`;
  expectStatus(await platform.adminAnonymous.delete(revoked, operator), 200, 'revocation');
  expect(await byToken()).toBe(401);
  const last = await act(await login());
  expectStatus(await platform.admin.delete(path), 200, 'deletion');
  expect(await last()).toBe(401);
  expect((await user.api.get('/authentication/user')).status).toBe(200);
});

test('acting as a user changes nothing of what signs them in, whatever is known of them', async () => {
  await platform.admin.patch('/config/authentication', {
    config: {
      twoFa: { enabled: true },
      passkeys: { enabled: true },
      biometricAuthentication: { enabled: true },
    },
  });
  const user = await platform.registerUser();
  const { body: begun } = await user.api.post('/authentication/twoFa/enable');
  const path = `/authentication/users/${user.userId}/impersonate`;
  const token = expectStatus(
    await platform.admin.post(path, { reason: 'a support case' }),
    200,
    'impersonate',
  ).body.accessToken;
  const acting = platform.client.with({ authorization: `Bearer ${token}` });
  const code = generateSync({ secret: begun.secret });
  const response = { clientDataJSON: 'e30', attestationObject: 'oA', transports: [] };
  const attempts: readonly [string, object][] = [
    ['local/change-password', { oldPassword: user.password, newPassword: 'Battery-Staple-99' }],
    ['local/change-email', { newEmail: 'operator-2@users.example' }],
    ['twoFa/enable', {}],
    ['twoFa/enable/verify', { code }],
    ['twoFa/disable', { code }],
    ['twoFa/backup-codes', {}],
    ['passkeys/register/options', {}],
    [
      'passkeys/register/verify',
      {
        credential: {
          id: 'AA',
          rawId: 'AA',
          type: 'public-key',
          clientExtensionResults: {},
          response,
        },
      },
    ],
    ['biometrics/enroll', { publicKey: 'AAAA' }],
    ['biometrics/enroll/verify', { encryptedData: 'AAAA' }],
    ['sudo', { password: user.password }],
  ];
  for (const [route, body] of attempts)
    expect(await acting.post(`/authentication/${route}`, body), route).toMatchObject({
      status: 403,
      body: { code: 'SUDO_REQUIRED' },
    });
  const passkey = `/authentication/passkeys/${user.userId}`;
  expect(await acting.patch(passkey, { name: 'Mine' })).toMatchObject({ status: 403 });
  expect(await acting.delete(passkey)).toMatchObject({ status: 403 });
  expect((await user.api.get('/authentication/user')).body).toMatchObject({
    hasTwoFA: false,
    email: user.email,
  });
  const { email, password } = user;
  expect((await platform.client.post('/authentication/local', { email, password })).status).toBe(
    200,
  );
});

test('only a super admin acts as a user', async () => {
  const { userId } = await platform.registerUser();
  await platform.admin.post('/admins', { username: 'plain', password: 'Correct-Horse-43' });
  const login = async (password: string) => {
    const { body } = await platform.admin.post('/login', { username: 'plain', password });
    return platform.adminAnonymous.with({ authorization: `Bearer ${body.token}` });
  };
  await (await login('Correct-Horse-43')).put('/change-password', {
    oldPassword: 'Correct-Horse-43',
    newPassword: 'Correct-Horse-44',
  });
  const plain = await login('Correct-Horse-44');
  expect(
    (await plain.post(`/authentication/users/${userId}/impersonate`, { reason: 'curious' })).status,
  ).toBe(403);
});

test('a token that is narrowed to modules acts as nobody', async () => {
  const user = await platform.registerUser();
  const path = `/authentication/users/${user.userId}/impersonate`;
  for (const [scopes, status] of [
    [['authentication'], 403],
    [['authentication', 'write'], 403],
    [['authentication', 'database', 'storage', 'chat'], 403],
    [['write'], 200],
  ] as const) {
    const { body } = await platform.admin.post('/api-tokens', { name: `${scopes}`, scopes });
    const narrowed = platform.adminAnonymous.with({ credential: body.token });
    const answer = await narrowed.post(path, { reason: 'a support case' });
    expect(answer.status, `${scopes} ${answer.text}`).toBe(status);
    if (status === 403) expect(answer.body.code).toBe('SCOPE_EXCEEDED');
  }
  const sessions = (await user.api.get('/authentication/sessions')).body.sessions;
  expect((sessions as { impersonated: boolean }[]).map(({ impersonated }) => impersonated)).toEqual(
    [true, false],
  );
});

test('an operator who acts as an anonymous user cannot make it an account of their own', async () => {
  await platform.admin.patch('/config/authentication', {
    config: { anonymousUsers: { enabled: true } },
  });
  const anonymous = expectStatus(
    await platform.client.post('/authentication/local/new/anonymous'),
    200,
    'anonymous',
  ).body;
  const path = `/authentication/users/${anonymous.userId}/impersonate`;
  const token = expectStatus(
    await platform.admin.post(path, { reason: 'a support case' }),
    200,
    'impersonate',
  ).body.accessToken;
  const account = { email: 'operator@users.example', password: 'correct horse battery staple' };
  const answer = await platform.client.post('/authentication/local/new', account, { token });
  expect(answer).toMatchObject({ status: 403, body: { code: 'SUDO_REQUIRED' } });
  expect((await platform.client.get('/authentication/user', { token })).body).toMatchObject({
    isAnonymous: true,
  });
});
