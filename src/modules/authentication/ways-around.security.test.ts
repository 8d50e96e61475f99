/**
 * Ways around a gate that lie between two features: a session opened on facts that have changed
 * (https://cwe.mitre.org/data/definitions/367.html), a session that outlives what was asked for
 * (https://cwe.mitre.org/data/definitions/613.html), and a thief who closes the owner's way back
 * (https://cwe.mitre.org/data/definitions/640.html).
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
  type TestRequest,
} from '../../../test/support/authentication.ts';
import type { AuthenticationConfig } from './config.ts';

const password = 'correct horse battery staple';

let fixture: AuthenticationFixture;
let plain: AuthenticationConfig;
let serial = 0;
beforeAll(async () => {
  fixture = await openAuthentication();
  await configure((config) => {
    plain = { ...config, anonymousUsers: { ...config.anonymousUsers, enabled: true } };
    return plain;
  });
});
beforeEach(() => configure(() => plain));
afterAll(() => fixture.close());

const configure = (change: (config: AuthenticationConfig) => AuthenticationConfig) =>
  fixture.node.configure(change);
const call = (id: string, request: TestRequest = {}): Promise<TestAnswer> =>
  fixture.node.call(`authentication.${id}`, request);
const query = (text: string, values: readonly unknown[]) =>
  fixture.database.query<{ _id: string }>({ text, values });
const login = async (email: string) =>
  (await call('local.login', { body: { email, password } })).body;
const read = (bearer: unknown) => call('user.get', { bearer: String(bearer) });
const register = async () => {
  serial += 1;
  const email = `user${serial}@around.example`;
  await call('local.register', { body: { email, password } });
  const { userId, accessToken, refreshToken } = await login(email);
  return {
    email,
    userId: String(userId),
    bearer: String(accessToken),
    refreshToken: String(refreshToken),
  };
};

test.each([
  ['a second factor', '"hasTwoFA" = true'],
  ['the duty to have one', '"requiresTwoFA" = true'],
  ['another address', '"email" = \'moved-\' || "email"'],
])(
  'a sign-in that began before the account got %s opens no session after it',
  async (_name, change) => {
    const { email, userId } = await register();
    const before = (await query('select 1 from penstock.sessions where user_id = $1', [userId]))
      .count;
    // Between the check of the password and the session.
    const stop = fixture.node.service.onToken(async (transaction) => {
      await transaction.query({
        text: `update "app"."User" set ${change} where "_id" = $1`,
        values: [userId],
      });
      return undefined;
    });
    expect(await call('local.login', { body: { email, password } })).toMatchObject({
      status: 401,
      body: { code: 'CREDENTIALS_INVALID' },
    });
    stop();
    expect(
      (await query('select 1 from penstock.sessions where user_id = $1', [userId])).count,
    ).toBe(before);
  },
);

/** Registers an anonymous user under this address; answers what its tokens open afterwards. */
const upgrade = async (email: string): Promise<readonly number[]> => {
  const { accessToken, refreshToken } = (await call('local.registerAnonymous')).body;
  const { status, body } = await call('local.register', {
    bearer: String(accessToken),
    body: { email, password },
  });
  expect([status, body.user]).toMatchObject([
    200,
    { email, isAnonymous: false, isVerified: false },
  ]);
  const renewed = await call('session.renew', { bearer: String(refreshToken) });
  return [(await read(accessToken)).status, renewed.status];
};

test('a registered anonymous user goes on only where a login would ask for nothing more', async () => {
  expect(await upgrade('goes-on@around.example')).toEqual([200, 200]);
  await configure((config) => ({
    ...config,
    twoFa: { ...config.twoFa, enabled: true, required: true },
  }));
  expect(await upgrade('needs-a-factor@around.example')).toEqual([401, 401]);
});

test('where addresses must be proven, it ends for a free address and for a taken one alike', async () => {
  const { email: taken } = await register();
  await configure(({ local, ...config }) => ({
    ...config,
    local: { ...local, verification: { ...local.verification, required: true } },
  }));
  expect(await upgrade('never-proven@around.example')).toEqual([401, 401]);
  expect(await upgrade(taken)).toEqual([401, 401]);
});

