/**
 * Every row of spec/authentication.md section 7 (what comparable systems got wrong) and every class of past
 * vulnerabilities that concerns sign-in, with the tests that hold it. A row whose test was renamed or taken
 * away fails here; the rows that no other suite asks about are asked below.
 */
import { existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const here = 'acceptance/weak-spots/authentication.test.ts';
const beside = (name: string): string => `src/modules/authentication/${name}.test.ts`;
const service = (name: string): string => beside(`services/${name}`);
const outside = (name: string): string => `acceptance/authentication/${name}.test.ts`;

/** Files, and what the titles of their tests say. */
type Proof = readonly (readonly [file: string, title: string])[];

const rows: Readonly<Record<string, Proof>> = {
  'W1 persistent invites by anybody': [
    [outside('teams.security'), 'for %s'],
    [outside('team-invites'), 'works for everybody until it is revoked'],
  ],
  'W2 invitations of all teams for users without an address': [
    [outside('team-invites'), 'of a user without an address is empty'],
    [outside('team-invites'), 'shows no token, to nobody'],
  ],
  'W3 users who change their own flags': [[beside('login.security'), 'userData cannot hold %s']],
  'W4 tokens that were made for another app': [
    [beside('external-apps.security'), 'an access token alone signs nobody in'],
    [beside('external-apps.security'), '%s: refused'],
  ],
  'W5 accounts that somebody prepared': [
    [beside('external-linking.security'), 'that only the provider has proven'],
  ],
  'W6 a signature that opens for ever': [[beside('device-keys.security'), 'a captured sign-in']],
  'W7 a state that is bound to nothing': [
    [beside('external-provider.security'), 'works once under 50 parallel uses'],
    [beside('external-provider.security'), 'of another browser, or of none'],
    [beside('external-provider.security'), 'of another provider is refused'],
    [beside('external-provider.security'), 'has its own state, nonce and PKCE challenge'],
  ],
  'W8 links that never end': [
    [service('tokens/one-time-tokens.security'), 'for another purpose, after its time'],
  ],
  'W9 a known signing key': [
    [beside('access-token.security'), 'keys are chosen among ours alone'],
    [beside('sessions.security'), 'a new signing key is published first, then signs on every node'],
  ],
  'W10 secrets in clear': [
    [beside('renewal.security'), 'no token is stored in clear'],
    [service('tokens/one-time-tokens.security'), 'nothing that is stored opens anything'],
    [beside('second-factor.security'), 'shown as an image made here'],
  ],
  'W11 rotation that two can win': [
    [beside('renewal.security'), '50 parallel renewals of one token'],
    [beside('renewal.security'), 'after the grace time ends the whole session'],
    [beside('renewal.security'), 'no renewal outlives the absolute lifetime'],
    [outside('cookies.security'), 'renewal by cookie gives new cookies'],
  ],
  'W12 limits by an address that the client names': [
    ['src/surfaces/http/rate-limit.security.test.ts', 'does not believe X-Forwarded-For'],
    [beside('login.security'), '50 parallel wrong passwords'],
    [beside('protection.security'), 'a hundred places together'],
    [beside('sessions.security'), 'a wrong old password is 401'],
  ],
  'W13 a captcha that can be left out': [
    [outside('captcha.security'), 'without a token nothing is tried'],
  ],
  'W14 no unique index': [[beside('local-login'), '200 concurrent registrations']],
  'W15 cookies that live for seconds, and no defence of them': [
    [outside('cookies.security'), 'lifetimes in seconds'],
    [outside('cookies.security'), 'changes something only for a page of this host'],
  ],
  'W16 answers that tell who has an account': [
    [beside('enumeration.security'), 'answered the same for everybody'],
    [beside('login.security'), 'look the same and cost the same work'],
  ],
  'W17 any password': [
    [service('password-policy'), 'counts characters, not bytes'],
    [beside('login.security'), 'weak passwords are refused'],
    [beside('sessions.security'), 'a change of password ends all other sessions'],
  ],
  'W18 codes by text message that never worked': [
    [outside('second-factor'), 'codes by text message'],
  ],
  'W19 a code that works twice': [
    [beside('second-factor.security'), 'a code works once, of the steps before and after'],
    [beside('second-factor.security'), 'of 50 parallel uses of one recovery code'],
  ],
  'W20 sudo for as long as the token': [
    [beside('sessions.security'), 'which a renewal is not'],
    [beside('protection.security'), 'a step-up makes the session fresh'],
  ],
  'W21 four digits and endless tries': [[outside('mail-flows'), 'five wrong ones use it up']],
  'W22 text messages without end': [
    [beside('phone-sign-in.security'), 'one number and one range get no more'],
  ],
  'W23 users out of requests for a nonce': [
    [beside('wallet.security'), 'a request for a nonce makes no user'],
    [beside('wallet.security'), 'the text names the place, the chain, the nonce and its end'],
    [beside('wallet.security'), 'an address alone makes no account'],
  ],
  'W24 admin lists without end, and blocks that end nothing': [
    [beside('http'), 'operators manage users'],
    [beside('user-admin'), 'lists page by page'],
    [beside('sessions.security'), 'ends the session on every node'],
  ],
  'W25 roles above the own': [
    [outside('team-invites'), 'is worth what its maker may still give'],
    [outside('teams.security'), 'nobody changes or removes themselves'],
    [outside('teams'), 'are found, sorted, paged and counted by the database'],
  ],
  'W26 events that are lost': [
    [here, 'each change of an account is an event'],
    [here, 'who changes roles in a team is in the audit log'],
    [beside('erasure'), 'the audit log says who did what'],
  ],
  'W27 links that mail scanners use up': [
    [outside('mail-flows'), 'signs in after a click, not when it is looked at'],
  ],
  'W28 providers by hand': [
    [beside('external-presets'), 'signs in whoever its answers name'],
    [beside('external-provider.security'), 'the secret goes into the form'],
  ],
  'W29 statuses that are 500': [
    [here, 'conflicts, limits and bad tokens have their own status'],
    [beside('external-linking.security'), 'a token that is not valid is 401, not nobody'],
  ],
  'W30 half a deletion': [
    [beside('erasure'), 'nothing of them is left, and nothing of them works'],
  ],
  'W31 an address that changes at once': [
    [outside('mail-flows'), 'another address: proven first'],
    [outside('mail-flows'), 'an address that was taken meanwhile'],
  ],
  'W32 two logins in one second': [[here, 'two logins at the same moment are two sessions']],
  'W33 a query for each request': [
    [beside('access-token.security'), 'a warm request makes neither a promise nor a query'],
    ['acceptance/two-nodes.test.ts', 'a session that ends at one has ended at the other'],
  ],
  'W34 anonymous users for ever': [
    [beside('anonymous'), 'is deleted when it gave no sign of life'],
  ],
  'W35 apps by the end of a name': [
    ['src/modules/router/domain.security.test.ts', '%s and %s: %s'],
    ['src/modules/router/gate.security.test.ts', 'no secret is stored'],
  ],
  'W36 sessions that nobody sees': [
    [beside('sessions.security'), 'users see and end their own sessions'],
    [beside('protection.security'), 'a sign-in from somewhere new is told by mail'],
  ],
  'W37 moves of teams in steps': [[outside('teams'), 'never closes a circle']],
  'W38 addresses put together by hand': [
    [beside('redirects.security'), 'leaves what is there, and cannot break out'],
  ],
};

/** anchors/security-classes.md, as far as sign-in goes. */
const classes: Readonly<Record<string, Proof>> = {
  'races on single-use secrets (GHSA-w73w-g5xw-rwhf, GHSA-2299-ghjr-6vjp, GHSA-r3xq-68wh-gwvh)': [
    [service('tokens/one-time-tokens.security'), 'of 50 parallel uses of a token'],
    [beside('single-use.security'), 'the link that resets a password'],
    [outside('passkeys.security'), 'of 50 parallel uses one'],
  ],
  'linking by e-mail (GHSA-g38m-r43w-p2q7, GHSA-fr88-w35c-r596)': [
    [beside('external-linking.security'), 'the same subject at two providers is two people'],
  ],
  'issuer, audience and algorithm (CVE-2026-31813, GHSA-4q3h-vp4r-prv2, GHSA-x6fw-778m-wr9v)': [
    [beside('access-token.security'), 'no algorithm but ours'],
    [beside('external-provider.security'), 'another issuer is refused'],
  ],
  'state, PKCE and redirects (GHSA-x445-f3h2-j279, CVE-2026-22032)': [
    [beside('redirects.security'), 'is on no list: 403'],
  ],
  'failing open (GHSA-8fpg-xm3f-6cx3, GHSA-wjqw-r9x4-j59v)': [
    [service('sessions/identity.security'), 'nobody gets through when %s'],
    ['src/surfaces/http/credentials.security.test.ts', 'is 401 wherever a user is expected'],
    [outside('captcha.security'), 'nobody passes'],
  ],
  'the life of sessions (CVE-2026-22706, CVE-2025-4643, GHSA-56p6-qw3c-fq2g)': [
    [beside('sessions.security'), 'for the very next request'],
  ],
  'enumeration (CVE-2026-39321, GHSA-w54v-hf9p-8856)': [
    [beside('enumeration.security'), 'is answered the same for a taken address'],
  ],
  'ways around limits (CVE-2025-64526, GHSA-775h-3xrc-c228, CVE-2026-9798)': [
    [beside('login.security'), 'neither another spelling nor another address'],
    [beside('protection.security'), 'guessing it spends the budget of logins'],
    ['src/surfaces/graphql/limits.security.test.ts', 'takes 20 aliases and no 21'],
  ],
  'hosts in mails (GHSA-3529-5m8x-rpv3)': [
    [beside('enumeration.security'), 'links in mail come from the configured address'],
  ],
  'mass assignment (GHSA-5v7g-9h8f-8pgg)': [[beside('http'), 'those of userData refused']],
  'look-alike addresses (GHSA-7rqj-j65f-68wh)': [
    [service('accounts/email.security'), 'is stored as %s'],
  ],
  'requests of other pages (CWE-352, CWE-1385)': [
    [outside('cookies.security'), 'GraphQL asks the same'],
    [outside('cookie-sockets.security'), 'the cookie from a page'],
  ],
  'headers in mails (CWE-93)': [
    ['src/modules/communications/smtp.test.ts', 'no input becomes a header or a recipient'],
  ],
};

describe.each([
  ['weak spots', rows],
  ['classes of past vulnerabilities', classes],
])('%s', (_name, table) => {
  test.each(Object.entries(table))('%s', (_row, proof) => {
    for (const [file, title] of proof) {
      expect(existsSync(file), file).toBe(true);
      expect(readFileSync(file, 'utf8'), `${file} has no test "${title}"`).toContain(title);
    }
  });
});

test('no row is left out', () => {
  expect(Object.keys(rows).map((row) => Number(/^W(\d+) /.exec(row)?.[1]))).toEqual(
    Array.from({ length: 38 }, (_, i) => i + 1),
  );
});

describe('rows of no other suite', () => {
  let platform: TestPlatform;
  const password = 'correct horse battery staple';
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  test('each change of an account is an event in the transaction of the change', async () => {
    const { Client } = (await import('pg')).default;
    const database = new Client({ connectionString: platform.databaseUrl });
    await database.connect();
    const user = await platform.registerUser({ email: 'events@example.com', password });
    const next = await platform.client.post('/authentication/renew', undefined, {
      token: user.refreshToken,
    });
    await user.api.patch('/authentication/user', { userData: {} });
    await user.api.post('/authentication/local/change-password', {
      oldPassword: password,
      newPassword: `${password}!`,
    });
    await platform.admin.post(`/authentication/users/${user.userId}/block`);
    await platform.admin.post(`/authentication/users/${user.userId}/unblock`);
    await platform.client.post('/authentication/logout', undefined, {
      token: next.body.accessToken,
    });
    await platform.admin.delete(`/authentication/users/${user.userId}`);
    const { rows: events } = await database.query(
      `select topic, payload from penstock.outbox where $1 = any(ids) and topic like 'authentication:%' order by seq`,
      [user.userId],
    );
    await database.end();
    const said = events.map(({ topic }: { topic: string }) => topic.split(':')[1]);
    for (const what of [
      'register',
      'login',
      'renew',
      'update',
      'changePassword',
      'block',
      'unblock',
      'delete',
    ])
      expect(said).toContain(what);
    expect(JSON.stringify(events)).not.toMatch(/argon2|events@example/);
  });

  test('who changes roles in a team is in the audit log, and no token of an invitation', async () => {
    expect(
      (
        await platform.admin.patch('/config/authentication', {
          config: { teams: { enabled: true, invites: { enabled: true } } },
        })
      ).status,
    ).toBe(200);
    const owner = await platform.registerUser();
    const team = (await owner.api.post('/authentication/teams', { name: 'Audited' })).body;
    const offer = (
      await owner.api.post(`/authentication/teams/${team._id}/invite/persistent`, {
        role: 'member',
      })
    ).body.result;
    const member = await platform.registerUser();
    expect(
      (await member.api.post('/authentication/teams/invite/accept', { invitationToken: offer }))
        .status,
    ).toBe(200);
    expect(
      (
        await owner.api.patch(`/authentication/teams/${team._id}/members`, {
          members: [member.userId],
          role: 'editAll',
        })
      ).status,
    ).toBe(200);
    expect(
      (
        await member.api.patch(`/authentication/teams/${team._id}/members`, {
          members: [owner.userId],
          role: 'member',
        })
      ).status,
    ).toBe(403);
    const log = (
      await platform.admin.get('/audit-logs', { query: { action: 'authentication.teams' } })
    ).body.entries as Record<string, unknown>[];
    expect(log.map(({ action, outcome }) => [action, outcome])).toEqual([
      ['authentication.teams.changeMembers', 'refused'],
      ['authentication.teams.changeMembers', 'success'],
      ['authentication.teams.accept', 'success'],
      ['authentication.teams.offer', 'success'],
    ]);
    expect(JSON.stringify(log)).not.toContain(offer);
  });

  test('conflicts, limits and bad tokens have their own status', async () => {
    await platform.registerUser({ email: 'taken@example.com', password });
    expect(
      (
        await platform.client.post('/authentication/local/new', {
          email: 'taken@example.com',
          password,
        })
      ).status,
    ).toBe(409);
    expect(
      (
        await platform.client.post(
          '/authentication/local/new',
          { email: 'x@example.com', password },
          { token: 'none' },
        )
      ).status,
    ).toBe(401);
    const wrong = () =>
      platform.client.post('/authentication/local', {
        email: 'taken@example.com',
        password: 'not the password',
      });
    const answers = [];
    for (let i = 0; i < 11; i += 1) answers.push(await wrong());
    expect(answers.at(-1)?.status).toBe(429);
    expect(Number(answers.at(-1)?.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('two logins at the same moment are two sessions, and one outlives the other', async () => {
    await platform.client.post('/authentication/local/new', {
      email: 'twice@example.com',
      password,
    });
    const login = () => platform.login('twice@example.com', password);
    const [one, other] = await Promise.all([login(), login()]);
    expect(one.accessToken).not.toBe(other.accessToken);
    await one.api.post('/authentication/logout');
    expect((await one.api.get('/authentication/user')).status).toBe(401);
    expect((await other.api.get('/authentication/user')).status).toBe(200);
  });
});
