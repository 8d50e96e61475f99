/**
 * Guessing from many places (NIST SP 800-63B-4, 3.2.2), lockout as a denial of service (OWASP ASVS 5.0 6.1.1),
 * notices of sign-ins from somewhere new (ASVS 6.3.5), step-up (ASVS 7.5.1), lockout bypass through secondary
 * flows (CVE-2026-9798).
 */
import { generateSync } from 'otplib';
import Type from 'typebox';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
} from '../../../test/support/authentication.ts';
import { captchaRoutes } from './operations/captcha.ts';

let fixture: AuthenticationFixture;
let users = 0;
beforeAll(async () => {
  fixture = await openAuthentication();
});
afterAll(() => fixture.close());

const password = 'correct horse battery staple';
const home = '192.0.2.1';
const newUser = async (): Promise<string> => {
  users += 1;
  const email = `user${users}@example.com`;
  await fixture.node.call('authentication.local.register', { body: { email, password } });
  return email;
};
const login = (email: string, given = password, address = home) =>
  fixture.node.call('authentication.local.login', { body: { email, password: given }, address });
const mailsTo = (email: string, template: string) =>
  fixture.node.mails.filter(
    (mail) => mail.to === email && 'template' in mail && mail.template === template,
  );
const age = (userId: unknown) =>
  fixture.database.query({
    text: `update penstock.sessions set authenticated_at = now() - interval '1 hour' where user_id = $1`,
    values: [userId],
  });
const sudo = (bearer: unknown, body: object, address = home) =>
  fixture.node.call('authentication.session.stepUp', { bearer: bearer as string, body, address });

test('a hundred places together guess a hundred times; then the owner goes on from where they were before, and is told once', async () => {
  const email = await newUser();
  expect((await login(email)).status).toBe(200);
  const statuses: number[] = [];
  // In groups: hashing is bounded, and who would wait for it too long is told to come again.
  for (let i = 0; i < 130; i += 10) {
    const group = Array.from({ length: 10 }, (_, k) =>
      login(email, 'not the password', `198.51.100.${i + k}`),
    );
    statuses.push(...(await Promise.all(group)).map(({ status }) => status));
  }
  expect(statuses.filter((status) => status === 401)).toHaveLength(100);
  expect(statuses.filter((status) => status === 429)).toHaveLength(30);
  expect(await login(email, password, '203.0.113.200')).toMatchObject({
    status: 429,
    body: { code: 'ATTEMPTS_EXHAUSTED', retryAfter: expect.any(Number) },
  });
  await fixture.node.jobsDone();
  expect(mailsTo(email, 'ManyFailures')).toHaveLength(1);
  expect((await login(email)).status).toBe(200);
  expect((await login(email, password, '203.0.113.200')).status).toBe(200);
});

test('an account that there is not is refused after as many guesses', async () => {
  const statuses = [];
  for (let i = 0; i < 102; i += 1)
    statuses.push((await login('nobody@example.com', 'x', `203.0.${i >> 4}.${i & 15}`)).status);
  expect(statuses.filter((status) => status === 401)).toHaveLength(100);
  expect(statuses.slice(-2)).toEqual([429, 429]);
});

test('a sign-in from somewhere new is told by mail, the first one and the known ones are not', async () => {
  const email = await newUser();
  await login(email);
  await login(email, password, '192.0.77.5');
  expect(mailsTo(email, 'NewDevice')).toHaveLength(0);
  await login(email, password, '203.0.113.7');
  await login(email, password, '203.0.113.8');
  expect(mailsTo(email, 'NewDevice')).toMatchObject([
    { variables: { device: 'vitest', address: '203.0.113.7' } },
  ]);
});

test('a step-up makes the session fresh, on the next token and on renewals', async () => {
  const email = await newUser();
  const { body: pair } = await login(email);
  await age(pair.userId);
  const stale = (
    await fixture.node.call('authentication.session.renew', { bearer: pair.refreshToken as string })
  ).body;
  const remove = (bearer: unknown) =>
    fixture.node.call('authentication.user.delete', { bearer: bearer as string });
  expect((await remove(stale.accessToken)).status).toBe(403);
  const fresh = await sudo(stale.accessToken, { password });
  expect(fresh).toMatchObject({ status: 200, body: { accessToken: expect.any(String) } });
  const renewed = (
    await fixture.node.call('authentication.session.renew', {
      bearer: stale.refreshToken as string,
    })
  ).body;
  expect((await remove(renewed.accessToken)).status).toBe(200);
});

test('a step-up needs exactly one right proof, and guessing it spends the budget of logins', async () => {
  const email = await newUser();
  const { accessToken } = (await login(email)).body;
  expect(await sudo(accessToken, {})).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'password', rule: 'oneOf' }] },
  });
  expect((await sudo(accessToken, { password, code: '123456' })).status).toBe(400);
  expect((await sudo(accessToken, { code: '123456' })).status).toBe(404);
  const statuses = [];
  for (let i = 0; i < 11; i += 1)
    statuses.push((await sudo(accessToken, { password: 'not the password' }, '198.51.7.7')).status);
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429]);
  expect((await login(email, password, '198.51.7.7')).status).toBe(429);
});

