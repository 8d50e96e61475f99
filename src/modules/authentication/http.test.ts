/** The routes of authentication as clients and operators call them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());

const password = 'correct horse battery staple';
const register = (email: string, more: object = {}) =>
  platform.client.post('/authentication/local/new', { email, password, ...more });
const login = (email: string, given = password) =>
  platform.client.post('/authentication/local', { email, password: given });

test('register, log in, read, renew, log out', async () => {
  const registered = await register('Ada@Example.com');
  expect(registered).toMatchObject({
    status: 200,
    body: { user: { email: 'ada@example.com', active: true, isVerified: false } },
  });
  expect(registered.text).not.toMatch(/argon2|hashedPassword/);

  const { status, body, headers } = await login('ada@example.com');
  expect(status).toBe(200);
  expect(headers.get('cache-control')).toContain('no-store');
  expect(body).toEqual({
    userId: registered.body.user._id,
    accessToken: expect.any(String),
    refreshToken: expect.any(String),
  });

  const user = await platform.client.get('/authentication/user', { token: body.accessToken });
  expect(user).toMatchObject({
    status: 200,
    body: { _id: body.userId, email: 'ada@example.com', hasTwoFA: false },
  });

  const renewed = await platform.client.post('/authentication/renew', undefined, {
    token: body.refreshToken,
  });
  expect(renewed).toMatchObject({
    status: 200,
    body: { accessToken: expect.any(String), refreshToken: expect.any(String) },
  });

  const logout = await platform.client.post('/authentication/logout', undefined, {
    token: renewed.body.accessToken,
  });
  expect(logout).toMatchObject({ status: 200, body: { result: 'LoggedOut' } });
  for (const token of [body.accessToken, renewed.body.accessToken]) {
    expect(await platform.client.get('/authentication/user', { token })).toMatchObject({
      status: 401,
      body: { code: 'TOKEN_INVALID' },
    });
  }
  expect(
    (
      await platform.client.post('/authentication/renew', undefined, {
        token: renewed.body.refreshToken,
      })
    ).status,
  ).toBe(401);
});

test('without or with a wrong credential the answer is 401 in JSON', async () => {
  for (const path of ['/authentication/user', '/authentication/sessions']) {
    for (const token of [undefined, 'abc', 'a.b.c', 'a'.repeat(5000)]) {
      const answer = await platform.client.get(path, token === undefined ? {} : { token });
      expect(answer).toMatchObject({
        status: 401,
        body: {
          name: 'UNAUTHORIZED',
          status: 401,
          message: expect.any(String),
          requestId: expect.any(String),
        },
      });
      expect(answer.headers.get('www-authenticate')).toContain('Bearer');
    }
  }
  expect((await platform.client.post('/authentication/renew')).status).toBe(401);
});

test('wrong input is 400 and names the field', async () => {
  expect(await register('not an address')).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'email' }] },
  });
  expect(
    await platform.client.post('/authentication/local/new', { email: 'x@example.com' }),
  ).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'password' }] },
  });
  expect(
    await platform.client.post('/authentication/local', { email: { $ne: '' }, password }),
  ).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'email' }] },
  });
  expect(await platform.client.post('/authentication/local/new', '{"email":')).toMatchObject({
    status: 400,
  });
  expect(await register('short@example.com', { password: 'short' })).toMatchObject({
    status: 400,
    body: { code: 'PASSWORD_WEAK' },
  });
});

test('unknown keys of a registration are dropped, those of userData refused', async () => {
  const { body } = await register('mass@example.com', {
    isVerified: true,
    active: false,
    _id: '00000000-0000-7000-8000-000000000000',
    hasTwoFA: true,
  });
  expect(body.user).toMatchObject({ isVerified: false, active: true, hasTwoFA: false });
  expect(body.user._id).not.toBe('00000000-0000-7000-8000-000000000000');
  expect(await register('mass2@example.com', { userData: { isVerified: true } })).toMatchObject({
    status: 400,
    body: { code: 'USER_DATA_UNKNOWN' },
  });
});

test('a taken address is 409, a wrong password and an unknown address are the same 401', async () => {
  await register('taken@example.com');
  expect(await register('TAKEN@example.com')).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
  const [wrong, unknown] = [
    await login('taken@example.com', 'not the password'),
    await login('nobody@example.com', 'not the password'),
  ];
  expect(wrong).toMatchObject({ status: 401, body: { code: 'CREDENTIALS_INVALID' } });
  expect({ ...unknown.body, requestId: '' }).toEqual({ ...wrong.body, requestId: '' });
});

test('the user sees their sessions, changes their password and deletes their account', async () => {
  const user = await platform.registerUser({ email: 'life@example.com', password });
  const other = await platform.login('life@example.com', password);
  const sessions = await user.api.get('/authentication/sessions');
  expect(sessions).toMatchObject({ status: 200, body: { count: 2 } });
  const changed = await user.api.post('/authentication/local/change-password', {
    oldPassword: password,
    newPassword: `${password}!`,
  });
  expect(changed).toMatchObject({ status: 200, body: { result: 'Password changed successfully' } });
  expect((await other.api.get('/authentication/user')).status).toBe(401);
  expect(
    (await user.api.patch('/authentication/user', { userData: { email: 'x@example.com' } })).status,
  ).toBe(400);
  expect((await user.api.patch('/authentication/user', { userData: {} })).status).toBe(200);
  expect((await user.api.delete('/authentication/user')).body).toEqual({ result: 'LoggedOut' });
  expect((await user.api.get('/authentication/user')).status).toBe(401);
});

test('the keys are public and verify the tokens', async () => {
  const { body, headers } = await platform.client.get('/.well-known/jwks.json');
  expect(body.keys).toEqual([
    {
      kty: 'OKP',
      crv: 'Ed25519',
      x: expect.any(String),
      kid: expect.any(String),
      alg: 'EdDSA',
      use: 'sig',
    },
  ]);
  expect(headers.get('cache-control')).toContain('public');
});

test('operators manage users, and users cannot', async () => {
  const { admin } = platform;
  const created = await admin.post('/authentication/users', {
    email: 'made@operators.example',
    password,
  });
  expect(created).toMatchObject({ status: 200, body: { user: { isVerified: true } } });
  const id = created.body.user._id;
  expect(
    await admin.get('/authentication/users', {
      query: { search: '@operators.', isActive: 'true', sort: '-createdAt' },
    }),
  ).toMatchObject({
    status: 200,
    body: { count: 1, users: [{ _id: id }] },
  });
  expect((await admin.get('/authentication/users', { query: { isActive: 'maybe' } })).status).toBe(
    400,
  );
  expect((await admin.get('/authentication/users', { query: { limit: 0 } })).status).toBe(400);
  expect(
    (await admin.get('/authentication/users', { query: { sort: 'hashedPassword' } })).status,
  ).toBe(400);
  expect((await admin.post(`/authentication/users/${id}/block`)).status).toBe(200);
  expect((await login('made@operators.example')).status).toBe(403);
  expect((await admin.post(`/authentication/users/${id}/unblock`)).status).toBe(200);
  const whole = created.body.user;
  expect(
    await admin.patch(`/authentication/users/${id}`, { ...whole, isVerified: false }),
  ).toMatchObject({
    status: 200,
    body: { isVerified: false },
  });
  expect((await admin.delete('/authentication/users', { query: { ids: id } })).status).toBe(200);
  expect((await admin.delete(`/authentication/users/${id}`)).status).toBe(404);

  const { accessToken } = await platform.registerUser();
  expect(
    (await platform.adminAnonymous.get('/authentication/users', { token: accessToken })).status,
  ).toBe(401);
  expect((await platform.client.get('/authentication/users', { token: accessToken })).status).toBe(
    404,
  );
});

test('switched off, the module is gone; switched on again, old tokens work as before', async () => {
  const user = await platform.registerUser();
  expect(
    (await platform.admin.patch('/config/authentication', { config: { active: false } })).status,
  ).toBe(200);
  expect((await user.api.get('/authentication/user')).status).toBe(503);
  expect(
    (await platform.admin.patch('/config/authentication', { config: { active: true } })).status,
  ).toBe(200);
  expect((await user.api.get('/authentication/user')).status).toBe(200);
});

test('a change of configuration holds at once', async () => {
  const change = (config: object) => platform.admin.patch('/config/authentication', { config });
  expect((await change({ local: { enabled: false } })).status).toBe(200);
  expect((await login('ada@example.com')).status).toBe(404);
  expect(
    (await change({ local: { enabled: true }, accessTokens: { expiryPeriod: 120_000 } })).status,
  ).toBe(200);
  const { body } = await login('ada@example.com');
  const { iat, exp } = JSON.parse(
    Buffer.from(body.accessToken.split('.')[1], 'base64url').toString(),
  );
  expect(exp - iat).toBe(120);
  expect((await change({ accessTokens: { expiryPeriod: 1 } })).status).toBe(400);
});

test('one account and address may try 30 logins in 15 minutes', async () => {
  await register('limited@example.com');
  const statuses = [];
  for (let i = 0; i < 31; i += 1) statuses.push((await login('limited@example.com')).status);
  expect(statuses.slice(0, 30).every((status) => status === 200)).toBe(true);
  expect(statuses[30]).toBe(429);
});
