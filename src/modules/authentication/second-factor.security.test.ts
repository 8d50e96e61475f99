/**
 * The second factor: no way around it, and every code is good once.
 * Bypass of a step: https://cwe.mitre.org/data/definitions/287.html; races on single-use secrets:
 * https://cwe.mitre.org/data/definitions/362.html; guessing: https://cwe.mitre.org/data/definitions/307.html
 * (spec/authentication.md W18, W19).
 */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
  type TestRequest,
} from '../../../test/support/authentication.ts';

const password = 'correct horse battery staple';
const stepMs = 30_000;
const parallel = 50;

let fixture: AuthenticationFixture;
beforeAll(async () => {
  // The clock stands in the middle of a step, so that no code grows old between its making and its use.
  vi.useFakeTimers({
    toFake: ['Date'],
    now: Math.floor(Date.now() / stepMs) * stepMs + stepMs / 2,
  });
  fixture = await openAuthentication();
  await configure({});
});
afterAll(async () => {
  vi.useRealTimers();
  await fixture.close();
});

const configure = (twoFa: object) =>
  fixture.node.configure((config) => ({
    ...config,
    twoFa: {
      ...config.twoFa,
      enabled: true,
      methods: { ...config.twoFa.methods, sms: true },
      ...twoFa,
    },
  }));
const call = (id: string, request: TestRequest = {}): Promise<TestAnswer> =>
  fixture.node.call(`authentication.${id}`, request);
const verify = (bearer: string, code: string) => call('twoFa.verify', { bearer, body: { code } });
const recover = (bearer: string, code: string) => call('twoFa.recover', { bearer, body: { code } });

/** Code of a step before (-1), now (0) or after (1). */
const codeOf = (secret: string, offset = 0): string =>
  generateSync({ secret, epoch: Math.floor((Date.now() + offset * stepMs) / 1000) });

let serial = 0;
const register = async () => {
  serial += 1;
  const email = `user${serial}@factors.example`;
  await call('local.register', { body: { email, password } });
  const { body } = await call('local.login', { body: { email, password } });
  return { email, userId: body.userId as string, bearer: body.accessToken as string };
};
const login = async (email: string) =>
  (await call('local.login', { body: { email, password } })).body;
const partial = async (email: string) => (await login(email)).accessToken as string;
const read = (bearer: string) => call('user.get', { bearer });

/** A user whose authenticator is on; the code of the step before was used to prove it. */
const enrolled = async () => {
  const user = await register();
  const secret = (await call('twoFa.enable', { bearer: user.bearer })).body.secret as string;
  expect(
    await call('twoFa.confirm', { bearer: user.bearer, body: { code: codeOf(secret, -1) } }),
  ).toEqual({
    status: 200,
    body: { result: '2FA enabled' },
  });
  return { ...user, secret };
};
const lastText = (to: string): string =>
  fixture.node.texts.findLast((text) => text.to === to)?.code ?? '';
const countMails = (to: string, template: string): number =>
  fixture.node.mails.filter(
    (mail) => mail.to === to && 'template' in mail && mail.template === template,
  ).length;
const count = (answers: readonly TestAnswer[], status: number): number =>
  answers.filter((answer) => answer.status === status).length;

test('an authenticator is shown as an image made here, with secret and address, and is sealed at rest', async () => {
  const { bearer, userId, email } = await register();
  const { body } = await call('twoFa.enable', { bearer });
  expect(body.result).toMatch(/^data:image\/png;base64,/);
  expect(body.qrCode).toBe(body.result);
  expect(body.uri).toContain(`secret=${body.secret as string}`);
  expect(decodeURIComponent(String(body.uri))).toContain(email);
  const { rows } = await fixture.database.query<{ row: string }>({
    text: 'select t::text as row from penstock.user_totp t where user_id = $1',
    values: [userId],
  });
  expect(rows[0]?.row).not.toContain(body.secret);
  // Nothing is asked before it is proven.
  expect(await login(email)).not.toHaveProperty('twoFaRequired');
  expect(await call('twoFa.confirm', { bearer, body: { code: '000000' } })).toMatchObject({
    status: 400,
    body: { code: 'TOTP_INVALID' },
  });
});