/** The token of the newest link of that kind to that address. */
const linkTo = async (to: string, template: string): Promise<string> => {
  await fixture.node.jobsDone();
  const mail = fixture.node.mails.findLast(
    (one) => one.to === to && 'template' in one && one.template === template,
  );
  return String(mail?.variables?.link).split('/').at(-1) ?? '';
};

/** Moves the account to another address; answers the link with which the old one takes that back. */
const move = async (bearer: string, from: string, to: string): Promise<string> => {
  expect(
    (await call('local.changeEmail', { bearer, body: { newEmail: to }, address: to })).status,
  ).toBe(200);
  const verificationToken = await linkTo(to, 'ChangeEmailVerification');
  expect((await call('hook.verifyChangeEmail', { params: { verificationToken } })).status).toBe(
    200,
  );
  return linkTo(from, 'EmailChanged');
};

test('a thief who changes the address twice and takes one change back leaves the owner their way back', async () => {
  await configure(({ local, ...config }) => ({
    ...config,
    local: { ...local, verification: { ...local.verification, resend_threshold: 1 } },
  }));
  const owner = await register();
  const [thief, second] = [`thief${serial}@around.example`, `second${serial}@around.example`];
  const toOwner = await move(owner.bearer, owner.email, thief);
  const toThief = await move(owner.bearer, thief, second);
  expect((await call('hook.undoChangeEmail', { params: { undoToken: toThief } })).status).toBe(200);
  expect((await call('hook.undoChangeEmail', { params: { undoToken: toOwner } })).status).toBe(200);
  expect(
    (await query('select "_id" from "app"."User" where "email" = $1', [owner.email])).rows,
  ).toEqual([{ _id: owner.userId }]);
});

test('and the link of a later change is worth nothing once the owner went back', async () => {
  const owner = await register();
  const [thief, second] = [`thief${serial}@around.example`, `second${serial}@around.example`];
  const toOwner = await move(owner.bearer, owner.email, thief);
  const toThief = await move(owner.bearer, thief, second);
  expect((await call('hook.undoChangeEmail', { params: { undoToken: toOwner } })).status).toBe(200);
  expect((await call('hook.undoChangeEmail', { params: { undoToken: toThief } })).status).toBe(404);
});

test('a thief cannot register the address of the owner to keep it from them', async () => {
  const owner = await register();
  const toOwner = await move(owner.bearer, owner.email, `thief${serial}@around.example`);
  const squat = () => call('local.register', { body: { email: owner.email, password } });
  expect(await squat()).toMatchObject({ status: 409, body: { code: 'USER_EXISTS' } });
  await configure(({ local, ...config }) => ({
    ...config,
    local: { ...local, verification: { ...local.verification, required: true } },
  }));
  // The answer for a taken address, which is that for a free one.
  expect((await squat()).status).toBe(200);
  const holders = () => query('select "_id" from "app"."User" where "email" = $1', [owner.email]);
  expect((await holders()).rows).toEqual([]);
  expect((await call('hook.undoChangeEmail', { params: { undoToken: toOwner } })).status).toBe(200);
  expect((await holders()).rows).toEqual([{ _id: owner.userId }]);
});

test('nor is it once an operator has set another address', async () => {
  const owner = await register();
  const toOwner = await move(owner.bearer, owner.email, `moved${serial}@around.example`);
  const email = `by-operator${serial}@around.example`;
  expect(
    (await call('users.update', { params: { id: owner.userId }, body: { email } })).status,
  ).toBe(200);
  expect((await call('hook.undoChangeEmail', { params: { undoToken: toOwner } })).status).toBe(404);
  expect((await query('select "_id" from "app"."User" where "email" = $1', [email])).rows).toEqual([
    { _id: owner.userId },
  ]);
});

test.each([
  ['address', { email: 'set-by-operator@around.example', isVerified: true }],
  ['phone number', { phoneNumber: '+306900000001' }],
  ['second factor', { phoneNumber: '+306900000002', hasTwoFA: true, twoFaMethod: 'sms' }],
])('an operator who changes the %s of a user signs them out', async (_name, body) => {
  const { userId, bearer, refreshToken } = await register();
  const update = (change: object) => call('users.update', { params: { id: userId }, body: change });
  expect((await update({ isVerified: true })).status).toBe(200);
  expect((await read(bearer)).status).toBe(200);
  expect((await update(body)).status).toBe(200);
  expect([
    (await read(bearer)).status,
    (await call('session.renew', { bearer: refreshToken })).status,
  ]).toEqual([401, 401]);
});

