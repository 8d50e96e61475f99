/**
 * Signing in with what an app got from a provider's SDK. A token made for another app must not sign in its
 * owner here: GHSA-48mh-j4p5-7j9v, GHSA-x6fw-778m-wr9v (Parse, audience unchecked), spec W4.
 */
import { generateKeyPairSync } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { createVerifier } from 'fast-jwt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { createBrowser } from '../../../test/support/providers/browser.ts';
import {
  type FakeProvider,
  foreignKey,
  type SeenRequest,
  startFakeProvider,
} from '../../../test/support/providers/fake-provider.ts';
import { sha256 } from '../../kernel/security/tokens.ts';

let platform: TestPlatform;
let fake: FakeProvider;
const appleKey = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const webClient = 'com.example.web';
const iosClient = 'com.example.ios';
const appleIssuer = 'https://appleid.apple.com';

beforeAll(async () => {
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  fake = await startFakeProvider();
  const jwksUrl = `${fake.url}/keys`;
  const config = {
    externalSignIn: { allowInternalAddresses: true },
    google: {
      enabled: true,
      clientId: 'web.apps.example',
      clientSecret: 'g',
      jwksUrl,
      audiences: ['ios.apps.example'],
    },
    facebook: {
      enabled: true,
      clientId: '4711',
      clientSecret: 'fb-secret',
      userInfoUrl: `${fake.url}/v24.0/me`,
    },
    apple: {
      enabled: true,
      clientId: webClient,
      audiences: [iosClient],
      teamId: 'TEAM',
      keyId: 'KEY',
      // As it comes out of an environment variable.
      privateKey: appleKey.privateKey
        .export({ format: 'pem', type: 'pkcs8' })
        .toString()
        .replaceAll('\n', '\\n'),
      tokenUrl: `${fake.url}/token`,
      jwksUrl,
    },
  };
  const answer = await platform.admin.patch('/config/authentication', { config });
  expect(answer, answer.text).toMatchObject({ status: 200 });
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

const invalid = { status: 401, body: { code: 'EXTERNAL_TOKEN_INVALID' } };
let calls = 0;
/** Every call from an address of its own. */
const post = (path: string, body: unknown, headers: Record<string, string> = {}) => {
  calls += 1;
  return platform.client.post(path, body, {
    headers: { 'x-forwarded-for': `10.9.${calls >> 8}.${calls & 255}`, ...headers },
  });
};

describe('google', () => {
  const token = (more: object = {}) =>
    fake.sign(
      fake.claims({
        iss: 'https://accounts.google.com',
        aud: 'web.apps.example',
        sub: 'g-1',
        email: 'g@example.com',
        email_verified: true,
        ...more,
      }),
    );
  const signIn = (id_token: string, more: object = {}) =>
    post('/authentication/google', { id_token, ...more });

  test('a token for this app signs in, also one of its mobile clients and of the old issuer', async () => {
    const answer = await signIn(token());
    expect(answer).toMatchObject({
      status: 200,
      body: { userId: expect.any(String), accessToken: expect.any(String) },
    });
    expect(
      (await signIn(token({ aud: 'ios.apps.example', azp: 'android.apps.example' }))).body.userId,
    ).toBe(answer.body.userId);
    expect((await signIn(token({ iss: 'accounts.google.com' }))).body.userId).toBe(
      answer.body.userId,
    );
    expect((await signIn(token({ nonce: 'n' }), { nonce: 'n' })).status).toBe(200);
  });

  test.each<[string, () => string, object]>([
    ['made for another app', () => token({ aud: 'another.apps.example' }), {}],
    ['made by somebody else', () => token({ iss: appleIssuer }), {}],
    ['expired', () => token({ exp: 1 }), {}],
    [
      'signed by another key',
      () =>
        fake.sign(fake.claims({ iss: 'https://accounts.google.com', aud: 'web.apps.example' }), {
          key: foreignKey(),
        }),
      {},
    ],
    ['with another nonce than the app gave', () => token({ nonce: 'other' }), { nonce: 'mine' }],
    ['without the nonce that the app gave', () => token(), { nonce: 'mine' }],
    ['no token', () => 'aaa.bbb.ccc', {}],
    ['our own access token', () => 'eyJhbGciOiJFZERTQSJ9.e30.AAAA', {}],
  ])('%s: refused', async (_name, made, more) => {
    expect(await signIn(made(), more)).toMatchObject(invalid);
  });

  test('an access token alone signs nobody in', async () => {
    const answer = await post('/authentication/google', { access_token: 'of-another-app' });
    expect(answer).toMatchObject({ status: 400, body: { errors: [{ path: 'id_token' }] } });
  });
});

describe('facebook', () => {
  const facts = (data: object) =>
    fake.answers.set('/v24.0/debug_token', {
      data: { app_id: '4711', is_valid: true, user_id: 'f-1', type: 'USER', ...data },
    });
  const profile = (more: object = {}) =>
    fake.answers.set('/v24.0/me', { id: 'f-1', name: 'F', email: 'fb@example.com', ...more });
  const signIn = () => post('/authentication/facebook', { access_token: 'user-token' });

  test('a token of this app signs in; our secret is in no address', async () => {
    facts({});
    profile();
    expect(await signIn()).toMatchObject({ status: 200, body: { userId: expect.any(String) } });
    const { headers, query } = fake.last('/v24.0/debug_token');
    expect(headers.authorization).toBe('Bearer 4711|fb-secret');
    expect([...query.values()].join()).not.toContain('fb-secret');
    expect([...fake.last('/v24.0/me').query.values()].join()).not.toContain('fb-secret');
  });

  test.each<[string, object]>([
    ['a token of another app', { app_id: '4712' }],
    ['a token that has ended', { is_valid: false }],
    ['no word on its validity', { is_valid: undefined }],
    ['a token of another person', { user_id: 'f-2' }],
  ])('%s: refused', async (_name, data) => {
    facts(data);
    profile();
    expect(await signIn()).toMatchObject(invalid);
  });

  test('a profile that Facebook refuses: 401; a Facebook that fails: 503', async () => {
    facts({});
    const status = (code: number) => (_request: SeenRequest, response: ServerResponse) =>
      void response.writeHead(code, { 'content-type': 'application/json' }).end('{"error":{}}');
    fake.answers.set('/v24.0/me', status(400));
    expect(await signIn()).toMatchObject(invalid);
    fake.answers.set('/v24.0/debug_token', status(500));
    expect(await signIn()).toMatchObject({
      status: 503,
      body: { code: 'EXTERNAL_PROVIDER_UNAVAILABLE' },
    });
  });
});

describe('apple in a browser', () => {
  const start = async () => {
    const browser = createBrowser(platform.client);
    return { browser, ...(await browser.start('apple')) };
  };
  const formPost = (fields: Record<string, string>, cookie: string) => {
    calls += 1;
    return fetch(`${platform.addresses.client}/hook/authentication/apple`, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie, 'x-forwarded-for': `10.8.0.${calls & 255}` },
      body: new URLSearchParams(fields),
    });
  };
  const cookieOf = (browser: { cookies: Map<string, string> }) =>
    [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const idToken = (nonce: string | null, more: object = {}) =>
    fake.sign(
      fake.claims({
        iss: appleIssuer,
        aud: webClient,
        sub: 'a-1',
        nonce,
        email: 'relay@privaterelay.example',
        email_verified: 'true',
        ...more,
      }),
    );

  test('the answer comes as a form; the name, which is not signed, is used as a name only', async () => {
    const { browser, url, state } = await start();
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      response_mode: 'form_post',
      scope: 'name email',
      response_type: 'code',
    });
    fake.issue('apple-code', {
      access_token: 'at',
      token_type: 'Bearer',
      id_token: idToken(url.searchParams.get('nonce')),
    });
    const user = JSON.stringify({
      name: { firstName: 'Grace', lastName: 'Hopper' },
      email: 'victim@example.com',
    });
    const forged = fake.sign(
      fake.claims({ iss: appleIssuer, aud: webClient, sub: 'somebody-else' }),
    );
    const answer = await formPost(
      { state, code: 'apple-code', id_token: forged, user },
      cookieOf(browser),
    );
    expect(answer.status).toBe(200);
    const { accessToken: token } = (await answer.json()) as { accessToken: string };
    const { body } = await platform.client.get('/authentication/identities', { token });
    expect(body.identities).toMatchObject([
      {
        provider: 'apple',
        subject: 'a-1',
        email: 'relay@privaterelay.example',
        emailVerified: true,
        data: { name: 'Grace Hopper' },
      },
    ]);
  });

  test('the client secret is a short token that the configured key signs', async () => {
    const secret = fake.last('/token').form.get('client_secret') ?? '';
    const pem = appleKey.publicKey.export({ format: 'pem', type: 'spki' }).toString();
    const claims = createVerifier({ key: pem, algorithms: ['ES256'] })(secret) as Record<
      string,
      number | string
    >;
    expect(claims).toMatchObject({ iss: 'TEAM', sub: webClient, aud: appleIssuer });
    expect(Number(claims.exp) - Number(claims.iat)).toBeLessThanOrEqual(300);
  });

  test('without the cookie of the browser that began, or by another method, nothing happens', async () => {
    const { state } = await start();
    expect((await formPost({ state, code: 'apple-code' }, '')).status).toBe(400);
    const json = await post('/hook/authentication/apple', { state, code: 'apple-code' });
    expect(json.status).toBe(415);
    expect((await formPost({ code: 'x' }, '')).status).toBe(400);
  });
});

