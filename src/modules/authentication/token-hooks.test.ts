/** Hooks before a token: they refuse, or say more in it; what the platform says itself cannot be replaced. */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
} from '../../../test/support/authentication.ts';
import { authErrors } from './errors.ts';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
  await fixture.node.call('authentication.local.register', { body: credentials });
});
afterAll(() => fixture.close());

const credentials = { email: 'ada@example.com', password: 'correct horse battery staple' };
const login = () => fixture.node.call('authentication.local.login', { body: credentials });
const claimsOf = (token: unknown): Record<string, unknown> =>
  JSON.parse(Buffer.from(String(token).split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;

test('claims are in the tokens of the session and of its renewals, byte for byte the same in the grace time', async () => {
  const stop = fixture.node.service.onToken(async (_transaction, { userId, clientId }) => ({
    plan: 'gold',
    who: userId,
    app: clientId,
  }));
  const { body } = await login();
  const said = { plan: 'gold', who: body.userId, app: 'anonymous-client' };
  expect(claimsOf(body.accessToken)).toMatchObject({ claims: said });
  stop();
  const renew = () =>
    fixture.node.call('authentication.session.renew', { bearer: body.refreshToken as string });
  const [first, second] = [await renew(), await renew()];
  expect(claimsOf(first.body.accessToken)).toMatchObject({ claims: said });
  expect(second.body).toEqual(first.body);
  expect(
    (
      await fixture.node.call('authentication.user.get', {
        bearer: first.body.accessToken as string,
      })
    ).status,
  ).toBe(200);
  expect(claimsOf((await login()).body.accessToken)).not.toHaveProperty('claims');
});

test('no hook makes somebody else of a user', async () => {
  const forged = {
    sub: 'x',
    id: 'x',
    sid: 'x',
    iss: 'x',
    aud: 'x',
    exp: 9_999_999_999,
    authorized: false,
    auth_time: 1,
    client_id: 'x',
    jti: 'x',
    act: { sub: 'x' },
  };
  const stop = fixture.node.service.onToken(async () => forged);
  const { body } = await login();
  stop();
  const claims = claimsOf(body.accessToken);
  for (const [name, value] of Object.entries(forged)) expect(claims[name], name).not.toEqual(value);
  expect(claims.claims).toEqual(forged);
  expect(
    (await fixture.node.call('authentication.user.get', { bearer: body.accessToken as string }))
      .status,
  ).toBe(200);
});

test('a hook refuses a sign-in, and nothing of it has happened', async () => {
  const stop = fixture.node.service.onToken(async () => {
    throw authErrors.USER_BLOCKED();
  });
  const sessions = async () =>
    (await fixture.database.query({ text: 'select 1 from penstock.sessions' })).count;
  const before = await sessions();
  expect((await login()).status).toBe(403);
  expect(await sessions()).toBe(before);
  stop();
  const refused = await fixture.node.kernel.audit.list(
    { action: 'authentication.login' },
    { skip: 0, limit: 1 },
  );
  expect(refused).toMatchObject([
    {
      outcome: 'refused',
      changes: { strategy: 'local', reason: 'hook' },
      target: expect.stringMatching(/^User:/),
    },
  ]);
});

test('the refusal of a second step stays in the audit log, though all else of the step is taken back', async () => {
  const code = '1234 5678';
  const { body } = await login();
  const { userId } = body;
  const query = (text: string) => fixture.database.query({ text, values: [userId] });
  await fixture.node.configure((config) => ({
    ...config,
    twoFa: { ...config.twoFa, enabled: true },
  }));
  const bearer = body.accessToken as string;
  const { secret } = (await fixture.node.call('authentication.twoFa.enable', { bearer })).body;
  const confirmed = { bearer, body: { code: generateSync({ secret: String(secret) }) } };
  expect((await fixture.node.call('authentication.twoFa.confirm', confirmed)).status).toBe(200);
  const made = await fixture.node.call('authentication.twoFa.makeCodes', { bearer });
  const [good = code] = made.body.codes as string[];
  const partial = (await login()).body.accessToken as string;
  const stop = fixture.node.service.onToken(async () => {
    throw authErrors.USER_BLOCKED();
  });
  const before = (
    await query('select 1 from penstock.sessions where user_id = $1 and revoked_at is null')
  ).count;
  expect(
    (
      await fixture.node.call('authentication.twoFa.recover', {
        bearer: partial,
        body: { code: good },
      })
    ).status,
  ).toBe(403);
  stop();
  expect(
    (await query('select 1 from penstock.sessions where user_id = $1 and revoked_at is null'))
      .count,
  ).toBe(before);
  const [row] = await fixture.node.kernel.audit.list(
    { action: 'authentication.login' },
    { skip: 0, limit: 1 },
  );
  expect(row).toMatchObject({
    outcome: 'refused',
    changes: { strategy: 'recovery-code', reason: 'hook' },
    target: `User:${userId}`,
  });
  await query('delete from penstock.user_totp where user_id = $1');
  await query(`update "app"."User" set "hasTwoFA" = false, "twoFaMethod" = null where "_id" = $1`);
});

test('more than fits into a token is refused', async () => {
  const stop = fixture.node.service.onToken(async () => ({ much: 'x'.repeat(2_000) }));
  expect((await login()).status).toBe(503);
  stop();
  expect((await login()).status).toBe(200);
});

test('a hook that does not answer is a refusal, and nothing of the sign-in has happened', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const asked = Promise.withResolvers<void>();
  const stop = fixture.node.service.onToken(() => {
    asked.resolve();
    return new Promise(() => undefined);
  });
  const pending = login();
  await asked.promise;
  vi.advanceTimersByTime(5_000);
  vi.useRealTimers();
  expect((await pending).status).toBe(503);
  stop();
  expect((await login()).status).toBe(200);
});