test('the password alone is not enough where there is a second factor', async () => {
  const email = await newUser();
  const { body } = await login(email);
  await fixture.database.query({
    text: `update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "_id" = $1`,
    values: [body.userId],
  });
  expect(await sudo(body.accessToken, { password })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'code' }] },
  });
  expect((await sudo(body.accessToken, { code: '000000' })).status).toBe(400);
});

test('a code of the second factor makes the session fresh, once', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    twoFa: { ...config.twoFa, enabled: true },
  }));
  const email = await newUser();
  const { body } = await login(email);
  const bearer = body.accessToken as string;
  const { secret } = (await fixture.node.call('authentication.twoFa.enable', { bearer })).body as {
    secret: string;
  };
  const codeOf = (offset: number) =>
    generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + offset * 30 });
  expect(
    (
      await fixture.node.call('authentication.twoFa.confirm', {
        bearer,
        body: { code: codeOf(-1) },
      })
    ).status,
  ).toBe(200);
  await age(body.userId);
  const code = codeOf(1);
  expect((await sudo(bearer, { code })).status).toBe(200);
  expect((await sudo(bearer, { code })).status).toBe(400);
});

test('sessions have a name, which only their owner changes', async () => {
  const email = await newUser();
  const { accessToken } = (await login(email)).body as { accessToken: string };
  const stranger = (await login(await newUser())).body as { accessToken: string };
  const list = async () =>
    (await fixture.node.call('authentication.session.list', { bearer: accessToken })).body
      .sessions as {
      _id: string;
      name: string;
      current: boolean;
    }[];
  const [session] = await list();
  expect(session).toMatchObject({ name: 'vitest', current: true });
  const rename = (bearer: string) =>
    fixture.node.call('authentication.session.rename', {
      bearer,
      params: { id: session?._id },
      body: { name: ' My desk ' },
    });
  expect((await rename(stranger.accessToken)).status).toBe(404);
  expect(await rename(accessToken)).toMatchObject({
    status: 200,
    body: { name: 'My desk', current: true },
  });
  expect(await list()).toMatchObject([{ name: 'My desk' }]);
});

test('a user reads what happened to their own account, and to no other', async () => {
  const email = await newUser();
  await login(email, 'not the password', '198.51.100.99');
  const { accessToken } = (await login(email)).body as { accessToken: string };
  const { body } = await fixture.node.call('authentication.user.securityEvents', {
    bearer: accessToken,
  });
  expect(body).toMatchObject({
    count: 3,
    events: [
      { action: 'login', outcome: 'success', ip: home, device: 'vitest' },
      { action: 'login', outcome: 'refused', ip: '198.51.100.99' },
      { action: 'register', outcome: 'success' },
    ],
  });
});

test('a refresh token that comes back is written down', async () => {
  const email = await newUser();
  const { refreshToken, userId } = (await login(email)).body as {
    refreshToken: string;
    userId: string;
  };
  const renew = () => fixture.node.call('authentication.session.renew', { bearer: refreshToken });
  await renew();
  await fixture.database.query({
    text: `update penstock.refresh_tokens set used_at = used_at - interval '11 seconds'`,
  });
  expect((await renew()).status).toBe(401);
  expect(
    await fixture.node.kernel.audit.list(
      { target: `User:${userId}`, action: 'authentication.reuse' },
      { skip: 0, limit: 5 },
    ),
  ).toMatchObject([{ outcome: 'refused', ip: home }]);
});

test('with everything on, each way in takes a captcha where it should, and none leaves tokens in a body', async () => {
  const on = { enabled: true };
  const provider = { ...on, clientId: 'app', clientSecret: 'only for tests' };
  await fixture.node.configure((config) => ({
    ...config,
    local: { ...config.local, username_auth_enabled: true },
    accessTokens: { ...config.accessTokens, setCookie: true },
    captcha: { ...config.captcha, ...on, routes: { login: true, register: true, oAuth2: true } },
    ...Object.fromEntries(
      (
        [
          'magic_link',
          'email_code',
          'twoFa',
          'passkeys',
          'phoneAuthentication',
          'anonymousUsers',
          'biometricAuthentication',
          'metamask',
        ] as const
      ).map((part) => [part, { ...config[part], ...on }]),
    ),
    ...Object.fromEntries(
      (['google', 'facebook', 'apple'] as const).map((name) => [
        name,
        { ...config[name], ...provider },
      ]),
    ),
  }));
  const operations = fixture.node.kernel.operations.all().map(({ operation }) => operation);
  for (const id of captchaRoutes.keys()) {
    const { query } = operations.find((operation) => operation.id === id)?.input ?? {};
    expect(Object.keys(query?.properties ?? {}), id).toContain('captchaToken');
  }
  const answering = operations.filter(
    ({ surface, output }) =>
      surface === 'client' && JSON.stringify(output).includes('"accessToken"'),
  );
  expect(answering.length).toBeGreaterThan(10);
  for (const { id, output, idempotency } of answering) {
    expect((Type.IsObject(output) && output.required) || [], id).not.toContain('accessToken');
    expect(idempotency, id).toBe(false);
  }
});
