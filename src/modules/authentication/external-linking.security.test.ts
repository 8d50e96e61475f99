/**
 * Whose account a sign-in at a provider opens. Pre-hijacking and linking by unproven addresses:
 * GHSA-g38m-r43w-p2q7 (better-auth), CVE-2024-38351 (PocketBase), GHSA-fr88-w35c-r596 (Parse). Mutable
 * addresses ("nOAuth"): zitadel/zitadel#12421.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { createBrowser } from '../../../test/support/providers/browser.ts';
import {
  type FakeProvider,
  startFakeProvider,
} from '../../../test/support/providers/fake-provider.ts';
import { signInAs } from '../../../test/support/providers/sign-in.ts';
import { silentLog } from '../../../test/support/quiet.ts';
import type { Database } from '../../kernel/database/database.ts';
import { openDatabase } from '../../kernel/database/open-database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { sha256 } from '../../kernel/security/tokens.ts';

let platform: TestPlatform;
let database: Database;
let fake: FakeProvider;
let other: FakeProvider;
let subjects = 0;

beforeAll(async () => {
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  const settings = {
    dataDir: '/nonexistent',
    databaseUrl: platform.databaseUrl,
    databasePreparedStatements: true,
    databasePipelining: true,
  };
  database = await openDatabase({ settings, log: silentLog });
  [fake, other] = await Promise.all([startFakeProvider(), startFakeProvider()]);
  await configure({
    externalSignIn: { allowInternalAddresses: true },
    oidc: { fake: settingsOf(fake), other: settingsOf(other) },
  });
});
afterAll(async () => {
  await database.close();
  await platform.close();
  await Promise.all([fake.close(), other.close()]);
});

const settingsOf = (one: FakeProvider) => ({
  enabled: true,
  issuer: one.url,
  clientId: one.clientId,
  clientSecret: one.clientSecret,
});

async function configure(config: object) {
  const answer = await platform.admin.patch('/config/authentication', { config });
  expect(answer, answer.text).toMatchObject({ status: 200 });
}

const newSubject = () => {
  subjects += 1;
  return `s-${subjects}`;
};
const person = (email: string, more: object = {}) => ({
  sub: newSubject(),
  email,
  email_verified: true,
  ...more,
});
const signIn = (claims: { sub: string; [claim: string]: unknown }, more: object = {}) =>
  signInAs(platform, fake, 'fake', { claims, ...more });
const verify = (email: string) =>
  database.query(sql`update "app"."User" set "isVerified" = true where "email" = ${email}`);
const me = (token: string) => platform.client.get('/authentication/user', { token });

describe('an address that an account here has', () => {
  test('joins it when both sides have proven it', async () => {
    const user = await platform.registerUser({ email: 'both@example.com' });
    await verify('both@example.com');
    const answer = await signIn(person('BOTH@example.com'));
    expect(answer).toMatchObject({ status: 200, body: { userId: user.userId } });
    expect((await user.api.get('/authentication/user')).status).toBe(200);
    expect((await platform.login('both@example.com', user.password)).userId).toBe(user.userId);
  });

  test('does not join it when the provider does not vouch for it, however it is written', async () => {
    await platform.registerUser({ email: 'target@example.com' });
    await verify('target@example.com');
    for (const claims of [
      { email_verified: false },
      { email_verified: undefined },
      { email_verified: 'no' },
      { email_verified: [true] },
      { email_verified: { a: 1 } },
    ]) {
      const answer = await signIn(person('target@example.com', claims));
      expect(answer).toMatchObject({ status: 409, body: { code: 'EXTERNAL_EMAIL_UNVERIFIED' } });
    }
    expect(
      (
        await database.query(
          sql`select 1 from penstock.identities where email = 'target@example.com'`,
        )
      ).count,
    ).toBe(0);
  });

  test('does not join it where accountLinking is off', async () => {
    await platform.registerUser({ email: 'apart@example.com' });
    await verify('apart@example.com');
    await configure({ oidc: { fake: { accountLinking: false } } });
    expect(await signIn(person('apart@example.com'))).toMatchObject({
      status: 403,
      body: { code: 'EXTERNAL_LINKING_DISABLED' },
    });
    await configure({ oidc: { fake: { accountLinking: true } } });
  });

  test('that only the provider has proven: the person gets the account, and nothing of whoever prepared it remains', async () => {
    const attacker = await platform.registerUser({ email: 'victim@example.com' });
    const squatter = { sub: newSubject(), email: 'unproven@example.com', email_verified: false };
    await signIn(squatter);

    const answer = await signIn(person('victim@example.com'));
    expect(answer).toMatchObject({
      status: 200,
      body: { userId: attacker.userId, refreshToken: expect.any(String) },
    });
    expect((await me(answer.body.accessToken)).body).toMatchObject({
      isVerified: true,
      hasTwoFA: false,
    });
    expect((await attacker.api.get('/authentication/user')).status).toBe(401);
    expect(
      (
        await platform.client.post('/authentication/renew', undefined, {
          token: attacker.refreshToken,
        })
      ).status,
    ).toBe(401);
    expect(
      (
        await platform.client.post('/authentication/local', {
          email: 'victim@example.com',
          password: attacker.password,
        })
      ).status,
    ).toBe(401);

    const owner = await signIn(person('unproven@example.com'));
    expect(owner.status).toBe(200);
    const squatterAgain = await signIn(squatter);
    expect(squatterAgain).toMatchObject({
      status: 409,
      body: { code: 'EXTERNAL_EMAIL_UNVERIFIED' },
    });
  });

  test('that only the provider has proven does not take a second factor off', async () => {
    const user = await platform.registerUser({ email: 'guarded@example.com' });
    await database.query(
      sql`update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "_id" = ${user.userId}`,
    );
    expect(await signIn(person('guarded@example.com'))).toMatchObject({
      status: 403,
      body: { code: 'EXTERNAL_LINKING_DISABLED' },
    });
    expect((await user.api.get('/authentication/user')).body).toMatchObject({
      isVerified: false,
      hasTwoFA: true,
    });
  });

  test('of a blocked account opens nothing', async () => {
    const user = await platform.registerUser({ email: 'blocked@example.com' });
    await verify('blocked@example.com');
    const claims = person('blocked@example.com');
    await signIn(claims);
    await platform.admin.post(`/authentication/users/${user.userId}/block`);
    expect(await signIn(claims)).toMatchObject({ status: 403, body: { code: 'USER_BLOCKED' } });
    expect(await signIn(person('blocked@example.com'))).toMatchObject({
      status: 403,
      body: { code: 'USER_BLOCKED' },
    });
  });
});

test('a sign-in that took longer than ten minutes is refused', async () => {
  const browser = createBrowser(platform.client);
  const { state } = await browser.start('fake');
  const { rows } = await database.query<{ minutes: number }>(sql`
    update penstock.one_time_tokens set expires_at = expires_at - interval '10 minutes' where hash = ${sha256(state)}
    returning extract(epoch from (expires_at - created_at))::integer as minutes`);
  expect(rows).toEqual([{ minutes: 0 }]);
  expect(await browser.back('fake', { state, code: 'c' })).toMatchObject({
    status: 400,
    body: { code: 'EXTERNAL_STATE_INVALID' },
  });
});

test('nothing of a sign-in is stored in clear', async () => {
  const { url, state } = await createBrowser(platform.client).start('fake', {
    invitationToken: 'secret-invitation',
  });
  const { rows } = await database.query(
    sql`select * from penstock.one_time_tokens where hash = ${sha256(state)}`,
  );
  const stored = JSON.stringify(rows);
  expect(rows).toHaveLength(1);
  for (const secret of [state, url.searchParams.get('nonce') ?? '', 'secret-invitation'])
    expect(stored).not.toContain(secret);
});

test('the same subject at two providers is two people', async () => {
  const sub = newSubject();
  const one = await signInAs(platform, fake, 'fake', {
    claims: { sub, email: 'one@example.com', email_verified: true },
  });
  const two = await signInAs(platform, other, 'other', {
    claims: { sub, email: 'two@example.com', email_verified: true },
  });
  expect([one.status, two.status]).toEqual([200, 200]);
  expect(one.body.userId).not.toBe(two.body.userId);
});

test('a later change of the address at the provider changes nothing here', async () => {
  const claims = person('first@example.com');
  const first = await signIn(claims);
  await platform.registerUser({ email: 'admin@example.com' });
  await verify('admin@example.com');
  const second = await signIn({ ...claims, email: 'admin@example.com' });
  expect(second.body.userId).toBe(first.body.userId);
  expect((await me(second.body.accessToken)).body.email).toBe('first@example.com');
});

test('a person without an address, or with one that is none, gets an account without', async () => {
  for (const email of [undefined, 'not an address', 'a@b@c.example', '']) {
    const answer = await signIn({ sub: newSubject(), email, email_verified: true });
    expect(answer, String(email)).toMatchObject({ status: 200 });
    expect((await me(answer.body.accessToken)).body.email).toBeNull();
  }
});

test('an unproven address of a new account is not verified', async () => {
  const answer = await signIn({
    sub: newSubject(),
    email: 'maybe@example.com',
    email_verified: false,
  });
  expect((await me(answer.body.accessToken)).body).toMatchObject({
    email: 'maybe@example.com',
    isVerified: false,
  });
});

test('one new person in 20 browsers at once is one user', async () => {
  const claims = person('crowd@example.com');
  const answers = await Promise.all(Array.from({ length: 20 }, () => signIn(claims)));
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
  expect(new Set(answers.map(({ body }) => body.userId)).size).toBe(1);
});

test('rules for addresses and invitations hold here too', async () => {
  await configure({ emailRestrictions: { enabled: true, blockedDomains: ['blocked.example'] } });
  expect(await signIn(person('x@sub.blocked.example'))).toMatchObject({
    status: 400,
    body: { code: 'EMAIL_NOT_ALLOWED' },
  });
  await configure({ emailRestrictions: { enabled: false } });
  expect(
    (
      await database.query(
        sql`select 1 from penstock.identities where email = 'x@sub.blocked.example'`,
      )
    ).count,
  ).toBe(0);
});

test('where registration needs an invitation, a new person needs one here too, and a known one does not', async () => {
  const known = person('member@example.com');
  await signIn(known);
  await configure({ teams: { enabled: true, allowRegistrationWithoutInvite: false } });
  expect(await signIn(person('uninvited@example.com'))).toMatchObject({
    status: 403,
    body: { code: 'INVITATION_REQUIRED' },
  });
  expect(
    await signIn(person('forged@example.com'), { query: { invitationToken: 'A'.repeat(43) } }),
  ).toMatchObject({
    status: 403,
    body: { code: 'INVALID_INVITATION' },
  });
  expect((await signIn(known)).status).toBe(200);
  await configure({ teams: { enabled: false, allowRegistrationWithoutInvite: true } });
  expect(
    (
      await database.query(
        sql`select 1 from penstock.identities where email in ('uninvited@example.com', 'forged@example.com')`,
      )
    ).count,
  ).toBe(0);
});

test('where addresses must be proven, an unproven one gets a mail instead of a session', async () => {
  await configure({ local: { verification: { required: true, send_email: true } } });
  const claims = { sub: newSubject(), email: 'prove@example.com', email_verified: false };
  expect(await signIn(claims)).toMatchObject({ status: 403, body: { code: 'EMAIL_NOT_VERIFIED' } });
  expect((await signIn(person('proven@example.com'))).status).toBe(200);
  await configure({ local: { verification: { required: false, send_email: false } } });
});

describe('an anonymous user', () => {
  async function anonymousUser() {
    const user = await platform.registerUser();
    await database.query(
      sql`update "app"."User" set "isAnonymous" = true, "hashedPassword" = null where "_id" = ${user.userId}`,
    );
    return user;
  }

  test('becomes the registered one in place, and their earlier sessions end', async () => {
    const before = await anonymousUser();
    const answer = await signIn(person('upgraded@example.com'), { token: before.accessToken });
    expect(answer).toMatchObject({ status: 200, body: { userId: before.userId } });
    expect((await me(answer.body.accessToken)).body).toMatchObject({
      email: 'upgraded@example.com',
      isAnonymous: false,
    });
    expect((await me(before.accessToken)).status).toBe(401);
  });

  test('is left alone when the person has an account already', async () => {
    const known = await signIn(person('known@example.com'));
    const before = await anonymousUser();
    const claims = { sub: `s-${subjects}`, email: 'known@example.com', email_verified: true };
    const answer = await signIn(claims, { token: before.accessToken });
    expect(answer.body.userId).toBe(known.body.userId);
    expect((await me(before.accessToken)).status).toBe(200);
  });

  test('a token that is not valid is 401, not nobody', async () => {
    expect(
      (await platform.client.get('/authentication/init/fake', { token: 'nonsense' })).status,
    ).toBe(401);
  });
});

describe('linking', () => {
  const codeFor = async (
    user: { api: TestPlatform['client'] },
    claims: { sub: string; [claim: string]: unknown },
  ) => {
    const { body } = await user.api.post('/authentication/identities/fake/link', {});
    const url = new URL(body.result);
    fake.issue('link-code', {
      access_token: `at-${claims.sub}`,
      token_type: 'Bearer',
      id_token: fake.sign(fake.claims({ nonce: url.searchParams.get('nonce'), ...claims })),
    });
    const back = await createBrowser(platform.client).back('fake', {
      state: url.searchParams.get('state') ?? '',
      code: 'link-code',
    });
    return back.body.linkCode as string;
  };

  test('nobody can be made to link their account to that of somebody else', async () => {
    const [attacker, victim] = [await platform.registerUser(), await platform.registerUser()];
    const linkCode = await codeFor(attacker, { sub: newSubject() });
    expect(await victim.api.post('/authentication/identities', { linkCode })).toMatchObject({
      status: 400,
      body: { code: 'EXTERNAL_EXCHANGE_INVALID' },
    });
    expect((await attacker.api.post('/authentication/identities', { linkCode })).status).toBe(400);
    expect((await platform.client.post('/authentication/identities', { linkCode })).status).toBe(
      401,
    );
  });

  test('an account at a provider belongs to one user, and a code works once', async () => {
    const sub = newSubject();
    const [one, two] = [await platform.registerUser(), await platform.registerUser()];
    const linkCode = await codeFor(one, { sub });
    const uses = await Promise.all(
      Array.from({ length: 30 }, () => one.api.post('/authentication/identities', { linkCode })),
    );
    expect(uses.filter(({ status }) => status === 200)).toHaveLength(1);
    const { entries } = (
      await platform.admin.get('/audit-logs', {
        query: { action: 'authentication.identities.link', actor: one.userId },
      })
    ).body;
    expect(
      (entries as { outcome: string }[]).filter(({ outcome }) => outcome === 'success'),
    ).toHaveLength(1);
    expect(JSON.stringify(entries)).not.toContain(linkCode);
    const second = await codeFor(two, { sub });
    expect(await two.api.post('/authentication/identities', { linkCode: second })).toMatchObject({
      status: 409,
      body: { code: 'IDENTITY_EXISTS' },
    });
  });

  test('starting and removing need a fresh sign-in', async () => {
    const user = await platform.registerUser();
    await configure({ sessions: { sudoMaxAge: 1000 } });
    await database.query(
      sql`update penstock.sessions set authenticated_at = now() - interval '1 hour' where user_id = ${user.userId}`,
    );
    const renewed = await platform.client.post('/authentication/renew', undefined, {
      token: user.refreshToken,
    });
    const { accessToken: token } = renewed.body;
    expect(
      await platform.client.post('/authentication/identities/fake/link', {}, { token }),
    ).toMatchObject({
      status: 403,
      body: { code: 'SUDO_REQUIRED' },
    });
    const removal = await platform.client.delete(
      '/authentication/identities/01999999-9999-7999-8999-999999999999',
      { token },
    );
    expect(removal).toMatchObject({ status: 403, body: { code: 'SUDO_REQUIRED' } });
    await configure({ sessions: { sudoMaxAge: 600_000 } });
  });

  test('two removals at once cannot take the last two ways in', async () => {
    const first = await signIn(person('two-ways@example.com'));
    const second = await signIn(person('two-ways@example.com'));
    expect(second.body.userId).toBe(first.body.userId);
    const token = second.body.accessToken as string;
    const { identities } = (await platform.client.get('/authentication/identities', { token }))
      .body;
    expect(identities).toHaveLength(2);
    const removals = await Promise.all(
      identities.map(({ _id }: { _id: string }) =>
        platform.client.delete(`/authentication/identities/${_id}`, { token }),
      ),
    );
    expect(removals.map(({ status }) => status).sort()).toEqual([200, 409]);
    // Whoever came in by the one that is gone is out.
    const read = async (bearer: string) =>
      (await platform.client.get('/authentication/user', { token: bearer })).status;
    expect([await read(first.body.accessToken as string), await read(token)]).toEqual([401, 200]);
  });

  test("somebody else's identities are not there", async () => {
    const mine = await signIn(person('mine@example.com'));
    const { identities } = (
      await platform.client.get('/authentication/identities', { token: mine.body.accessToken })
    ).body;
    const stranger = await platform.registerUser();
    expect(
      (await stranger.api.delete(`/authentication/identities/${identities[0]._id}`)).status,
    ).toBe(404);
    expect((await stranger.api.get('/authentication/identities')).body).toEqual({
      identities: [],
      count: 0,
    });
  });
});

test('deleting the user deletes their identities', async () => {
  const answer = await signIn(person('gone@example.com'));
  expect(
    (await platform.client.delete('/authentication/user', { token: answer.body.accessToken }))
      .status,
  ).toBe(200);
  expect(
    (await database.query(sql`select 1 from penstock.identities where email = 'gone@example.com'`))
      .count,
  ).toBe(0);
});
