/**
 * Rotation races and reuse: https://github.com/advisories/GHSA-392p-2q2v-4372 (refresh rotation), RFC 9700
 * section 4.14 (refresh token protection).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
} from '../../../test/support/authentication.ts';

let fixture: AuthenticationFixture;
let users = 0;
beforeAll(async () => {
  fixture = await openAuthentication();
});
afterAll(() => fixture.close());

interface Pair {
  readonly userId: string;
  readonly accessToken: string;
  readonly refreshToken: string;
}

async function signIn(): Promise<Pair> {
  users += 1;
  const body = { email: `user${users}@example.com`, password: 'correct horse battery staple' };
  await fixture.node.call('authentication.local.register', { body });
  return (await fixture.node.call('authentication.local.login', { body })).body as unknown as Pair;
}
const renew = (bearer: string): Promise<TestAnswer> =>
  fixture.node.call('authentication.session.renew', { bearer });
const read = async (bearer: unknown): Promise<number> =>
  (await fixture.node.call('authentication.user.get', { bearer: bearer as string })).status;
const claims = (token: unknown) =>
  JSON.parse(Buffer.from(String(token).split('.')[1] ?? '', 'base64url').toString());
const change = (text: string, ...values: unknown[]) => fixture.database.query({ text, values });
const ageUses = () =>
  change(`update penstock.refresh_tokens set used_at = used_at - interval '11 seconds'`);
const refreshOf = ({ body }: TestAnswer): string => body.refreshToken as string;

test('a renewal answers a new pair of the same session, without sudo time won', async () => {
  const pair = await signIn();
  const { status, body } = await renew(pair.refreshToken);
  expect(status).toBe(200);
  expect(Object.keys(body).sort()).toEqual(['accessToken', 'refreshToken']);
  expect(body.refreshToken).not.toBe(pair.refreshToken);
  expect(claims(body.accessToken)).toMatchObject({
    sid: claims(pair.accessToken).sid,
    auth_time: claims(pair.accessToken).auth_time,
  });
  expect(await read(body.accessToken)).toBe(200);
  expect(refreshOf(await renew(refreshOf({ status, body })))).toBeTypeOf('string');
});

test('50 parallel renewals of one token answer the same pair; a later reuse ends the session', async () => {
  const pair = await signIn();
  const answers = await Promise.all(Array.from({ length: 50 }, () => renew(pair.refreshToken)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  const { rows } = await change(
    'select 1 from penstock.refresh_tokens t join penstock.sessions s on s.id = t.session_id where s.user_id = $1',
    pair.userId,
  );
  expect(rows).toHaveLength(2);

  const next = await renew(refreshOf(answers[0] as TestAnswer));
  expect(next.status).toBe(200);
  expect(await read(next.body.accessToken)).toBe(200);
  expect((await renew(pair.refreshToken)).status).toBe(401);
  expect(await read(next.body.accessToken)).toBe(401);
  expect((await renew(refreshOf(next))).status).toBe(401);
});

test('a used token after the grace time ends the whole session at once, with an event', async () => {
  const pair = await signIn();
  const renewed = await renew(pair.refreshToken);
  expect(await read(renewed.body.accessToken)).toBe(200);
  await ageUses();
  expect(await renew(pair.refreshToken)).toMatchObject({
    status: 401,
    body: { code: 'REFRESH_TOKEN_INVALID' },
  });
  expect(await read(renewed.body.accessToken)).toBe(401);
  expect(await read(pair.accessToken)).toBe(401);
  expect((await renew(refreshOf(renewed))).status).toBe(401);
  const { rows } = await change(
    `select payload from penstock.outbox where topic = 'authentication:reuse:user' and $1 = any(ids)`,
    pair.userId,
  );
  expect(rows).toEqual([{ payload: { sessionId: claims(pair.accessToken).sid } }]);
});

test('reuse ends only the session it belongs to', async () => {
  const pair = await signIn();
  const body = { email: `user${users}@example.com`, password: 'correct horse battery staple' };
  const other = (await fixture.node.call('authentication.local.login', { body }))
    .body as unknown as Pair;
  await renew(pair.refreshToken);
  await ageUses();
  await renew(pair.refreshToken);
  expect(await read(pair.accessToken)).toBe(401);
  expect(await read(other.accessToken)).toBe(200);
});

test.each([
  '',
  'x',
  'a'.repeat(43),
  'a'.repeat(65_536),
  '../../etc/passwd',
  "' or 1=1 --".padEnd(43, '-'),
])('what is no refresh token of ours is 401: %.20s', async (token) => {
  expect(await renew(token)).toMatchObject({
    status: 401,
    body: { code: 'REFRESH_TOKEN_INVALID' },
  });
});

test('an access token does not renew and a refresh token does not open anything', async () => {
  const pair = await signIn();
  expect((await renew(pair.accessToken)).status).toBe(401);
  expect(await read(pair.refreshToken)).toBe(401);
  expect((await renew(pair.refreshToken)).status).toBe(200);
});

test('an expired refresh token is 401 and ends nothing', async () => {
  const pair = await signIn();
  await change(
    `update penstock.refresh_tokens set expires_at = now() - interval '1 second' where session_id = $1`,
    claims(pair.accessToken).sid,
  );
  expect((await renew(pair.refreshToken)).status).toBe(401);
  expect(await read(pair.accessToken)).toBe(200);
});

test('no renewal outlives the absolute lifetime of the session', async () => {
  const pair = await signIn();
  const { sid } = claims(pair.accessToken);
  await change(
    `update penstock.sessions set expires_at = now() + interval '100 seconds' where id = $1`,
    sid,
  );
  const renewed = await renew(pair.refreshToken);
  expect(claims(renewed.body.accessToken).exp - Math.floor(Date.now() / 1000)).toBeLessThanOrEqual(
    101,
  );
  await change(
    `update penstock.sessions set expires_at = now() - interval '1 second', ends_at = now() - interval '1 second' where id = $1`,
    sid,
  );
  expect((await renew(refreshOf(renewed))).status).toBe(401);
});

test('after logout the refresh token is dead', async () => {
  const pair = await signIn();
  expect(
    await fixture.node.call('authentication.session.logout', { bearer: pair.accessToken }),
  ).toEqual({
    status: 200,
    body: { result: 'LoggedOut' },
  });
  expect((await renew(pair.refreshToken)).status).toBe(401);
});

test('no token is stored in clear', async () => {
  const pair = await signIn();
  const renewed = await renew(pair.refreshToken);
  const { rows } =
    await change(`select (select json_agg(t) from penstock.refresh_tokens t)::text || (select json_agg(s) from penstock.sessions s)::text ||
    (select json_agg(o) from penstock.outbox o)::text || (select json_agg(k) from penstock.signing_keys k)::text as everything`);
  const everything = String((rows[0] as { everything: string }).everything);
  for (const secret of [pair.accessToken, pair.refreshToken, refreshOf(renewed), 'PRIVATE KEY'])
    expect(everything).not.toContain(secret);
});

test('switched off, logins answer no refresh token and the route is gone', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    refreshTokens: { ...config.refreshTokens, enabled: false },
  }));
  const pair = await signIn();
  expect(pair).not.toHaveProperty('refreshToken');
  expect(await read(pair.accessToken)).toBe(200);
  expect((await renew('a'.repeat(43))).status).toBe(404);
  await fixture.node.configure((config) => ({
    ...config,
    refreshTokens: { ...config.refreshTokens, enabled: true },
  }));
});
