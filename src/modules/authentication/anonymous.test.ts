import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestRequest,
} from '../../../test/support/authentication.ts';
import { silentLog } from '../../../test/support/quiet.ts';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
  await fixture.node.configure((config) => ({
    ...config,
    anonymousUsers: { ...config.anonymousUsers, enabled: true },
  }));
});
afterAll(() => fixture.close());

const call = (id: string, request: TestRequest = {}) =>
  fixture.node.call(`authentication.${id}`, request);
const create = async () =>
  (await call('local.registerAnonymous')).body as { userId: string; accessToken: string };
const exists = async (userId: string): Promise<boolean> =>
  (
    await fixture.database.query({
      text: 'select 1 from "app"."User" where "_id" = $1',
      values: [userId],
    })
  ).count > 0;

test('is signed in, has an address that nobody can register, and keeps its id when it registers', async () => {
  const { userId, accessToken } = await create();
  const before = (await call('user.get', { bearer: accessToken })).body;
  expect(before).toMatchObject({
    isAnonymous: true,
    isVerified: false,
    email: expect.stringMatching(/@anonymous\.com$/),
  });
  const body = { email: 'named@example.com', password: 'correct horse battery staple' };
  const { status, body: answer } = await call('local.register', { bearer: accessToken, body });
  expect(status).toBe(200);
  expect(answer.user).toMatchObject({
    _id: userId,
    email: 'named@example.com',
    isAnonymous: false,
  });
  expect(
    (
      await call('local.register', {
        bearer: accessToken,
        body: { ...body, email: 'twice@example.com' },
      })
    ).body,
  ).toMatchObject({
    code: 'USER_NOT_ANONYMOUS',
  });
});

test('may not set up what belongs to a name', async () => {
  const { accessToken: bearer } = await create();
  await fixture.node.configure((config) => ({
    ...config,
    twoFa: { ...config.twoFa, enabled: true, required: true },
    passkeys: { ...config.passkeys, enabled: true },
    biometricAuthentication: { ...config.biometricAuthentication, enabled: true },
  }));
  expect(await call('twoFa.enable', { bearer })).toMatchObject({
    status: 403,
    body: { code: 'USER_ANONYMOUS' },
  });
  expect(await call('passkeys.begin', { bearer })).toMatchObject({
    status: 403,
    body: { code: 'USER_ANONYMOUS' },
  });
  // A second factor that everybody needs is not asked of those who cannot have one.
  expect(await create()).not.toHaveProperty('twoFaRequired');
});

test('is deleted when it gave no sign of life for long, and nobody else is', async () => {
  const [gone, alive, registered] = [await create(), await create(), await create()];
  await call('local.register', {
    bearer: registered.accessToken,
    body: { email: 'stays@example.com', password: 'correct horse battery staple' },
  });
  const query = (text: string, values: readonly unknown[]) =>
    fixture.database.query({ text, values });
  const all = [gone.userId, alive.userId, registered.userId];
  await query(
    `update "app"."User" set "createdAt" = now() - interval '40 days' where "_id" = any($1::uuid[])`,
    [all],
  );
  await query(
    `update penstock.sessions set ends_at = now() - interval '31 days', last_used_at = now() - interval '31 days' where user_id = any($1::uuid[])`,
    [[gone.userId, registered.userId]],
  );
  const job = fixture.node.running.jobs?.find(
    ({ name }) => name === 'authentication.expire-anonymous-users',
  );
  await job?.handler({}, { signal: new AbortController().signal, log: silentLog });
  expect(await Promise.all(all.map(exists))).toEqual([false, true, true]);
});

test('is not made while registration needs an invitation', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    teams: { ...config.teams, enabled: true, allowRegistrationWithoutInvite: false },
  }));
  expect((await call('local.registerAnonymous')).status).toBe(404);
});