describe('apple inside an app', () => {
  const start = async (): Promise<{ state: string; nonce: string }> =>
    (await createBrowser(platform.client).get('/authentication/initNative/apple')).body;
  const token = (more: object) =>
    fake.sign(
      fake.claims({
        iss: appleIssuer,
        aud: iosClient,
        sub: 'n-1',
        email: 'n@example.com',
        email_verified: true,
        ...more,
      }),
    );
  const finish = async (presented: object, redeemed: object, state: string) => {
    fake.issue('native-code', {
      access_token: 'at',
      token_type: 'Bearer',
      id_token: token(redeemed),
    });
    return post('/authentication/native/apple', {
      code: 'native-code',
      id_token: token(presented),
      state,
    });
  };

  test('starts with what the app needs', async () => {
    const answer = await platform.client.get('/authentication/initNative/apple');
    expect(answer.body).toEqual({
      client_id: webClient,
      redirect_uri: `${platform.addresses.client}/hook/authentication/apple`,
      scope: 'name email',
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect((await platform.client.get('/authentication/initNative/google')).status).toBe(404);
  });

  test('signs in by an ID token and a code of the same person, with the nonce as it is, hashed, or unused', async () => {
    const users = new Set<string>();
    for (const nonceOf of [(nonce: string) => nonce, sha256, () => undefined]) {
      const { state, nonce } = await start();
      const answer = await finish({ nonce: nonceOf(nonce) }, {}, state);
      expect(answer, answer.text).toMatchObject({ status: 200 });
      users.add(answer.body.userId);
      expect(fake.last('/token').form.get('client_id')).toBe(iosClient);
      expect(fake.last('/token').form.has('redirect_uri')).toBe(false);
    }
    expect(users.size).toBe(1);
  });

  test.each<[string, object, object]>([
    ['an ID token for another app', { aud: 'com.evil.app' }, {}],
    ['an ID token of another sign-in', { nonce: 'stolen' }, {}],
    ['a code of another person', {}, { sub: 'n-2' }],
    ['an ID token of another issuer', { iss: 'https://accounts.google.com' }, {}],
    ['a code that was made for another app', {}, { aud: 'com.evil.app' }],
  ])('%s: refused', async (_name, presented, redeemed) => {
    const { state } = await start();
    expect(await finish(presented, redeemed, state)).toMatchObject(invalid);
  });

  test('the state works once, and only here', async () => {
    const { state } = await start();
    expect((await finish({}, {}, state)).status).toBe(200);
    expect(await finish({}, {}, state)).toMatchObject({
      status: 400,
      body: { code: 'EXTERNAL_STATE_INVALID' },
    });
    const { state: another } = await start();
    expect(
      (await createBrowser(platform.client).back('apple', { state: another, code: 'native-code' }))
        .status,
    ).toBe(400);
    const web = await createBrowser(platform.client).start('apple');
    expect((await finish({}, {}, web.state)).status).toBe(400);
  });
});
