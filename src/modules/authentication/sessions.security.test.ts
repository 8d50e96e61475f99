/**
 * Sessions end at once, everywhere, also with warm caches: CVE-2026-22706 (reset keeps tokens), CVE-2025-4643
 * (token valid after logout), GHSA-56p6-qw3c-fq2g (suspended user's token works), GHSA-2vg6-77g8-24mp
 * (sessions after deletion).
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  type AuthenticationFixture,
  type AuthenticationNode,
  openAuthentication,
} from '../../../test/support/authentication.ts';

let fixture: AuthenticationFixture;
let first: AuthenticationNode;
let second: AuthenticationNode;
let users = 0;
beforeAll(async () => {
  fixture = await openAuthentication();
  first = fixture.node;
  second = await fixture.addNode();
});
afterAll(() => fixture.close());

const password = 'correct horse battery staple';

interface Signed {
  readonly email: string;
  readonly userId: string;
  readonly accessToken: string;
  readonly refreshToken: string;
}

async function signIn(email?: string): Promise<Signed> {
  const body = { email: email ?? `user${++users}@example.com`, password };
  if (!email) await first.call('authentication.local.register', { body });
  const { body: pair } = await first.call('authentication.local.login', { body });
  return { email: body.email, ...(pair as unknown as Omit<Signed, 'email'>) };
}
/** Statuses of the same request on both nodes. */
const statuses = async (bearer: string): Promise<number[]> =>
  (
    await Promise.all(
      [first, second].map((node) => node.call('authentication.user.get', { bearer })),
    )
  ).map(({ status }) => status);
const renew = async (bearer: string): Promise<number> =>
  (await second.call('authentication.session.renew', { bearer })).status;

test('both nodes accept the tokens that either has signed', async () => {
  const { accessToken } = await signIn();
  expect(await statuses(accessToken)).toEqual([200, 200]);
});

test.each<[string, number, (user: Signed) => Promise<unknown>]>([
  [
    'logout',
    401,
    (user) => first.call('authentication.session.logout', { bearer: user.accessToken }),
  ],
  [
    'deletion by the user',
    401,
    (user) => first.call('authentication.user.delete', { bearer: user.accessToken }),
  ],
  [
    'deletion by an operator',
    401,
    (user) => first.call('authentication.users.delete', { params: { id: user.userId } }),
  ],
  [
    'block',
    403,
    (user) => first.call('authentication.users.block', { params: { id: user.userId } }),
  ],
  [
    'revocation by an operator',
    401,
    (user) => first.call('authentication.users.endSessions', { params: { id: user.userId } }),
  ],
  [
    'another module',
    401,
    (user) => first.service.endSessions({ kind: 'system', reason: 'test' }, [user.userId]),
  ],
])('%s ends the session on every node for the very next request', async (_name, expected, end) => {
  const user = await signIn();
  expect(await statuses(user.accessToken)).toEqual([200, 200]);
  await end(user);
  expect(await statuses(user.accessToken)).toEqual([expected, expected]);
  expect(await renew(user.refreshToken)).toBe(expected);
});

test('a change of password ends all other sessions and keeps this one', async () => {
  const here = await signIn();
  const there = await signIn(here.email);
  expect(await statuses(there.accessToken)).toEqual([200, 200]);
  const body = { oldPassword: password, newPassword: 'another horse, another staple' };
  expect(
    await first.call('authentication.local.changePassword', { bearer: here.accessToken, body }),
  ).toMatchObject({ status: 200 });
  expect(await statuses(here.accessToken)).toEqual([200, 200]);
  expect(await statuses(there.accessToken)).toEqual([401, 401]);
  expect(await renew(there.refreshToken)).toBe(401);
  expect(
    (await first.call('authentication.local.login', { body: { email: here.email, password } }))
      .status,
  ).toBe(401);
  expect(
    (
      await first.call('authentication.local.login', {
        body: { email: here.email, password: body.newPassword },
      })
    ).status,
  ).toBe(200);
});

