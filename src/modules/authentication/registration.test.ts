/** What belongs to a registration: hooks, the upgrade of an anonymous user, and everything in one transaction. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
} from '../../../test/support/authentication.ts';
import { authErrors } from './errors.ts';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
});
afterAll(() => fixture.close());

const password = 'correct horse battery staple';
const register = (email: string, more: object = {}, bearer?: string) =>
  fixture.node.call('authentication.local.register', {
    body: { email, password, ...more },
    bearer,
  });
const login = async (email: string): Promise<string> =>
  (await fixture.node.call('authentication.local.login', { body: { email, password } })).body
    .accessToken as string;
const countOf = async (email: string): Promise<number> => {
  const { rows } = await fixture.database.query<{ count: number }>({
    text: 'select count(*)::int as count from "app"."User" where "email" = $1',
    values: [email],
  });
  return rows[0]?.count ?? 0;
};

/** An anonymous user, as the route for them makes it. */
async function anonymousUser(email: string): Promise<{ userId: string; bearer: string }> {
  const { body } = await register(email);
  const change = (fields: string) =>
    fixture.database.query({
      text: `update "app"."User" set ${fields} where "email" = $1`,
      values: [email],
    });
  await change('"isVerified" = true');
  const bearer = await login(email);
  await change('"isVerified" = false, "isAnonymous" = true');
  return { userId: (body.user as { _id: string })._id, bearer };
}

test('a hook refuses a registration, and nothing of it has happened', async () => {
  const stop = fixture.node.service.onRegistration(
    async (_transaction, _caller, { strategy, email }) => {
      if (strategy === 'local' && email?.endsWith('@refused.example'))
        throw authErrors.INVITATION_REQUIRED();
      return undefined;
    },
  );
  expect(await register('a@refused.example')).toMatchObject({
    status: 403,
    body: { code: 'INVITATION_REQUIRED' },
  });
  expect(await countOf('a@refused.example')).toBe(0);
  expect((await register('a@welcome.example')).status).toBe(200);
  stop();
  expect((await register('a@refused.example')).status).toBe(200);
});

test('a hook verifies an account, and what it does afterwards fails with it or happens with it', async () => {
  const seen: string[] = [];
  const stop = fixture.node.service.onRegistration(async (_transaction, _caller, { email }) => ({
    isVerified: true,
    userData: { hashedPassword: 'of the hook', unknown: 'x' },
    async registered(userId) {
      seen.push(userId);
      if (email === 'late@example.com') throw authErrors.INVALID_INVITATION();
    },
  }));
  const { body } = await register('hooked@example.com');
  expect(body.user).toMatchObject({ isVerified: true });
  expect(seen).toEqual([(body.user as { _id: string })._id]);
  expect(await login('hooked@example.com')).toBeTypeOf('string');
  expect(await register('late@example.com')).toMatchObject({ status: 403 });
  expect(await countOf('late@example.com')).toBe(0);
  stop();
});

test('an anonymous user becomes the account, in place and once', async () => {
  const { userId, bearer } = await anonymousUser('guest@guests.example');
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => register(`grown${i}@example.com`, {}, bearer)),
  );
  const made = answers.filter(({ status }) => status === 200);
  expect(made).toHaveLength(1);
  expect(made[0]?.body.user).toMatchObject({ _id: userId, isAnonymous: false });
  // Twenty passwords at once are more than a busy machine takes: who is not asked is told to come again.
  const others = answers.filter(({ status }) => status !== 200 && status !== 503);
  expect(others.length).toBeGreaterThan(0);
  for (const { status, body } of others)
    expect([status, body.code]).toEqual([400, 'USER_NOT_ANONYMOUS']);
  expect((await fixture.node.call('authentication.user.get', { bearer })).body).toMatchObject({
    _id: userId,
    isAnonymous: false,
  });
});

test('a taken address stays with its owner; a registered user does not register again', async () => {
  await register('owner@example.com');
  const { bearer } = await anonymousUser('other@guests.example');
  expect(await register('owner@example.com', {}, bearer)).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
  expect(await register('second@example.com', {}, await login('owner@example.com'))).toMatchObject({
    status: 400,
    body: { code: 'USER_NOT_ANONYMOUS' },
  });
  expect(await countOf('second@example.com')).toBe(0);
});

test('while addresses must be verified, the answers to a signed-in caller do not tell either', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    local: { ...config.local, verification: { ...config.local.verification, required: true } },
  }));
  const [third, fourth] = [
    await anonymousUser('third@guests.example'),
    await anonymousUser('fourth@guests.example'),
  ];
  const answer = (userId: string, email: string) => ({
    status: 200,
    body: { user: { _id: userId, email, isAnonymous: false } },
  });
  const taken = await register('owner@example.com', {}, third.bearer);
  expect(taken).toMatchObject(answer(third.userId, 'owner@example.com'));
  const free = await register('free@example.com', {}, fourth.bearer);
  expect(free).toMatchObject(answer(fourth.userId, 'free@example.com'));
  expect(Object.keys(free.body.user as object)).toEqual(Object.keys(taken.body.user as object));
  expect(await countOf('owner@example.com')).toBe(1);
  await fixture.node.jobsDone();
  expect(fixture.node.mails.filter(({ to }) => to === 'owner@example.com')).toMatchObject([
    { template: 'AccountExists' },
  ]);
});