test('wrong passwords cost one budget, at the login by user name and at the step-up', async () => {
  await configure(({ local, ...config }) => ({
    ...config,
    local: { ...local, username_auth_enabled: true },
    lockout: { ...config.lockout, failures: 3 },
  }));
  await call('users.create', { body: { username: 'named', password } });
  const byName = (secret: string) =>
    call('username.login', { body: { username: 'named', password: secret } });
  const bearer = String((await byName(password)).body.accessToken);
  for (let i = 0; i < 3; i += 1) expect((await byName('a wrong password')).status).toBe(401);
  expect((await call('session.stepUp', { bearer, body: { password } })).status).toBe(429);
  const change = { oldPassword: password, newPassword: 'seven purple elephants' };
  expect((await call('local.changePassword', { bearer, body: change })).status).toBe(429);
});

test('an account with two names is guessed at with one budget, and no answer tells that they are of one account', async () => {
  await configure(({ local, ...config }) => ({
    ...config,
    local: { ...local, username_auth_enabled: true },
    lockout: { ...config.lockout, failures: 3 },
  }));
  const { email, userId } = await register();
  const username = `second-name-${serial}`;
  await query('update "app"."User" set "username" = $2 where "_id" = $1', [userId, username]);
  const address = '198.51.100.77';
  const byEmail = (given: string) =>
    call('local.login', { body: { email, password: given }, address });
  const byName = (name: string, given: string) =>
    call('username.login', { body: { username: name, password: given }, address });
  for (let i = 0; i < 3; i += 1) expect((await byEmail('a wrong password')).status).toBe(401);
  expect((await byEmail(password)).status).toBe(429);
  // The fourth guess at the account, though the first at this name: not even the right password is told apart.
  const other = await byName(username, password);
  expect(other).toMatchObject({ status: 401, body: { code: 'CREDENTIALS_INVALID' } });
  expect(other).toEqual(await byName('nobody-at-all', password));
  // From elsewhere the owner gets in by either name.
  expect(
    (await call('username.login', { body: { username, password }, address: '203.0.113.77' }))
      .status,
  ).toBe(200);
  expect(
    (await call('local.login', { body: { email, password }, address: '203.0.113.77' })).status,
  ).toBe(200);
});

test('the owner is told of many guesses at their user name too', async () => {
  await configure(({ local, ...config }) => ({
    ...config,
    local: { ...local, username_auth_enabled: true },
    lockout: { failures: 10, accountFailures: 20 },
  }));
  const { email, userId } = await register();
  const username = `guessed-${serial}`;
  await query('update "app"."User" set "username" = $2 where "_id" = $1', [userId, username]);
  for (let i = 0; i < 20; i += 1) {
    await call('username.login', {
      body: { username, password: 'a wrong password' },
      address: `198.51.${i}.1`,
    });
  }
  await fixture.node.jobsDone();
  expect(
    fixture.node.mails.filter(
      (mail) => mail.to === email && 'template' in mail && mail.template === 'ManyFailures',
    ),
  ).toHaveLength(1);
});

test('codes by mail cannot be guessed by asking for more of them', async () => {
  await configure((config) => ({ ...config, email_code: { enabled: true } }));
  const { email } = await register();
  for (let i = 0; i < 12; i += 1) {
    expect(
      (await call('emailCode.request', { body: { email }, address: `203.0.${i}.1` })).status,
    ).toBe(200);
  }
  await fixture.node.jobsDone();
  expect(
    fixture.node.mails.filter(
      (mail) => mail.to === email && 'template' in mail && mail.template === 'LoginCode',
    ),
  ).toHaveLength(10);
});

test('a wrong code at the step-up is in the audit log', async () => {
  const { userId, bearer } = await register();
  await query(
    `update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "_id" = $1`,
    [userId],
  );
  expect((await call('session.stepUp', { bearer, body: { code: '000000' } })).status).toBe(400);
  const refused = `select 1 from penstock.audit_log where action = 'authentication.secondFactor' and outcome = 'refused' and target = $1`;
  expect((await query(refused, [`User:${userId}`])).count).toBe(1);
});
