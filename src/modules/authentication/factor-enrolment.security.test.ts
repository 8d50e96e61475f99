/**
 * Who must set a second factor up has proven one factor only: what they may add with that, and what not
 * (https://cwe.mitre.org/data/definitions/308.html).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
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
  await fixture.node.configure((config) => ({
    ...config,
    passkeys: { ...config.passkeys, enabled: true },
  }));
});
afterAll(() => fixture.close());

const configure = (twoFa: object) =>
  fixture.node.configure((config) => ({
    ...config,
    twoFa: { ...config.twoFa, enabled: true, ...twoFa },
  }));
const everyMethod = { authenticator: true, sms: true, passkey: true };
const noMethod = { authenticator: false, sms: false, passkey: false };
const call = (id: string, request: TestRequest = {}): Promise<TestAnswer> =>
  fixture.node.call(`authentication.${id}`, request);
const login = async (email: string) =>
  (await call('local.login', { body: { email, password } })).body;

let serial = 0;
const register = async () => {
  serial += 1;
  const email = `owing${serial}@factors.example`;
  await call('local.register', { body: { email, password } });
  return { email, userId: (await login(email)).userId as string };
};
const addPasskey = (userId: string) =>
  fixture.database.query({
    text: `insert into penstock.passkeys (id, user_id, credential_id, public_key, counter, transports, multi_device, backed_up, aaguid, name)
      values (gen_random_uuid(), $1, $2, '\\x00', 0, '{}', false, false, '', 'phone')`,
    values: [userId, `credential-${userId}`],
  });

test('who must set up a factor and has a passkey is asked for that: a password alone adds none beside it', async () => {
  const { email, userId } = await register();
  await addPasskey(userId);
  await configure({ required: true, methods: everyMethod });
  const { accessToken, twoFaEnrolment } = await login(email);
  expect(twoFaEnrolment).toBe(true);
  for (const body of [{}, { method: 'sms', phoneNumber: '+306900000077' }]) {
    expect(await call('twoFa.enable', { bearer: accessToken as string, body })).toMatchObject({
      status: 403,
      body: { code: 'PASSKEY_REQUIRED' },
    });
  }
  await configure({ required: false });
});

test('who must set up a factor begins a passkey with the token of the first step, while they have none and no other factor', async () => {
  const begin = async (email: string) =>
    call('passkeys.begin', { bearer: (await login(email)).accessToken as string });
  const [owing, other] = [await register(), await register()];
  await call('users.update', { params: { id: owing.userId }, body: { requiresTwoFA: true } });
  await fixture.database.query({
    text: `update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = 'authenticator' where "_id" = $1`,
    values: [other.userId],
  });
  await configure({ methods: { ...noMethod, passkey: true } });
  expect(await login(owing.email)).toMatchObject({ twoFaEnrolment: true });
  expect(await begin(owing.email)).toMatchObject({
    status: 200,
    body: { challenge: expect.any(String) },
  });
  expect((await begin(other.email)).status).toBe(401);
  await configure({ methods: { ...everyMethod, passkey: false } });
  expect((await begin(owing.email)).body).toMatchObject({
    code: 'SECOND_FACTOR_METHOD_UNAVAILABLE',
  });
  await addPasskey(owing.userId);
  expect((await begin(owing.email)).body).toMatchObject({ code: 'PASSKEY_REQUIRED' });
});

test('nobody is asked for a factor where there is no method at all', async () => {
  const { email, userId } = await register();
  await call('users.update', { params: { id: userId }, body: { requiresTwoFA: true } });
  await configure({ methods: noMethod });
  expect(await login(email)).toMatchObject({ refreshToken: expect.any(String) });
});
