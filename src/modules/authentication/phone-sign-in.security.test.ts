/**
 * Sign-in by phone: nobody learns which numbers are known, nobody is flooded or paid for messages, and a
 * number belongs to one account (spec/authentication.md W22, W34; toll fraud:
 * https://cheatsheetseries.owasp.org/cheatsheets/Multifactor_Authentication_Cheat_Sheet.html;
 * https://cwe.mitre.org/data/definitions/204.html).
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
  type TestRequest,
} from '../../../test/support/authentication.ts';

const password = 'correct horse battery staple';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
});
beforeEach(() => configure({}));
afterAll(() => fixture.close());

const configure = (phoneAuthentication: object) =>
  fixture.node.configure((config) => ({
    ...config,
    anonymousUsers: { ...config.anonymousUsers, enabled: true },
    phoneAuthentication: {
      ...config.phoneAuthentication,
      enabled: true,
      maxPerNumber: 5,
      maxPerPrefix: 50,
      countries: [],
      ...phoneAuthentication,
    },
  }));
const call = (id: string, request: TestRequest = {}): Promise<TestAnswer> =>
  fixture.node.call(`authentication.${id}`, request);

let places = 0;
/** From a new network each time, so that the pause between two messages does not matter. */
const ask = (phone: string, address = `198.51.100.${++places}`) =>
  call('phone.request', { body: { phone }, address });
const codeTo = (phone: string): string =>
  fixture.node.texts.findLast(({ to }) => to === phone)?.code ?? '';
const textsTo = (phone: string): number =>
  fixture.node.texts.filter(({ to }) => to === phone).length;
const verify = (body: object, bearer?: string) => call('phone.verify', { body, bearer });
const signIn = async (phone: string, bearer?: string, userData?: object) => {
  const { token } = (await ask(phone)).body;
  return verify(
    { token, code: codeTo(phone), ...(userData === undefined ? {} : { userData }) },
    bearer,
  );
};
let serial = 0;
/** Numbers of ranges that differ. */
const newNumber = (): string => `+30691${String(++serial).padStart(3, '0')}0000`;
const user = async (bearer: unknown) => (await call('user.get', { bearer: bearer as string })).body;
const register = async () => {
  const email = `phone${++serial}@example.com`;
  await call('local.register', { body: { email, password } });
  return (await call('local.login', { body: { email, password } })).body as {
    userId: string;
    accessToken: string;
  };
};

test('a new number makes an account, a known one signs in to it', async () => {
  const phone = newNumber();
  const first = await signIn(phone);
  expect(first).toMatchObject({
    status: 200,
    body: { userId: expect.any(String), refreshToken: expect.any(String) },
  });
  expect(await user(first.body.accessToken)).toMatchObject({
    phoneNumber: phone,
    email: null,
    isAnonymous: false,
  });
  expect((await signIn(phone)).body.userId).toBe(first.body.userId);
  expect((await signIn(newNumber(), undefined, { email: 'set@example.com' })).body).toMatchObject({
    code: 'USER_DATA_UNKNOWN',
  });
});

test('known and unknown numbers get the same answer and the same message', async () => {
  const phone = newNumber();
  await signIn(phone);
  const answers = await Promise.all([ask(phone), ask(newNumber())]);
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect(body).toEqual({ token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/) });
  }
  expect(textsTo(phone)).toBe(2);
});

test.each([
  '12345',
  '+306',
  'abc',
  '+99912345678',
  '+30691000000000000',
  '+306910000001;ext=5',
  '6912345678',
])('%s is not a number that can be used', async (phone) => {
  expect(await ask(phone)).toMatchObject({
    status: 400,
    body: { code: 'PHONE_INVALID', errors: [{ path: 'phone' }] },
  });
});

test('numbers of other countries than those that are requested are refused', async () => {
  await configure({ countries: ['GR'] });
  expect(await ask('+4915112345678')).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'phone', rule: 'country' }] },
  });
  expect((await ask(newNumber())).status).toBe(200);
});

