import { afterAll, beforeAll, expect, test } from 'vitest';
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
const login = (email: string, body: object = {}, address = '192.0.2.1') =>
  fixture.node.call('authentication.local.login', { body: { email, password, ...body }, address });
const topics = async (userId: unknown): Promise<string[]> => {
  const { rows } = await fixture.database.query<{ topic: string }>({
    text: "select topic from penstock.outbox where $1 = any(ids) and topic like 'authentication:%' order by seq",
    values: [userId],
  });
  return rows.map((row) => row.topic);
};

test('registers an account that is neither verified nor signed in, and answers no secret', async () => {
  const { status, body } = await register('Ada@Example.com');
  expect(status).toBe(200);
  expect(body.user).toMatchObject({
    email: 'ada@example.com',
    active: true,
    isVerified: false,
    hasTwoFA: false,
    isAnonymous: false,
  });
  expect(JSON.stringify(body)).not.toMatch(/argon2|hashedPassword|oken/);
  expect(await topics((body.user as { _id: string })._id)).toEqual([
    'authentication:register:user',
  ]);
});

test('refuses a second account for another spelling of the address', async () => {
  await register('grace@example.com');
  expect(await register('GRACE@example.COM')).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
  expect(await register('\uff47race@example.com')).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
});

test('200 concurrent registrations of one address make one account', async () => {
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, i) => register(i % 2 ? 'one@example.com' : 'One@Example.com')),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  // Hashing is bounded: on a slow machine some wait too long for it and are told to come again.
  const others = answers.filter(({ status }) => status !== 200);
  expect(
    others.filter(({ status, body }) => status !== 503 && body.code !== 'USER_EXISTS'),
  ).toEqual([]);
  expect(others.some(({ body }) => body.code === 'USER_EXISTS')).toBe(true);
  const { rows } = await fixture.database.query<{ count: number }>({
    text: 'select count(*)::int as count from "app"."User" where "email" = $1',
    values: ['one@example.com'],
  });
  expect(rows[0]?.count).toBe(1);
});

test('logs in with any spelling of the address, and the token opens the account', async () => {
  const { body: registered } = await register('lin@example.com');
  const { status, body } = await login('LIN@example.com');
  const userId = (registered.user as { _id: string })._id;
  expect(status).toBe(200);
  expect(body).toEqual({
    userId,
    accessToken: expect.any(String),
    refreshToken: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
  });
  const user = await fixture.node.call('authentication.user.get', {
    bearer: body.accessToken as string,
  });
  expect(user).toMatchObject({ status: 200, body: { _id: userId, email: 'lin@example.com' } });
  expect(await topics(userId)).toEqual([
    'authentication:register:user',
    'authentication:login:user',
  ]);
});

test('an account that needs a second factor gets a token for the second step only', async () => {
  await register('two@example.com');
  await fixture.database.query({
    text: `update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "email" = 'two@example.com'`,
  });
  const { body } = await login('two@example.com');
  expect(body).toMatchObject({
    twoFaRequired: true,
    twoFaMethod: 'authenticator',
    accessToken: expect.any(String),
  });
  expect(body).not.toHaveProperty('refreshToken');
  const caller = await fixture.node.kernel.identity.client?.authenticate({
    bearer: body.accessToken as string,
    masterKey: undefined,
    apiToken: undefined,
    cookies: {},
    address: '192.0.2.1',
  });
  expect(caller?.complete).toBe(false);
});

test('where only one session is allowed, a login ends the earlier one', async () => {
  await register('single@example.com');
  const first = await login('single@example.com');
  await fixture.node.configure((config) => ({
    ...config,
    clients: { ...config.clients, multipleUserSessions: false },
  }));
  const second = await login('single@example.com');
  await fixture.node.configure((config) => ({
    ...config,
    clients: { ...config.clients, multipleUserSessions: true },
  }));
  const read = (bearer: unknown) =>
    fixture.node.call('authentication.user.get', { bearer: bearer as string });
  expect((await read(first.body.accessToken)).status).toBe(401);
  expect((await read(second.body.accessToken)).status).toBe(200);
});

test('a password hashed with other parameters is hashed anew at the next login', async () => {
  await register('old@example.com');
  const { hash } = await import('@node-rs/argon2');
  const old = await hash(Buffer.from(password), { memoryCost: 128, timeCost: 1, parallelism: 1 });
  await fixture.database.query({
    text: `update "app"."User" set "hashedPassword" = $1 where "email" = 'old@example.com'`,
    values: [old],
  });
  expect((await login('old@example.com')).status).toBe(200);
  const { rows } = await fixture.database.query<{ hash: string }>({
    text: `select "hashedPassword" as hash from "app"."User" where "email" = 'old@example.com'`,
  });
  expect(rows[0]?.hash).toContain('m=64,t=1,p=1');
  expect((await login('old@example.com')).status).toBe(200);
});

test('switched off, the local routes are gone', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    local: { ...config.local, enabled: false },
  }));
  expect((await login('lin@example.com')).status).toBe(404);
  await fixture.node.configure((config) => ({
    ...config,
    local: { ...config.local, enabled: true },
  }));
  expect((await login('lin@example.com')).status).toBe(200);
});

test('where a user may have one session, many logins at the same time leave one', async () => {
  const email = 'one-session@example.com';
  await fixture.node.call('authentication.local.register', { body: { email, password } });
  await fixture.node.configure((config) => ({
    ...config,
    clients: { ...config.clients, multipleUserSessions: false },
  }));
  const logins = await Promise.all(
    Array.from({ length: 8 }, () =>
      fixture.node.call('authentication.local.login', { body: { email, password } }),
    ),
  );
  await fixture.node.configure((config) => ({
    ...config,
    clients: { ...config.clients, multipleUserSessions: true },
  }));
  expect(logins.map(({ status }) => status)).toEqual(logins.map(() => 200));
  const live = 'select 1 from penstock.sessions where user_id = $1 and revoked_at is null';
  expect(
    (await fixture.database.query({ text: live, values: [logins[0]?.body.userId] })).count,
  ).toBe(1);
});
