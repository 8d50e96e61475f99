/**
 * A session in the wrong hands: what its holder has begun or added must not outlive the moment in which the owner
 * throws them out (https://cwe.mitre.org/data/definitions/613.html, https://cwe.mitre.org/data/definitions/640.html;
 * OWASP ASVS 5.0 7.4.3, 6.4.3).
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
  type TestRequest,
} from '../../../test/support/authentication.ts';

const password = 'correct horse battery staple';
const another = 'seven purple elephants dancing';

let fixture: AuthenticationFixture;
let serial = 0;
beforeAll(async () => {
  fixture = await openAuthentication();
  await fixture.node.configure((config) => ({
    ...config,
    local: { ...config.local, verification: { ...config.local.verification, resend_threshold: 1 } },
    magic_link: { ...config.magic_link, enabled: true },
    twoFa: { ...config.twoFa, enabled: true, methods: { ...config.twoFa.methods, sms: true } },
    phoneAuthentication: { ...config.phoneAuthentication, enabled: true },
    biometricAuthentication: { ...config.biometricAuthentication, enabled: true },
  }));
});
afterAll(() => fixture.close());

const call = (id: string, request: TestRequest = {}): Promise<TestAnswer> =>
  fixture.node.call(`authentication.${id}`, request);
const query = (text: string, values: readonly unknown[]) =>
  fixture.database.query<Record<string, unknown>>({ text, values });
const signIn = async (email: string): Promise<string> =>
  String((await call('local.login', { body: { email, password } })).body.accessToken);
/** An account with the owner's session and that of the thief. */
const stolen = async () => {
  const email = `owner${++serial}@stolen.example`;
  const { body } = await call('local.register', { body: { email, password } });
  return {
    email,
    userId: (body.user as { _id: string })._id,
    own: await signIn(email),
    thief: await signIn(email),
    next: `thief${serial}@stolen.example`,
  };
};
const variables = async (to: string, template: string): Promise<Record<string, string>> => {
  await fixture.node.jobsDone();
  return (fixture.node.mails.findLast(
    (one) => one.to === to && 'template' in one && one.template === template,
  )?.variables ?? {}) as Record<string, string>;
};
const linkTo = async (to: string, template: string) =>
  (await variables(to, template)).link?.split('/').at(-1) ?? '';
const askToMove = async (bearer: string, newEmail: string): Promise<string> => {
  expect((await call('local.changeEmail', { bearer, body: { newEmail } })).status).toBe(200);
  return linkTo(newEmail, 'ChangeEmailVerification');
};
const confirm = (verificationToken: string) =>
  call('hook.verifyChangeEmail', { params: { verificationToken } });
const emailOf = async (userId: string) =>
  (await query('select "email" from "app"."User" where "_id" = $1', [userId])).rows[0]?.email;

test.each([
  [
    'changes the password',
    (own: string) =>
      call('local.changePassword', {
        bearer: own,
        body: { oldPassword: password, newPassword: another },
      }),
  ],
  ['ends all other sessions', (own: string) => call('session.endOthers', { bearer: own })],
])(
  'the owner %s: a change of address that the thief has begun ends with their session',
  async (_name, throwOut) => {
    const { email, userId, own, thief, next } = await stolen();
    const link = await askToMove(thief, next);
    expect((await throwOut(own)).status).toBe(200);
    expect(await confirm(link)).toMatchObject({ status: 404, body: { code: 'LINK_NOT_FOUND' } });
    expect(await emailOf(userId)).toBe(email);
  },
);

test('a new password ends it too where the thief has copied the session of the owner', async () => {
  const { email, userId, own, next } = await stolen();
  const link = await askToMove(own, next);
  const body = { oldPassword: password, newPassword: another };
  expect((await call('local.changePassword', { bearer: own, body })).status).toBe(200);
  expect(await confirm(link)).toMatchObject({ status: 404, body: { code: 'LINK_NOT_FOUND' } });
  expect(await emailOf(userId)).toBe(email);
});

test('a change of address outlives the logout of the session that asked for it', async () => {
  const { userId, own, next } = await stolen();
  const link = await askToMove(own, next);
  await call('session.logout', { bearer: own });
  expect((await confirm(link)).status).toBe(200);
  expect(await emailOf(userId)).toBe(next);
});

test('a new password ends the links that were sent before it', async () => {
  const { email, own } = await stolen();
  await call('password.forgot', { body: { email } });
  await call('magicLink.request', { body: { email } });
  const [{ token: passwordResetToken }, magicToken] = [
    await variables(email, 'ForgotPassword'),
    await linkTo(email, 'MagicLink'),
  ];
  expect(
    (
      await call('local.changePassword', {
        bearer: own,
        body: { oldPassword: password, newPassword: another },
      })
    ).status,
  ).toBe(200);
  expect(
    (
      await call('password.reset', {
        body: { passwordResetToken, password: 'a third one for the thief' },
      })
    ).status,
  ).toBe(400);
  expect((await call('hook.useMagicLink', { params: { token: magicToken } })).status).toBe(404);
});