test('a code works once, with its token alone, five tries', async () => {
  const phone = newNumber();
  const { token } = (await ask(phone)).body;
  const { token: other } = (await ask(newNumber())).body;
  const code = codeTo(phone);
  expect((await verify({ token: other, code })).status).toBe(401);
  const answers = await Promise.all(Array.from({ length: 50 }, () => verify({ token, code })));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(49);

  const { token: guessed } = (await ask(phone)).body;
  const right = codeTo(phone);
  const wrong = right === '111111' ? '222222' : '111111';
  for (let i = 0; i < 5; i += 1)
    expect(await verify({ token: guessed, code: wrong })).toMatchObject({ status: 401 });
  expect((await verify({ token: guessed, code: right })).status).toBe(401);
  expect((await verify({ token: 'x', code: right })).status).toBe(401);
});

test('a code works for ten minutes and is worth nothing afterwards, and the next one is', async () => {
  const phone = newNumber();
  const later = (minutes: number) =>
    fixture.database.query({
      text: `update penstock.one_time_tokens set expires_at = expires_at - make_interval(mins => $1) where purpose = 'phone-login'`,
      values: [minutes],
    });
  const early = (await ask(phone)).body;
  await later(9);
  expect((await verify({ token: early.token, code: codeTo(phone) })).status).toBe(200);
  const { token } = (await ask(phone)).body;
  await later(10);
  expect(await verify({ token, code: codeTo(phone) })).toMatchObject({
    status: 401,
    body: { code: 'CREDENTIALS_INVALID' },
  });
  expect((await signIn(phone)).status).toBe(200);
});

