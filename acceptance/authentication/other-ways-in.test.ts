/** Phones, anonymous users, device keys and wallets over HTTP, as apps use them. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Api } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createTestWallet } from '../../test/support/wallet.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  const on = { enabled: true };
  const config = {
    phoneAuthentication: on,
    anonymousUsers: on,
    biometricAuthentication: on,
    metamask: on,
  };
  expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'configure');
});
afterAll(() => platform.close());

const as = (token: string) => platform.client.with({ authorization: `Bearer ${token}` });

/** The code of the only text message to that number. */
const codeTo = (recipient: string): Promise<string> =>
  waitFor(
    async () => {
      const [message] = (
        await platform.admin.get('/communications/messages', {
          query: { recipient, channel: 'sms' },
        })
      ).body.messages;
      return (
        message &&
        (await platform.admin.get(`/communications/messages/${message._id}`)).body.content.code
      );
    },
    { what: `a text message to ${recipient}` },
  );
const byPhone = async (phone: string, api: Api = platform.client) => {
  const { token } = expectStatus(
    await platform.client.post('/authentication/phone', { phone }),
    200,
    'ask',
  ).body;
  return api.post('/authentication/phone/verify', {
    token,
    code: await codeTo(phone.replaceAll(' ', '')),
  });
};

test('a phone number registers', async () => {
  const { body } = expectStatus(await byPhone('+30 691 234 0001'), 200, 'verify');
  expect(body).toEqual({
    userId: expect.any(String),
    accessToken: expect.any(String),
    refreshToken: expect.any(String),
  });
  const user = (await as(body.accessToken).get('/authentication/user')).body;
  expect(user).toMatchObject({
    _id: body.userId,
    phoneNumber: '+306912340001',
    email: null,
    isAnonymous: false,
  });
});

test('an anonymous user is made without a body and becomes an account by phone', async () => {
  const { body } = expectStatus(
    await platform.client.post('/authentication/local/new/anonymous'),
    200,
    'anonymous',
  );
  expect((await as(body.accessToken).get('/authentication/user')).body).toMatchObject({
    isAnonymous: true,
  });
  const answer = expectStatus(
    await byPhone('+306912340002', as(body.accessToken)),
    200,
    'verify',
  ).body;
  expect(answer.userId).toBe(body.userId);
  expect((await as(answer.accessToken).get('/authentication/user')).body).toMatchObject({
    isAnonymous: false,
  });
  expect((await as(body.accessToken).get('/authentication/user')).status).toBe(401);
});

test('a device enrols its key and signs challenges with it', async () => {
  const { api, userId } = await platform.registerUser();
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const signed = (challenge: string): string =>
    sign('sha256', Buffer.from(challenge), privateKey).toString('base64');
  const der = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const { challenge } = expectStatus(
    await api.post('/authentication/biometrics/enroll', { publicKey: der }),
    200,
    'enrol',
  ).body;
  const { keyId } = expectStatus(
    await api.post('/authentication/biometrics/enroll/verify', {
      encryptedData: signed(challenge),
    }),
    200,
    'confirm',
  ).body;
  // What existing apps sign is refused: it never changes.
  const old = await platform.client.post('/authentication/biometrics', {
    keyId,
    encryptedData: signed(userId),
  });
  expect(old).toMatchObject({ status: 400, body: { errors: [{ path: 'challenge' }] } });
  const asked = expectStatus(
    await platform.client.post('/authentication/biometrics/challenge', { keyId }),
    200,
    'challenge',
  ).body.challenge;
  const answer = await platform.client.post('/authentication/biometrics', {
    keyId,
    challenge: asked,
    encryptedData: signed(asked),
  });
  expect(answer, answer.text).toMatchObject({
    status: 200,
    body: { userId, refreshToken: expect.any(String) },
  });
  expect((await api.get('/authentication/biometrics/keys')).body).toMatchObject({
    count: 1,
    keys: [{ _id: keyId }],
  });
  expect((await api.delete(`/authentication/biometrics/keys/${keyId}`)).status).toBe(200);
});

test('a wallet registers, signs in again, and is listed', async () => {
  const wallet = createTestWallet();
  const { address: ethPublicAddress } = wallet;
  const signIn = async () => {
    const asked = expectStatus(
      await platform.client.post('/authentication/metamask/nonce', { ethPublicAddress }),
      200,
      'nonce',
    ).body;
    expect(asked).toEqual({
      nonce: expect.any(String),
      message: expect.stringContaining(`Nonce: ${asked.nonce}`),
    });
    const proof = { ethPublicAddress, signature: wallet.sign(asked.message) };
    return expectStatus(
      await platform.client.post('/authentication/metamask/authenticate', proof),
      200,
      'authenticate',
    ).body;
  };
  const first = await signIn();
  expect(first).toEqual({
    userId: expect.any(String),
    accessToken: expect.any(String),
    refreshToken: expect.any(String),
  });
  expect((await signIn()).userId).toBe(first.userId);
  const { body } = await as(first.accessToken).get('/authentication/identities');
  expect(body).toMatchObject({
    count: 1,
    identities: [{ provider: 'metamask', subject: ethPublicAddress }],
  });
});

test('what is no address and no signature is 400 and says which; a signature that does not fit is 401', async () => {
  const { address: ethPublicAddress, sign: personalSign } = createTestWallet();
  const authenticate = (body: object) =>
    platform.client.post('/authentication/metamask/authenticate', body);
  const right = personalSign('something else');
  for (const wrong of [
    '',
    'me',
    ethPublicAddress.slice(0, -1),
    `${ethPublicAddress}0`,
    '0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    1,
  ]) {
    const expected = { status: 400, body: { errors: [{ path: 'ethPublicAddress' }] } };
    expect(
      await platform.client.post('/authentication/metamask/nonce', { ethPublicAddress: wrong }),
    ).toMatchObject(expected);
    expect(await authenticate({ ethPublicAddress: wrong, signature: right })).toMatchObject(
      expected,
    );
  }
  for (const signature of [
    '',
    '0x',
    right.slice(0, -2),
    `${right.slice(0, -2)}1d`,
    `${right}00`,
    right.slice(2),
  ])
    expect(await authenticate({ ethPublicAddress, signature })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'signature' }] },
    });
  expect(await authenticate({ ethPublicAddress, signature: right })).toMatchObject({
    status: 401,
    body: { code: 'WALLET_REFUSED' },
  });
});

test('wallets sign for an origin; their name is no name for another provider', async () => {
  const patch = (config: object) => platform.admin.patch('/config/authentication', { config });
  for (const origin of [
    'app.example.com',
    'https://app.example.com/',
    'https://App.example.com',
    'ftp://app.example.com',
    'https://a\nb',
  ])
    expect(await patch({ metamask: { origin } })).toMatchObject({ status: 400 });
  const oidc = {
    metamask: {
      enabled: true,
      clientId: 'app',
      clientSecret: 'secret',
      issuer: 'https://id.example.com',
    },
  };
  expect(await patch({ oidc })).toMatchObject({ status: 400 });
});
