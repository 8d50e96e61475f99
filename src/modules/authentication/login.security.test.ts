/**
 * Enumeration (https://github.com/advisories/GHSA-w54v-hf9p-8856), lockout races
 * (https://github.com/parse-community/parse-server/pull/10266), lockout as a denial of service
 * (OWASP ASVS 5.0 6.1.1), mass assignment (https://github.com/advisories/GHSA-5v7g-9h8f-8pgg).
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
} from '../../../test/support/authentication.ts';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
});
afterAll(() => fixture.close());

const password = 'correct horse battery staple';
const register = (email: string, more: object = {}) =>
  fixture.node.call('authentication.local.register', { body: { email, password, ...more } });
const login = (email: string, given = password, address = '192.0.2.1') =>
  fixture.node.call('authentication.local.login', { body: { email, password: given }, address });

test('an unknown address, a wrong password and an account without a password look the same and cost the same work', async () => {
  await register('known@example.com');
  await register('bare@example.com');
  await fixture.database.query({
    text: `update "app"."User" set "hashedPassword" = null where "email" = 'bare@example.com'`,
  });
  const verify = vi.spyOn(fixture.node.kernel.passwords, 'verify');
  const answers = [];
  for (const email of ['known@example.com', 'unknown@example.com', 'bare@example.com'])
    answers.push(await login(email, 'not the password'));
  expect(answers[0]).toMatchObject({ status: 401, body: { code: 'CREDENTIALS_INVALID' } });
  expect(answers[1]).toEqual(answers[0]);
  expect(answers[2]).toEqual(answers[0]);
  expect(verify).toHaveBeenCalledTimes(3);
  verify.mockRestore();
});

test('that an account is blocked is told only to who knows its password', async () => {
  const { body } = await register('blocked@example.com');
  await fixture.node.call('authentication.users.block', {
    params: { id: (body.user as { _id: string })._id },
  });
  expect(await login('blocked@example.com', 'not the password')).toMatchObject({
    status: 401,
    body: { code: 'CREDENTIALS_INVALID' },
  });
  expect(await login('blocked@example.com')).toMatchObject({
    status: 403,
    body: { code: 'USER_BLOCKED' },
  });
});

test('50 parallel wrong passwords never exceed the budget, and the owner elsewhere is not locked out', async () => {
  await register('target@example.com');
  const verify = vi.spyOn(fixture.node.kernel.passwords, 'verify');
  const answers = await Promise.all(
    Array.from({ length: 50 }, () =>
      login('target@example.com', 'not the password', '198.51.100.7'),
    ),
  );
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(10);
  expect(
    answers.filter(({ status, body }) => status === 429 && Number(body.retryAfter) > 0),
  ).toHaveLength(40);
  expect(verify).toHaveBeenCalledTimes(10);
  verify.mockRestore();
  expect((await login('target@example.com', password, '198.51.100.7')).status).toBe(429);
  expect((await login('target@example.com', password, '203.0.113.9')).status).toBe(200);
});

test('neither another spelling nor another address of the same /64 buys a new budget', async () => {
  for (let i = 0; i < 10; i += 1)
    await login('Spelled@example.com', 'not the password', `2001:db8:1:2::${i + 1}`);
  expect(
    (await login('spelled@EXAMPLE.com', 'not the password', '2001:db8:1:2:ffff::1')).status,
  ).toBe(429);
});

test('a success gives the budget back', async () => {
  await register('clumsy@example.com');
  for (let round = 0; round < 3; round += 1) {
    for (let i = 0; i < 9; i += 1)
      expect((await login('clumsy@example.com', 'not the password')).status).toBe(401);
    expect((await login('clumsy@example.com')).status).toBe(200);
  }
});

test.each([
  '_id',
  'isVerified',
  'active',
  'createdAt',
  '__v',
  'hasTwoFA',
  'hashedPassword',
  'email',
  '$set',
  'a.b',
  'constructor',
  'toString',
  'unknown',
])('userData cannot hold %s, neither at registration nor later', async (name) => {
  const userData = { [name]: true };
  const refused = {
    status: 400,
    body: { code: 'USER_DATA_UNKNOWN', errors: [{ path: `userData.${name}`, rule: 'unknown' }] },
  };
  expect(await register('mass@example.com', { userData })).toMatchObject(refused);
  await register('holder@example.com');
  const { body } = await login('holder@example.com');
  const bearer = body.accessToken as string;
  expect(
    await fixture.node.call('authentication.user.update', { bearer, body: { userData } }),
  ).toMatchObject(refused);
});

test('__proto__ as an own key of userData is refused', async () => {
  expect(
    await register('mass@example.com', {
      userData: JSON.parse('{"__proto__":{"isVerified":true}}'),
    }),
  ).toMatchObject({ status: 400 });
});

test('weak passwords are refused before anything is stored', async () => {
  for (const weak of ['short', 'password1', 'weak@example.com', '12345678']) {
    expect(
      await fixture.node.call('authentication.local.register', {
        body: { email: 'weak@example.com', password: weak },
      }),
    ).toMatchObject({
      status: 400,
      body: { code: 'PASSWORD_WEAK', errors: [{ path: 'password' }] },
    });
  }
  expect((await register('weak@example.com')).status).toBe(200);
});
