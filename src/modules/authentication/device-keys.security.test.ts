/**
 * Device keys: a captured sign-in is worth nothing afterwards (spec/authentication.md W6;
 * https://cwe.mitre.org/data/definitions/294.html).
 */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestRequest,
} from '../../../test/support/authentication.ts';

const password = 'correct horse battery staple';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
  await fixture.node.configure((config) => ({
    ...config,
    biometricAuthentication: { ...config.biometricAuthentication, enabled: true },
  }));
});
afterAll(() => fixture.close());

const call = (id: string, request: TestRequest = {}) =>
  fixture.node.call(`authentication.${id}`, request);
let serial = 0;
const register = async () => {
  const email = `device${++serial}@example.com`;
  await call('local.register', { body: { email, password } });
  const { body } = await call('local.login', { body: { email, password } });
  return { email, userId: body.userId as string, bearer: body.accessToken as string };
};

interface Key {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}
const rsa = (modulusLength = 2048): Key => generateKeyPairSync('rsa', { modulusLength });
const p256 = (): Key => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const der = ({ publicKey }: Key): string =>
  publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
const signed = ({ privateKey }: Key, text: unknown): string =>
  sign('sha256', Buffer.from(String(text)), privateKey).toString('base64');

const enrolled = async (key: Key = p256()) => {
  const user = await register();
  const { challenge } = (
    await call('biometrics.enrol', { bearer: user.bearer, body: { publicKey: der(key) } })
  ).body;
  expect(challenge).toMatch(/^[0-9a-f]{128}$/);
  const { status, body } = await call('biometrics.confirm', {
    bearer: user.bearer,
    body: { encryptedData: signed(key, challenge) },
  });
  expect(status).toBe(200);
  return { ...user, key, keyId: body.keyId as string };
};
const challengeFor = async (keyId: string) =>
  (await call('biometrics.challenge', { body: { keyId } })).body.challenge as string;
const signIn = (body: object) => call('biometrics.signIn', { body });

test.each([
  ['RSA', () => rsa()],
  ['P-256', p256],
])('a device with an %s key is enrolled, signs in, is listed and removed', async (_name, make) => {
  const { userId, bearer, key, keyId, email } = await enrolled(make());
  const challenge = await challengeFor(keyId);
  const answer = await signIn({ keyId, challenge, encryptedData: signed(key, challenge) });
  expect(answer).toMatchObject({ status: 200, body: { userId, refreshToken: expect.any(String) } });
  expect((await call('biometrics.list', { bearer })).body).toMatchObject({
    count: 1,
    keys: [{ _id: keyId, lastUsedAt: expect.any(String) }],
  });
  const stranger = await register();
  expect(
    (await call('biometrics.remove', { bearer: stranger.bearer, params: { id: keyId } })).status,
  ).toBe(404);
  expect((await call('biometrics.remove', { bearer, params: { id: keyId } })).status).toBe(200);
  const next = await challengeFor(keyId);
  expect(await signIn({ keyId, challenge: next, encryptedData: signed(key, next) })).toMatchObject({
    status: 401,
    body: { code: 'DEVICE_INVALID' },
  });
  expect((await call('user.get', { bearer: answer.body.accessToken as string })).status).toBe(401);
  const names = fixture.node.mails.flatMap((mail) =>
    mail.to === email && 'template' in mail ? [mail.template] : [],
  );
  expect(names).toEqual(['DeviceAdded', 'DeviceRemoved']);
});

test('a key that was used just before a new password opens no session after it', async () => {
  const { email, userId, key, keyId } = await enrolled();
  await call('password.forgot', { body: { email } });
  await fixture.node.jobsDone();
  const mail = fixture.node.mails.findLast(
    (one) => one.to === email && 'template' in one && one.template === 'ForgotPassword',
  );
  const body = { passwordResetToken: mail?.variables?.token, password: 'seven purple elephants' };
  const challenge = await challengeFor(keyId);
  const { query } = fixture.database;
  let reset: number | undefined;
  // Between the use of the key and the session.
  const spy = vi.spyOn(fixture.database, 'query').mockImplementation(async (statement) => {
    const result = await query(statement);
    if (reset === undefined && statement.text.includes('update penstock.device_keys')) {
      reset = 0;
      reset = (await call('password.reset', { body })).status;
    }
    return result as never;
  });
  const signedIn = await signIn({ keyId, challenge, encryptedData: signed(key, challenge) });
  spy.mockRestore();
  expect([reset, signedIn.status]).toEqual([200, 401]);
  const live = 'select 1 from penstock.sessions where user_id = $1 and revoked_at is null';
  expect((await fixture.database.query({ text: live, values: [userId] })).count).toBe(0);
});

