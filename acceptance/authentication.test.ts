/** Registration, login, renewal and logout (interface 4.1, "States and transitions"; spec/authentication.md 1.1, 1.2). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

const password = 'Battery-Staple-17';
const freshEmail = () => `${randomUUID()}@example.com`;
const statuses = (answers: readonly Answer[]) =>
  Object.fromEntries(
    Object.entries(Object.groupBy(answers, ({ status }) => status)).map(([status, list]) => [
      status,
      list?.length,
    ]),
  );

describe('authentication', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    // The addresses of this test come through a proxy, so that limits count each test by itself.
    platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  });
  afterAll(() => platform.close());

  const renew = (token: string) =>
    platform.client.post('/authentication/renew', undefined, { token });

  it('registers a user without signing in', async () => {
    const email = freshEmail();
    const { status, body } = await platform.client.post('/authentication/local/new', {
      email: email.toUpperCase(),
      password,
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      user: expect.objectContaining({
        email,
        active: true,
        isVerified: false,
        _id: expect.any(String),
      }),
    });
    expect(JSON.stringify(body)).not.toMatch(/hashedPassword|argon2|accessToken/);
  });

  it('shows the current user', async () => {
    const user = await platform.registerUser();
    const { body } = await user.api.get('/authentication/user');
    expect(body).toMatchObject({
      _id: user.userId,
      email: user.email,
      active: true,
      isVerified: false,
      hasTwoFA: false,
    });
    expect((await platform.client.get('/authentication/user')).status).toBe(401);
    expect(
      (await platform.client.get('/authentication/user', { token: user.refreshToken })).status,
    ).toBe(401);
  });

  it('does not tell a wrong password from an unknown account', async () => {
    const { email } = await platform.registerUser();
    const wrong = await platform.client.post('/authentication/local', {
      email,
      password: 'Wrong-Password-1',
    });
    const unknown = await platform.client.post('/authentication/local', {
      email: freshEmail(),
      password: 'Wrong-Password-1',
    });
    expect([wrong.status, unknown.status]).toEqual([401, 401]);
    const { requestId: one, ...wrongBody } = wrong.body;
    const { requestId: two, ...unknownBody } = unknown.body;
    expect(wrongBody).toEqual(unknownBody);
  });

  it('makes one account of 200 concurrent registrations of one e-mail', async () => {
    const email = freshEmail();
    const register = (_: unknown, index: number) =>
      platform.client.post(
        '/authentication/local/new',
        { email, password },
        { headers: { 'x-forwarded-for': `10.1.${index >> 4}.${index % 16}` } },
      );
    const answers = await Promise.all(Array.from({ length: 200 }, register));
    const counts = statuses(answers);
    expect(counts[200]).toBe(1);
    // Everybody else hears that the account exists, or that the hash queue or the limit was full; nobody an internal error.
    expect(
      Object.keys(counts).filter((status) => !['200', '409', '429', '503'].includes(status)),
    ).toEqual([]);
    const { body } = await platform.admin.get('/authentication/users', {
      query: { search: email },
    });
    expect(body.count).toBe(1);
  });

  it('rotates the refresh token, and 50 parallel renewals leave one family', async () => {
    const user = await platform.registerUser();
    const answers = await Promise.all(Array.from({ length: 50 }, () => renew(user.refreshToken)));
    const renewed = answers.filter(({ status }) => status === 200);
    expect(renewed.length).toBeGreaterThan(0);
    expect(Object.keys(statuses(answers)).every((status) => ['200', '401'].includes(status))).toBe(
      true,
    );
    const successors = new Set(renewed.map(({ body }) => body.refreshToken));
    expect(successors.size).toBe(1);
    expect(successors).not.toContain(user.refreshToken);
    const [successor] = successors;
    expect(
      (await platform.client.get('/authentication/user', { token: renewed[0]!.body.accessToken }))
        .status,
    ).toBe(200);

    // The successor is used: whoever now shows the first token again is not its owner.
    expect((await renew(successor)).status).toBe(200);
    expect((await renew(user.refreshToken)).status).toBe(401);
    expect((await user.api.get('/authentication/user')).status).toBe(401);
  });

  it('ends the session at once on logout', async () => {
    const user = await platform.registerUser();
    expect((await user.api.post('/authentication/logout')).body).toEqual({ result: 'LoggedOut' });
    expect((await user.api.get('/authentication/user')).status).toBe(401);
    expect((await renew(user.refreshToken)).status).toBe(401);
  });

  it('ends the other sessions when the password changes', async () => {
    const user = await platform.registerUser();
    const elsewhere = await platform.login(user.email, user.password);
    const newPassword = 'Another-Secret-18';
    const changed = await user.api.post('/authentication/local/change-password', {
      oldPassword: user.password,
      newPassword,
    });
    expect(changed.status).toBe(200);
    expect((await user.api.get('/authentication/user')).status).toBe(200);
    expect((await elsewhere.api.get('/authentication/user')).status).toBe(401);
    expect(
      (
        await platform.client.post('/authentication/local', {
          email: user.email,
          password: user.password,
        })
      ).status,
    ).toBe(401);
    await platform.login(user.email, newPassword);
  });

  it('does not know the removed service login', async () => {
    expect((await platform.client.post('/authentication/service', {})).status).toBe(404);
  });
});