test('a login that runs beside a change of password or a block leaves no session behind', async () => {
  for (let round = 0; round < 10; round += 1) {
    const user = await signIn();
    const login = () =>
      second.call('authentication.local.login', { body: { email: user.email, password } });
    const end =
      round % 2 === 0
        ? first.call('authentication.local.changePassword', {
            bearer: user.accessToken,
            body: { oldPassword: password, newPassword: `${password} ${round}` },
          })
        : first.call('authentication.users.block', { params: { id: user.userId } });
    const [ended, ...logins] = await Promise.all([end, login(), login(), login()]);
    expect(ended.status).toBe(200);
    for (const { status, body } of logins)
      if (status === 200) expect(await statuses(String(body.accessToken))).not.toContain(200);
  }
});

test('a blocked user is told so, and an unblocked one must log in again', async () => {
  const user = await signIn();
  const params = { id: user.userId };
  await first.call('authentication.users.block', { params });
  expect(await first.call('authentication.users.block', { params })).toMatchObject({
    status: 400,
    body: { code: 'USER_ALREADY_BLOCKED' },
  });
  await first.call('authentication.users.unblock', { params });
  expect(await statuses(user.accessToken)).toEqual([401, 401]);
  expect(await statuses((await signIn(user.email)).accessToken)).toEqual([200, 200]);
});

test('users see and end their own sessions, and nobody else can', async () => {
  const here = await signIn();
  const there = await signIn(here.email);
  const stranger = await signIn();
  const list = async (bearer: string) =>
    (await first.call('authentication.session.list', { bearer })).body as {
      count: number;
      sessions: { _id: string; current: boolean; userAgent: string }[];
    };
  const { sessions, count } = await list(here.accessToken);
  expect(count).toBe(2);
  expect(sessions.filter(({ current }) => current)).toHaveLength(1);
  expect(sessions[0]).toMatchObject({
    userAgent: 'vitest',
    ip: '192.0.2.1',
    clientId: 'anonymous-client',
  });
  const other = sessions.find(({ current }) => !current)?._id;
  const end = (bearer: string) =>
    first.call('authentication.session.end', { bearer, params: { id: other } });
  expect((await end(stranger.accessToken)).status).toBe(404);
  expect(await statuses(there.accessToken)).toEqual([200, 200]);
  expect((await end(here.accessToken)).status).toBe(200);
  expect(await statuses(there.accessToken)).toEqual([401, 401]);
  expect((await end(here.accessToken)).status).toBe(404);
});

test('all other sessions end together', async () => {
  const here = await signIn();
  const others = [await signIn(here.email), await signIn(here.email)];
  expect(
    await first.call('authentication.session.endOthers', { bearer: here.accessToken }),
  ).toMatchObject({
    body: { result: '2 sessions ended' },
  });
  for (const { accessToken } of others) expect(await statuses(accessToken)).toEqual([401, 401]);
  expect(await statuses(here.accessToken)).toEqual([200, 200]);
});

test('deleting the account needs a fresh login, which a renewal is not', async () => {
  const user = await signIn();
  await fixture.database.query({
    text: `update penstock.sessions set authenticated_at = now() - interval '1 hour' where user_id = $1`,
    values: [user.userId],
  });
  const { body } = await first.call('authentication.session.renew', { bearer: user.refreshToken });
  const remove = (bearer: unknown) =>
    first.call('authentication.user.delete', { bearer: bearer as string });
  expect(await remove(body.accessToken)).toMatchObject({
    status: 403,
    body: { message: 'Re-login required to enter sudo mode' },
  });
  expect(await remove((await signIn(user.email)).accessToken)).toMatchObject({
    status: 200,
    body: { result: 'LoggedOut' },
  });
  expect(
    (await first.call('authentication.local.login', { body: { email: user.email, password } }))
      .status,
  ).toBe(401);
});