test('a login with a second factor opens the second step alone, which opens everything', async () => {
  const { email, userId, secret } = await enrolled();
  const first = await login(email);
  expect(first).toEqual({
    userId,
    accessToken: expect.any(String),
    twoFaRequired: true,
    twoFaMethod: 'authenticator',
  });
  const bearer = first.accessToken as string;
  expect((await call('twoFa.authorize', { bearer })).body).toEqual({
    method: 'authenticator',
    message: expect.any(String),
    alternatives: [],
  });
  expect(await verify(bearer, '123')).toMatchObject({ status: 400 });
  const answer = await verify(bearer, ` ${codeOf(secret).slice(0, 3)} ${codeOf(secret).slice(3)}`);
  expect(answer).toEqual({
    status: 200,
    body: { userId, accessToken: expect.any(String), refreshToken: expect.any(String) },
  });
  expect((await read(answer.body.accessToken as string)).status).toBe(200);
  // The partial token has ended.
  expect((await call('twoFa.authorize', { bearer })).status).toBe(401);
  expect(await verify(answer.body.accessToken as string, codeOf(secret, 1))).toMatchObject({
    status: 400,
    body: { code: 'SECOND_FACTOR_NOT_PENDING' },
  });
});

test('a code works once, of the steps before and after too, and never one before the last used', async () => {
  const { email, secret } = await enrolled();
  expect((await verify(await partial(email), codeOf(secret, 1))).status).toBe(200);
  expect(await verify(await partial(email), codeOf(secret, 1))).toMatchObject({
    status: 400,
    body: { code: 'TOTP_INVALID' },
  });
  expect((await verify(await partial(email), codeOf(secret))).status).toBe(400);
  expect((await verify(await partial(email), codeOf(secret, 2))).status).toBe(400);
});

test('of 50 parallel uses of one code one succeeds, with one session and with 50', async () => {
  const { email, secret } = await enrolled();
  const code = codeOf(secret);
  const bearers = await Promise.all(Array.from({ length: 10 }, () => partial(email)));
  const answers = await Promise.all(
    Array.from({ length: parallel }, (_, i) => verify(bearers[i % 10] ?? '', code)),
  );
  expect(count(answers, 200)).toBe(1);
  expect(count(answers, 400) + count(answers, 401) + count(answers, 429)).toBe(parallel - 1);
});

test('guesses are counted per account, from however many sessions they come', async () => {
  const { email } = await enrolled();
  const bearer = await partial(email);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => verify(bearer, String(100_000 + i))),
  );
  expect(count(answers, 429)).toBe(10);
  expect(await verify(await partial(email), '999999')).toMatchObject({
    status: 429,
    body: { code: 'ATTEMPTS_EXHAUSTED', retryAfter: expect.any(Number) },
  });
});

test('recovery codes work once each, are made as a set, and are told by mail', async () => {
  const { email, bearer, userId } = await enrolled();
  const { codes } = (await call('twoFa.makeCodes', { bearer })).body as { codes: string[] };
  expect(codes).toHaveLength(10);
  expect(new Set(codes).size).toBe(10);
  for (const code of codes) expect(code).toMatch(/^\d{4} \d{4}$/);
  expect((await recover(await partial(email), codes[0] ?? '')).body).toMatchObject({
    userId,
    message: 'You have 9 recovery codes left',
  });
  expect((await recover(await partial(email), codes[0] ?? '')).status).toBe(401);
  expect(countMails(email, 'RecoveryCodeUsed')).toBe(1);
  // The other spelling makes a new set, and the old one is worth nothing.
  const again = (await call('twoFa.generateCodes', { bearer })).body as { codes: string[] };
  expect(again.codes).toHaveLength(10);
  expect((await recover(await partial(email), codes[1] ?? '')).status).toBe(401);
  expect(
    (await recover(await partial(email), (again.codes[1] ?? '').replace(' ', ''))).status,
  ).toBe(200);
  const { rows } = await fixture.database.query<{ row: string }>({
    text: 'select c::text as row from penstock.user_backup_codes c where user_id = $1',
    values: [userId],
  });
  for (const { row } of rows)
    for (const code of again.codes) expect(row).not.toContain(code.replace(' ', ''));
});

test('of 50 parallel uses of one recovery code one succeeds', async () => {
  const { email, bearer } = await enrolled();
  const { codes } = (await call('twoFa.makeCodes', { bearer })).body as { codes: string[] };
  const bearers = await Promise.all(Array.from({ length: 5 }, () => partial(email)));
  const answers = await Promise.all(
    Array.from({ length: parallel }, (_, i) => recover(bearers[i % 5] ?? '', codes[0] ?? '')),
  );
  expect(count(answers, 200)).toBe(1);
  expect(count(answers, 401) + count(answers, 429)).toBe(parallel - 1);
  expect(countMails(email, 'RecoveryCodeUsed')).toBe(1);
});