test('a captured sign-in, the user id and challenges of others open nothing; of 50 parallel uses one succeeds', async () => {
  const { key, keyId, userId } = await enrolled();
  const other = await enrolled();
  const challenge = await challengeFor(keyId);
  const proof = { keyId, challenge, encryptedData: signed(key, challenge) };
  const answers = await Promise.all(Array.from({ length: 50 }, () => signIn(proof)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect((await signIn(proof)).status).toBe(401);
  expect(
    (await signIn({ keyId, challenge: userId, encryptedData: signed(key, userId) })).status,
  ).toBe(401);
  const theirs = await challengeFor(other.keyId);
  expect(
    (await signIn({ keyId, challenge: theirs, encryptedData: signed(key, theirs) })).status,
  ).toBe(401);
  const mine = await challengeFor(keyId);
  expect(
    (await signIn({ keyId, challenge: mine, encryptedData: signed(other.key, mine) })).status,
  ).toBe(401);
  // A wrong signature uses the challenge up.
  expect((await signIn({ keyId, challenge: mine, encryptedData: signed(key, mine) })).status).toBe(
    401,
  );
});

test('a key that there is not gets a challenge like any other', async () => {
  const { keyId } = await enrolled();
  const [known, unknown] = await Promise.all([
    challengeFor(keyId),
    challengeFor('00000000-0000-7000-8000-000000000000'),
  ]);
  for (const challenge of [known, unknown]) expect(challenge).toMatch(/^[A-Za-z0-9_-]{43}$/);
});

test('weak and foreign keys are refused, and so is a proof of another session or key', async () => {
  const { bearer } = await register();
  const enrol = (publicKey: string) => call('biometrics.enrol', { bearer, body: { publicKey } });
  for (const weak of [
    rsa(1024),
    generateKeyPairSync('ed25519'),
    generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
  ])
    expect(await enrol(der(weak))).toMatchObject({
      status: 400,
      body: { code: 'DEVICE_KEY_REFUSED' },
    });
  expect((await enrol('AAAA')).status).toBe(400);

  const key = p256();
  const { challenge } = (await enrol(der(key))).body;
  const another = await register();
  const confirm = (by: string, encryptedData: string) =>
    call('biometrics.confirm', { bearer: by, body: { encryptedData } });
  expect((await confirm(another.bearer, signed(key, challenge))).status).toBe(400);
  expect((await confirm(bearer, signed(p256(), challenge))).status).toBe(400);
  expect((await confirm(bearer, signed(key, challenge))).status).toBe(400);
});

test('a new password by mail ends device keys, and its notice names what is left', async () => {
  const { email, userId, bearer, key, keyId } = await enrolled();
  await fixture.database.query({
    text: `insert into penstock.identities (id, user_id, provider, subject, email_verified, data)
      values (gen_random_uuid(), $1::uuid, 'google', $1::text, true, '{}')`,
    values: [userId],
  });
  // Else all that somebody else may have put into the account goes.
  await fixture.database.query({
    text: 'update "app"."User" set "isVerified" = true where "_id" = $1',
    values: [userId],
  });
  const notice = () =>
    fixture.node.mails.findLast(
      (mail) => mail.to === email && 'template' in mail && mail.template === 'PasswordChanged',
    )?.variables;
  const changed = await call('local.changePassword', {
    bearer,
    body: { oldPassword: password, newPassword: 'an even better password' },
  });
  expect(changed.status).toBe(200);
  expect(notice()).toEqual({ devices: '', ways: '1 device, an account at google' });
  expect((await call('biometrics.list', { bearer })).body).toMatchObject({ count: 1 });

  await call('password.forgot', { body: { email } });
  await fixture.node.jobsDone();
  const mail = fixture.node.mails.findLast(
    (one) => one.to === email && 'template' in one && one.template === 'ForgotPassword',
  );
  const reset = await call('password.reset', {
    body: {
      passwordResetToken: mail?.variables?.token,
      password: 'a whole new password',
    },
  });
  expect(reset.status).toBe(200);
  expect(notice()).toEqual({ devices: '1', ways: 'an account at google' });
  const challenge = await challengeFor(keyId);
  expect(await signIn({ keyId, challenge, encryptedData: signed(key, challenge) })).toMatchObject({
    status: 401,
  });
});

test('a password that an operator requires anew ends device keys', async () => {
  const { userId, key, keyId } = await enrolled();
  const { rows } = await fixture.database.query<{ count: number }>({
    text: 'select count(*)::int as count from penstock.device_keys where user_id = $1',
    values: [userId],
  });
  expect(rows[0]?.count).toBe(1);
  const answer = await call('users.requirePassword', { params: { id: userId } });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  const challenge = await challengeFor(keyId);
  expect(await signIn({ keyId, challenge, encryptedData: signed(key, challenge) })).toMatchObject({
    status: 401,
  });
});

test('counts for one factor, and the routes are there only while they are requested', async () => {
  const { key, keyId, userId } = await enrolled();
  await call('users.update', {
    params: { id: userId },
    body: { hasTwoFA: true, twoFaMethod: 'sms', phoneNumber: '+306900000042' },
  });
  const challenge = await challengeFor(keyId);
  const { body } = await signIn({ keyId, challenge, encryptedData: signed(key, challenge) });
  expect(body).toMatchObject({ twoFaRequired: true, twoFaMethod: 'sms' });
  expect(body).not.toHaveProperty('refreshToken');
  await fixture.node.configure((config) => ({
    ...config,
    biometricAuthentication: { ...config.biometricAuthentication, enabled: false },
  }));
  expect((await call('biometrics.challenge', { body: { keyId } })).status).toBe(404);
});