test('requests that overtake the deletion of their account are 401', async () => {
  const user = await signIn();
  const remove = () => first.call('authentication.user.delete', { bearer: user.accessToken });
  const read = () => second.call('authentication.user.get', { bearer: user.accessToken });
  const answers = await Promise.all([remove(), remove(), remove(), remove(), read(), read()]);
  expect(
    answers
      .slice(0, 4)
      .map(({ status }) => status)
      .sort(),
  ).toEqual([200, 401, 401, 401]);
  for (const { status } of answers.slice(4)) expect([200, 401]).toContain(status);
  expect(await statuses(user.accessToken)).toEqual([401, 401]);
});

test('a wrong old password is 401, keeps the session, and guessing it is limited', async () => {
  const { accessToken: bearer } = await signIn();
  const change = () =>
    first.call('authentication.local.changePassword', {
      bearer,
      body: { oldPassword: 'wrong', newPassword: 'quite another one' },
    });
  for (let i = 0; i < 9; i += 1)
    expect(await change()).toMatchObject({ status: 401, body: { code: 'PASSWORD_INCORRECT' } });
  const answers = await Promise.all([change(), change(), change()]);
  expect(answers.map(({ status }) => status).sort()).toEqual([401, 429, 429]);
  expect(await statuses(bearer)).toEqual([200, 200]);
});

test('a new signing key is published first, then signs on every node, and the old one verifies on', async () => {
  const old = await signIn();
  const job = first.running.jobs?.find(({ name }) => name === 'authentication.rotate-signing-key');
  await fixture.database.query({
    text: `update penstock.signing_keys set created_at = created_at - interval '91 days'`,
  });
  const context = { signal: new AbortController().signal, log: first.kernel.log };
  await Promise.all([job?.handler({}, context), job?.handler({}, context)]);
  const kid = (token: string) =>
    JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid;
  const published = async () =>
    ((await second.call('authentication.keys.list')).body.keys as { kid: string }[]).map(
      (key) => key.kid,
    );
  const [next, ...others] = await published();
  expect(others).toEqual([kid(old.accessToken)]);
  const meanwhile = await signIn();
  expect(kid(meanwhile.accessToken)).toBe(kid(old.accessToken));

  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 11 * 60_000 });
  const fresh = await signIn().finally(() => vi.useRealTimers());
  expect(kid(fresh.accessToken)).toBe(next);
  expect(await statuses(fresh.accessToken)).toEqual([200, 200]);
  expect(await statuses(old.accessToken)).toEqual([200, 200]);
  expect(await published()).toHaveLength(2);
});

test('another algorithm signs on every node at once, made by one of them', async () => {
  const old = await signIn();
  const change = (node: AuthenticationNode) =>
    node.configure((config) => ({
      ...config,
      accessTokens: { ...config.accessTokens, algorithm: 'ES256' },
    }));
  await Promise.all([change(first), change(second)]);
  const fresh = await signIn();
  expect(
    JSON.parse(Buffer.from(fresh.accessToken.split('.')[0] ?? '', 'base64url').toString()).alg,
  ).toBe('ES256');
  expect(await statuses(fresh.accessToken)).toEqual([200, 200]);
  expect(await statuses(old.accessToken)).toEqual([200, 200]);
  const { body } = await second.call('authentication.keys.list');
  expect((body.keys as { alg: string }[]).filter(({ alg }) => alg === 'ES256')).toHaveLength(1);
});

test('ended sessions are purged in the end, living ones stay', async () => {
  const gone = await signIn();
  const stays = await signIn();
  await fixture.database.query({
    text: `update penstock.sessions set ends_at = now() - interval '8 days' where user_id = $1`,
    values: [gone.userId],
  });
  const job = first.running.jobs?.find(({ name }) => name === 'authentication.purge-sessions');
  await job?.handler({}, { signal: new AbortController().signal, log: first.kernel.log });
  const { rows } = await fixture.database.query<{ user: string }>({
    text: 'select user_id as user from penstock.sessions where user_id = any($1::uuid[])',
    values: [[gone.userId, stays.userId]],
  });
  expect(rows).toEqual([{ user: stays.userId }]);
});