test('switching it off needs a fresh sign-in or a code, and leaves no secret behind', async () => {
  const { email, userId, secret, bearer } = await enrolled();
  await call('twoFa.makeCodes', { bearer });
  const session = (await verify(await partial(email), codeOf(secret))).body.accessToken as string;
  const now = Date.now();
  vi.setSystemTime(now + 11 * 60_000);
  expect(await call('twoFa.disable', { bearer: session })).toMatchObject({
    status: 403,
    body: { code: 'SUDO_REQUIRED' },
  });
  expect(await call('twoFa.makeCodes', { bearer: session })).toMatchObject({
    status: 403,
    body: { code: 'SUDO_REQUIRED' },
  });
  expect(await call('twoFa.disable', { bearer: session, body: { code: '000000' } })).toMatchObject({
    status: 400,
  });
  expect(
    await call('twoFa.disable', { bearer: session, body: { code: codeOf(secret) } }),
  ).toMatchObject({
    body: { result: '2FA disabled' },
  });
  vi.setSystemTime(now);
  for (const table of ['user_totp', 'user_backup_codes'])
    expect(
      (
        await fixture.database.query({
          text: `select 1 from penstock.${table} where user_id = $1`,
          values: [userId],
        })
      ).count,
      table,
    ).toBe(0);
  expect((await read(bearer)).status).toBe(401);
  expect((await login(email)).refreshToken).toEqual(expect.any(String));
  expect(countMails(email, 'SecondFactorOff')).toBe(1);
  expect((await call('twoFa.disable', { bearer: session })).body).toEqual({
    result: '2FA already disabled',
  });
});

test('a text message: to a proven number, masked in the answer, six digits, five tries, of one session alone', async () => {
  const { email, bearer } = await register();
  const phone = '+306912345678';
  expect(await call('twoFa.enable', { bearer, body: { method: 'sms' } })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'phoneNumber' }] },
  });
  expect(
    await call('twoFa.enable', { bearer, body: { method: 'sms', phoneNumber: '12345' } }),
  ).toMatchObject({ status: 400 });
  await call('twoFa.enable', { bearer, body: { method: 'sms', phoneNumber: '+30 691 234 5678' } });
  expect((await call('twoFa.confirm', { bearer, body: { code: '000000' } })).status).toBe(401);
  expect((await call('twoFa.confirm', { bearer, body: { code: lastText(phone) } })).status).toBe(
    200,
  );

  const mine = await partial(email);
  const theirs = await partial(email);
  expect((await call('twoFa.authorize', { bearer: mine })).body).toEqual({
    method: 'sms',
    message: 'A code was sent to +30********78',
    alternatives: [],
  });
  const code = lastText(phone);
  expect(code).toMatch(/^\d{6}$/);
  expect((await verify(theirs, code)).status).toBe(401);
  const answers = await Promise.all(Array.from({ length: 4 }, () => verify(mine, code)));
  expect(count(answers, 200)).toBe(1);

  await call('twoFa.authorize', { bearer: theirs });
  const wrong = lastText(phone) === '111111' ? '222222' : '111111';
  for (let i = 0; i < 5; i += 1) expect((await verify(theirs, wrong)).status).toBe(401);
  expect((await verify(theirs, lastText(phone))).status).toBe(401);
  for (let i = 0; i < 2; i += 1)
    expect((await call('twoFa.authorize', { bearer: theirs })).status).toBe(200);
  expect(await call('twoFa.authorize', { bearer: theirs })).toMatchObject({
    status: 429,
    body: { code: 'MESSAGE_TOO_SOON' },
  });
});

test('who must have one can do nothing before it is set up', async () => {
  const { userId, email } = await register();
  await call('users.update', { params: { id: userId }, body: { requiresTwoFA: true } });
  const first = await login(email);
  expect(first).toEqual({
    userId,
    accessToken: expect.any(String),
    twoFaRequired: true,
    twoFaEnrolment: true,
  });
  const bearer = first.accessToken as string;
  expect((await verify(bearer, '123456')).status).toBe(404);
  const secret = (await call('twoFa.enable', { bearer })).body.secret as string;
  const done = await call('twoFa.confirm', { bearer, body: { code: codeOf(secret) } });
  expect(done).toMatchObject({
    status: 200,
    body: { result: '2FA enabled', userId, refreshToken: expect.any(String) },
  });
  expect((await read(done.body.accessToken as string)).body).toMatchObject({
    hasTwoFA: true,
    requiresTwoFA: true,
  });

  await configure({ required: true });
  expect(await login((await register()).email)).toMatchObject({ twoFaEnrolment: true });
  await configure({ required: false });
});

test('a session that needs its second factor cannot replace it', async () => {
  const { email } = await enrolled();
  const bearer = await partial(email);
  expect((await call('twoFa.enable', { bearer })).status).toBe(401);
  expect((await call('twoFa.confirm', { bearer, body: { code: '123456' } })).status).toBe(401);
});