test('two first sign-ins with one number at the same time make one account', async () => {
  const phone = newNumber();
  const proofs = [];
  for (let i = 0; i < 4; i += 1)
    proofs.push({ token: (await ask(phone)).body.token, code: codeTo(phone) });
  const answers = await Promise.all(proofs.map((proof) => verify(proof)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(new Set(answers.map(({ body }) => body.userId)).size).toBe(1);
});

test('one number and one range get no more messages than are allowed', async () => {
  const phone = newNumber();
  expect((await ask(phone, '203.0.113.9')).status).toBe(200);
  expect(await ask(phone, '203.0.113.9')).toMatchObject({
    status: 429,
    body: { code: 'MESSAGE_TOO_SOON' },
  });
  for (let i = 0; i < 8; i += 1) expect((await ask(phone)).status).toBe(200);
  expect(textsTo(phone)).toBe(5);

  await configure({ maxPerPrefix: 3 });
  const range = newNumber().slice(0, -4);
  const answers = [];
  for (let i = 0; i < 5; i += 1) answers.push((await ask(`${range}${1000 + i}`)).status);
  expect(answers).toEqual([200, 200, 200, 429, 429]);
});

test('waiting an hour gives one number no more than twenty messages in a day', async () => {
  const phone = newNumber();
  for (let hour = 0; hour < 6; hour += 1) {
    for (let i = 0; i < 5; i += 1) expect((await ask(phone)).status).toBe(200);
    await fixture.database.query({
      text: `update penstock.limits set ends_at = ends_at - interval '61 minutes'`,
    });
  }
  expect(textsTo(phone)).toBe(20);
});

test('an anonymous user becomes the account in place; their earlier sessions end', async () => {
  const anonymous = (await call('local.registerAnonymous')).body;
  const phone = newNumber();
  const answer = await signIn(phone, anonymous.accessToken as string);
  expect(answer.body.userId).toBe(anonymous.userId);
  expect(await user(answer.body.accessToken)).toMatchObject({
    isAnonymous: false,
    phoneNumber: phone,
  });
  expect((await call('user.get', { bearer: anonymous.accessToken as string })).status).toBe(401);
  // With a number that is known they are signed in to its account, and stay what they were.
  const second = (await call('local.registerAnonymous')).body;
  expect((await signIn(phone, second.accessToken as string)).body.userId).toBe(anonymous.userId);
  expect(await user(second.accessToken)).toMatchObject({ isAnonymous: true });
});

test('a signed-in user gives themselves a number that nobody has, after a fresh sign-in', async () => {
  const phone = newNumber();
  const owner = await register();
  const answer = await signIn(phone, owner.accessToken);
  expect(answer).toMatchObject({ status: 200, body: { userId: owner.userId } });
  expect(await user(answer.body.accessToken)).toMatchObject({ phoneNumber: phone });
  expect((await call('user.get', { bearer: owner.accessToken })).status).toBe(401);
  const noted = `select 1 from penstock.audit_log where action = 'authentication.changePhone' and target = $1`;
  expect(
    (await fixture.database.query({ text: noted, values: [`User:${owner.userId}`] })).count,
  ).toBe(1);

  const other = await register();
  expect(await signIn(phone, other.accessToken)).toMatchObject({
    status: 409,
    body: { code: 'PHONE_NUMBER_EXISTS' },
  });
  expect((await user(other.accessToken)).phoneNumber).toBeNull();
  expect((await signIn(phone)).body.userId).toBe(owner.userId);
});

test('of many who give themselves one number at the same time, one gets it and the others are told', async () => {
  const phone = newNumber();
  const requests = [];
  for (let i = 0; i < 4; i += 1) {
    const { accessToken } = await register();
    requests.push({
      accessToken,
      proof: { token: (await ask(phone)).body.token, code: codeTo(phone) },
    });
  }
  const answers = await Promise.all(
    requests.map(({ accessToken, proof }) => verify(proof, accessToken)),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
  expect(answers.find(({ status }) => status === 409)?.body).toMatchObject({
    code: 'PHONE_NUMBER_EXISTS',
  });
});

test('blocked users stay out, and who has a second factor is asked for it', async () => {
  const phone = newNumber();
  const { userId } = (await signIn(phone)).body as { userId: string };
  await call('users.update', {
    params: { id: userId },
    body: { hasTwoFA: true, twoFaMethod: 'sms' },
  });
  expect((await signIn(phone)).body).toMatchObject({ twoFaRequired: true });
  await call('users.block', { params: { id: userId } });
  expect(await signIn(phone)).toMatchObject({ status: 403, body: { code: 'USER_BLOCKED' } });
});

test('a phone that is the second factor of an account with a password is not the first one too', async () => {
  const phone = newNumber();
  const { userId, accessToken } = await register();
  expect((await signIn(phone, accessToken)).status).toBe(200);
  await call('users.update', {
    params: { id: userId },
    body: { hasTwoFA: true, twoFaMethod: 'sms' },
  });
  expect(await signIn(phone)).toMatchObject({
    status: 403,
    body: { code: 'PHONE_IN_USE' },
  });
  // With another second factor the phone is one of two.
  await fixture.database.query({
    text: `update "app"."User" set "twoFaMethod" = 'authenticator' where "_id" = $1`,
    values: [userId],
  });
  expect((await signIn(phone)).body).toMatchObject({
    userId,
    twoFaRequired: true,
    twoFaMethod: 'authenticator',
  });
});

test('a second factor by text message spends the same budget of numbers as a sign-in', async () => {
  await configure({ maxPerPrefix: 3 });
  await fixture.node.configure((config) => ({
    ...config,
    twoFa: { ...config.twoFa, enabled: true, methods: { ...config.twoFa.methods, sms: true } },
  }));
  const range = newNumber().slice(0, -4);
  const enable = async (phoneNumber: string) => {
    const { accessToken } = await register();
    return (
      await call('twoFa.enable', { bearer: accessToken, body: { method: 'sms', phoneNumber } })
    ).status;
  };
  const statuses = [];
  for (let i = 0; i < 4; i += 1) statuses.push(await enable(`${range}${2000 + i}`));
  expect(statuses).toEqual([200, 200, 200, 429]);
  expect((await ask(`${range}3000`)).status).toBe(429);
});