test('a link that was followed just before a new password opens no session after it', async () => {
  const { email, userId } = await stolen();
  await query('update "app"."User" set "isVerified" = true where "_id" = $1', [userId]);
  await call('password.forgot', { body: { email } });
  await call('magicLink.request', { body: { email } });
  const { token: passwordResetToken } = await variables(email, 'ForgotPassword');
  const token = await linkTo(email, 'MagicLink');
  const isUsed = async () =>
    (
      await query(
        `select 1 from penstock.one_time_tokens where user_id = $1 and purpose = 'magic-link' and used_at is not null`,
        [userId],
      )
    ).count > 0;
  const { transaction } = fixture.database;
  let reset: number | undefined;
  // Between the use of the link and the session.
  const spy = vi.spyOn(fixture.database, 'transaction').mockImplementation(async (...work) => {
    const result = await transaction(...work);
    if (reset === undefined && (await isUsed())) {
      reset = 0;
      reset = (await call('password.reset', { body: { passwordResetToken, password: another } }))
        .status;
    }
    return result;
  });
  const followed = await call('hook.useMagicLink', { params: { token } });
  spy.mockRestore();
  expect([reset, followed.status]).toEqual([200, 401]);
  const live = 'select 1 from penstock.sessions where user_id = $1 and revoked_at is null';
  expect((await query(live, [userId])).count).toBe(0);
});

/** A key of every kind, made at this time. */
const addKeys = async (userId: string, madeAt: string) => {
  const key = `${userId}${madeAt}`;
  await query(
    `insert into penstock.passkeys (id, user_id, credential_id, public_key, counter, transports, multi_device, backed_up, aaguid, name, created_at)
     values (gen_random_uuid(), $1, $2, '', 0, '{}', false, false, '', 'key', $3::timestamptz)`,
    [userId, key, madeAt],
  );
  await query(
    `insert into penstock.device_keys (id, user_id, public_key, created_at) values (gen_random_uuid(), $1, '', $2::timestamptz)`,
    [userId, madeAt],
  );
  await query(
    `insert into penstock.identities (id, provider, subject, user_id, linked_at) values (gen_random_uuid(), 'test', $2, $1, $3::timestamptz)`,
    [userId, key, madeAt],
  );
};
const keysOf = async (userId: string) => {
  const counts = ['passkeys', 'device_keys', 'identities', 'user_totp', 'user_backup_codes'].map(
    async (table) =>
      (await query(`select 1 from penstock.${table} where user_id = $1`, [userId])).count,
  );
  return Promise.all(counts);
};
const takeBack = async (email: string) => {
  const undoToken = await linkTo(email, 'EmailChanged');
  expect((await call('hook.undoChangeEmail', { params: { undoToken } })).status).toBe(200);
};
const before = '2020-01-01T00:00:00Z';

test('taking a change of address back takes away every key that came with it, and leaves the older ones', async () => {
  const { email, userId, thief, next } = await stolen();
  await addKeys(userId, before);
  await query(
    `insert into penstock.user_totp (user_id, secret, confirmed, created_at) values ($1, 'sealed', true, $2::timestamptz)`,
    [userId, before],
  );
  await query(
    `insert into penstock.user_backup_codes (user_id, digest, made_at) values ($1, 'old', $2::timestamptz)`,
    [userId, before],
  );
  // Before they ask for the change, but with the same sign-in.
  await addKeys(userId, new Date().toISOString());
  const link = await askToMove(thief, next);
  await query(
    `update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "_id" = $1`,
    [userId],
  );
  expect((await confirm(link)).status).toBe(200);
  await query(`insert into penstock.user_backup_codes (user_id, digest) values ($1, 'new')`, [
    userId,
  ]);
  expect(await keysOf(userId)).toEqual([2, 2, 2, 1, 2]);
  await takeBack(email);
  expect(await keysOf(userId)).toEqual([1, 1, 1, 1, 1]);
  const account = `select "email", "hasTwoFA", "twoFaMethod", "hashedPassword" from "app"."User" where "_id" = $1`;
  expect((await query(account, [userId])).rows).toEqual([
    { email, hasTwoFA: true, twoFaMethod: 'authenticator', hashedPassword: null },
  ]);
});

test('the phone and the second factor of a thief go too, and their device does not sign in again', async () => {
  const { email, userId, thief, next } = await stolen();
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const signed = (text: unknown) =>
    sign('sha256', Buffer.from(String(text)), privateKey).toString('base64');
  const der = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const { challenge } = (
    await call('biometrics.enrol', { bearer: thief, body: { publicKey: der } })
  ).body;
  const { keyId } = (
    await call('biometrics.confirm', { bearer: thief, body: { encryptedData: signed(challenge) } })
  ).body;
  expect((await confirm(await askToMove(thief, next))).status).toBe(200);
  await call('twoFa.enable', {
    bearer: thief,
    body: { method: 'sms', phoneNumber: '+306912345678' },
  });
  const code = fixture.node.texts.findLast(({ to }) => to === '+306912345678')?.code;
  expect((await call('twoFa.confirm', { bearer: thief, body: { code } })).status).toBe(200);
  await call('twoFa.makeCodes', { bearer: thief });
  await takeBack(email);

  const account = `select "phoneNumber", "hasTwoFA", "twoFaMethod" from "app"."User" where "_id" = $1`;
  expect((await query(account, [userId])).rows).toEqual([
    { phoneNumber: null, hasTwoFA: false, twoFaMethod: null },
  ]);
  expect(await keysOf(userId)).toEqual([0, 0, 0, 0, 0]);
  const { challenge: fresh } = (await call('biometrics.challenge', { body: { keyId } })).body;
  expect(
    (
      await call('biometrics.signIn', {
        body: { keyId, challenge: fresh, encryptedData: signed(fresh) },
      })
    ).status,
  ).toBe(401);
});