test('a setting never takes the second factor off an account', async () => {
  const { email } = await enrolled();
  await configure({ enabled: false });
  expect(await login(email)).toMatchObject({ twoFaRequired: true });
  expect((await call('twoFa.enable', { bearer: await partial(email) })).status).toBe(404);
  await configure({});
});

test('an operator who takes it off takes its secrets too', async () => {
  const { email, userId, bearer } = await enrolled();
  await call('users.resetSecondFactor', { params: { id: userId } });
  expect((await read(bearer)).status).toBe(401);
  expect((await login(email)).refreshToken).toEqual(expect.any(String));
  expect(
    (
      await fixture.database.query({
        text: 'select 1 from penstock.user_totp where user_id = $1',
        values: [userId],
      })
    ).count,
  ).toBe(0);
});

test('what somebody has begun long ago is not finished', async () => {
  const { bearer, userId } = await register();
  const secret = (await call('twoFa.enable', { bearer })).body.secret as string;
  await fixture.database.query({
    text: `update penstock.user_totp set created_at = now() - interval '16 minutes' where user_id = $1`,
    values: [userId],
  });
  expect((await call('twoFa.confirm', { bearer, body: { code: codeOf(secret) } })).status).toBe(
    401,
  );
});

test('whoever proves the mailbox of an unproven account finds no key of whoever prepared it', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    magic_link: { enabled: true, redirect_uri: '', link_uri: '' },
  }));
  const { email, userId, bearer } = await register();
  // Begun, and not on yet.
  await call('twoFa.enable', { bearer });
  for (const text of [
    `insert into penstock.user_backup_codes (user_id, digest) values ($1, 'prepared')`,
    `insert into penstock.device_keys (id, user_id, public_key) values (gen_random_uuid(), $1, '')`,
    `insert into penstock.passkey_handles (user_id, handle) values ($1, 'handle')`,
    `insert into penstock.passkeys (id, user_id, credential_id, public_key, counter, transports, multi_device, backed_up, aaguid, name)
     values (gen_random_uuid(), $1, 'prepared', '', 0, '{}', false, false, '', '')`,
  ])
    await fixture.database.query({ text, values: [userId] });
  await call('magicLink.request', { body: { email } });
  await fixture.node.jobsDone();
  const mail = fixture.node.mails.findLast(({ to }) => to === email);
  const token = String(mail?.variables?.link).split('/').at(-1);
  expect((await call('hook.useMagicLink', { params: { token } })).body).toMatchObject({
    userId,
    refreshToken: expect.any(String),
  });
  for (const table of [
    'user_totp',
    'user_backup_codes',
    'device_keys',
    'passkeys',
    'passkey_handles',
  ])
    expect(
      (
        await fixture.database.query({
          text: `select 1 from penstock.${table} where user_id = $1`,
          values: [userId],
        })
      ).count,
      table,
    ).toBe(0);
});

test('a mailbox alone does not take the second factor off, by whichever mail', async () => {
  await fixture.node.configure((config) => ({
    ...config,
    magic_link: { ...config.magic_link, enabled: true },
    email_code: { ...config.email_code, enabled: true },
  }));
  const { email, bearer } = await enrolled();
  const mailed = async (template: string) => {
    await fixture.node.jobsDone();
    const mail = fixture.node.mails.findLast(
      (one) => one.to === email && 'template' in one && one.template === template,
    );
    return (mail?.variables ?? {}) as Record<string, string>;
  };
  const partialAnswer = {
    status: 200,
    body: { twoFaRequired: true, twoFaMethod: 'authenticator' },
  };

  await call('magicLink.request', { body: { email } });
  const token = (await mailed('MagicLink')).link?.split('/').at(-1);
  expect(await call('hook.useMagicLink', { params: { token } })).toMatchObject(partialAnswer);

  const { token: handle } = (await call('emailCode.request', { body: { email } })).body;
  expect(
    await call('emailCode.verify', {
      body: { token: handle, code: (await mailed('LoginCode')).code },
    }),
  ).toMatchObject(partialAnswer);
  // Nothing that the owner has was taken away by any of it.
  expect((await read(bearer)).body).toMatchObject({ hasTwoFA: true, isVerified: false });
  expect(await login(email)).toMatchObject(partialAnswer.body);

  await call('password.forgot', { body: { email } });
  const next = 'seven purple elephants dancing';
  const reset = { passwordResetToken: (await mailed('ForgotPassword')).token, password: next };
  expect((await call('password.reset', { body: reset })).status).toBe(200);
  expect(await call('local.login', { body: { email, password: next } })).toMatchObject(
    partialAnswer,
  );
});
