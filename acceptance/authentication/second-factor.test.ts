/** The second factor as existing clients use it: both spellings of each route, over HTTP. */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await configure({ twoFa: { enabled: true, methods: { sms: true } } });
});
afterAll(() => platform.close());

const configure = async (config: object) =>
  expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'configure');
const as = (token: string) => platform.client.with({ authorization: `Bearer ${token}` });
const codeOf = (secret: string, steps = 0): string =>
  generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + steps * 30 });
const partial = async ({ email, password }: { email: string; password: string }) =>
  as((await platform.client.post('/authentication/local', { email, password })).body.accessToken);

test('enable without a body is an authenticator; POST and PUT, verify, backup codes, recover, disable', async () => {
  const user = await platform.registerUser();
  const begun = expectStatus(
    await user.api.post('/authentication/twoFa/enable'),
    200,
    'enable',
  ).body;
  expect(begun).toEqual({
    result: expect.stringMatching(/^data:image\/png;base64,/),
    secret: expect.any(String),
    uri: expect.stringMatching(/^otpauth:\/\/totp\//),
    qrCode: expect.any(String),
  });
  const { secret } = expectStatus(
    await user.api.put('/authentication/twoFa/enable', { method: 'authenticator' }),
    200,
    'enable',
  ).body;
  const confirmed = await user.api.post('/authentication/twoFa/enable/verify', {
    code: codeOf(secret),
  });
  expect(confirmed).toMatchObject({ status: 200, body: { result: '2FA enabled' } });
  expect((await user.api.put('/authentication/twoFa/enable')).body).toEqual({
    result: '2FA already enabled',
  });

  const { codes } = expectStatus(
    await user.api.post('/authentication/twoFa/backup-codes'),
    200,
    'backup codes',
  ).body;
  expect(codes).toHaveLength(10);
  const again = expectStatus(await user.api.get('/authentication/twoFa/generate'), 200, 'generate')
    .body.codes;
  expect(again).not.toEqual(codes);

  const step = await partial(user);
  for (const path of ['/authentication/user', '/authentication/sessions'])
    expect((await step.get(path)).status, path).toBe(401);
  expect((await step.put('/authentication/twoFa/disable')).status).toBe(401);
  expect((await step.post('/authentication/twoFa/backup-codes')).status).toBe(401);
  const whole = expectStatus(
    await step.post('/authentication/twoFa/verify', { code: codeOf(secret, 1) }),
    200,
    'verify',
  ).body;
  expect(whole).toEqual({
    userId: user.userId,
    accessToken: expect.any(String),
    refreshToken: expect.any(String),
  });

  const recovery = await partial(user);
  expect((await recovery.post('/authentication/twoFa/recover', { code: '12' })).status).toBe(400);
  const recovered = expectStatus(
    await recovery.post('/authentication/twoFa/recover', { code: again[0] }),
    200,
    'recover',
  ).body;
  expect(recovered).toMatchObject({
    userId: user.userId,
    message: 'You have 9 recovery codes left',
  });
  expect((await as(recovered.accessToken).post('/authentication/twoFa/disable')).body).toEqual({
    result: '2FA disabled',
  });
  expect((await as(recovered.accessToken).put('/authentication/twoFa/disable')).body).toEqual({
    result: '2FA already disabled',
  });
});

test('codes by text message, that an operator reads in the sandbox', async () => {
  const user = await platform.registerUser();
  const phone = '+306912345600';
  const code = (nth: number): Promise<string> =>
    waitFor(
      async () => {
        const list = (
          await platform.admin.get('/communications/messages', {
            query: { recipient: phone, channel: 'sms' },
          })
        ).body.messages;
        const message = list.length === nth ? list[0] : undefined;
        return (
          message &&
          (await platform.admin.get(`/communications/messages/${message._id}`)).body.content.code
        );
      },
      { what: `text message ${nth}` },
    );
  const begun = await user.api.post('/authentication/twoFa/enable', {
    method: 'sms',
    phoneNumber: phone,
  });
  expect(begun, begun.text).toMatchObject({
    status: 200,
    body: { result: expect.stringContaining('code was sent') },
  });
  expectStatus(
    await user.api.post('/authentication/twoFa/enable/verify', { code: await code(1) }),
    200,
    'confirm',
  );
  const step = await partial(user);
  expect((await step.post('/authentication/twoFa/authorize')).body).toMatchObject({
    method: 'sms',
    message: expect.stringContaining('+30'),
  });
  const answer = await step.post('/authentication/twoFa/verify', { code: await code(2) });
  expect(answer, answer.text).toMatchObject({ status: 200, body: { userId: user.userId } });
});

test('the GET that makes codes takes no cookie: a browser would follow it from anywhere', async () => {
  const user = await platform.registerUser();
  await configure({ accessTokens: { setCookie: true } });
  const cookie = `__Host-accessToken=${user.accessToken}`;
  const answer = await platform.client.get('/authentication/twoFa/generate', {
    headers: { cookie },
  });
  expect(answer).toMatchObject({ status: 403, body: { code: 'CSRF_REFUSED' } });
  await configure({ accessTokens: { setCookie: false } });
});

test('routes that switch it on are there only while it can be switched on', async () => {
  const user = await platform.registerUser();
  await configure({ twoFa: { enabled: false } });
  expect((await user.api.post('/authentication/twoFa/enable')).status).toBe(404);
  expect((await user.api.get('/authentication/twoFa/generate')).status).toBe(404);
  expect((await user.api.post('/authentication/twoFa/authorize')).status).toBe(404);
  const refused = await platform.admin.patch('/config/authentication', {
    config: { twoFa: { required: true } },
  });
  expect(refused).toMatchObject({
    status: 400,
    body: { errors: [{ path: expect.stringContaining('twoFa.required') }] },
  });
});
