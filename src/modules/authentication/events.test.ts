/** Events and audit rows of sign-ins: what happened, how, and to whom, so that a reader can tell one from another. */
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
const register = async (email: string): Promise<string> => {
  const { body } = await fixture.node.call('authentication.local.register', {
    body: { email, password },
  });
  return (body.user as { _id: string })._id;
};
const login = (email: string, given = password) =>
  fixture.node.call('authentication.local.login', {
    body: { email, password: given },
    address: '192.0.2.1',
  });

interface Written {
  readonly topic: string;
  readonly ids: readonly string[];
  readonly payload: Record<string, unknown>;
}

/** The events of sign-ins since the last call. */
const written = async (): Promise<readonly Written[]> =>
  (
    await fixture.database.query<Written>({
      text: `delete from penstock.outbox where topic like 'authentication:%' returning topic, ids, payload`,
    })
  ).rows;
const audited = async (userId: string): Promise<readonly { action: string; outcome: string }[]> =>
  (
    await fixture.database.query<{ action: string; outcome: string }>({
      text: 'select action, outcome from penstock.audit_log where target = $1 order by id',
      values: [`User:${userId}`],
    })
  ).rows;

test('a registration and a login say how they came about', async () => {
  await written();
  const userId = await register('how@example.com');
  await login('how@example.com');
  expect(await written()).toEqual([
    { topic: 'authentication:register:user', ids: [userId], payload: { strategy: 'local' } },
    {
      topic: 'authentication:login:user',
      ids: [userId],
      payload: { strategy: 'local', sessionId: expect.any(String) },
    },
  ]);
});

test('a failed login is an event, with the account where there is one and without its address', async () => {
  const userId = await register('failing@example.com');
  await written();
  await login('failing@example.com', 'wrong');
  await login('nobody-there@example.com', 'wrong');
  const failed = {
    topic: 'authentication:loginFailed:user',
    payload: { strategy: 'local', reason: 'wrong' },
  };
  expect(await written()).toEqual([
    { ...failed, ids: [userId] },
    { ...failed, ids: [] },
  ]);
});

test('a blocked account is told apart, once the password was right', async () => {
  const userId = await register('blocked@example.com');
  await fixture.database.query({
    text: `update "app"."User" set "active" = false where "email" = 'blocked@example.com'`,
  });
  await written();
  expect((await login('blocked@example.com')).status).toBe(403);
  expect(await written()).toEqual([
    {
      topic: 'authentication:loginFailed:user',
      ids: [userId],
      payload: { strategy: 'local', reason: 'blocked' },
    },
  ]);
});

test('a password alone is no login where a second factor is needed', async () => {
  const userId = await register('half@example.com');
  await fixture.database.query({
    text: `update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "email" = 'half@example.com'`,
  });
  await written();
  expect((await login('half@example.com')).body).toMatchObject({ twoFaRequired: true });
  expect((await written()).map(({ topic }) => topic)).toEqual(['authentication:firstFactor:user']);
  expect(await audited(userId)).toEqual([
    { action: 'authentication.register', outcome: 'success' },
    { action: 'authentication.firstFactor', outcome: 'success' },
  ]);
});
