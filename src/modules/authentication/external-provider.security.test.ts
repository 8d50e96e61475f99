/**
 * A hostile provider, and hostile people around an honest one. Issuer, audience and algorithm confusion:
 * CVE-2026-31813 (Supabase), GHSA-4q3h-vp4r-prv2, GHSA-x6fw-778m-wr9v (Parse). State and PKCE:
 * GHSA-x445-f3h2-j279 (Auth.js), GHSA-86j7-9j95-vpqj (better-auth). Mix-up: RFC 9207.
 */
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { createBrowser } from '../../../test/support/providers/browser.ts';
import {
  type FakeAnswer,
  type FakeProvider,
  foreignKey,
  type SeenRequest,
  startFakeProvider,
} from '../../../test/support/providers/fake-provider.ts';

let platform: TestPlatform;
let fake: FakeProvider;
let other: FakeProvider;

beforeAll(async () => {
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  [fake, other] = await Promise.all([startFakeProvider(), startFakeProvider()]);
  const settings = (one: FakeProvider) => ({
    enabled: true,
    issuer: one.url,
    clientId: one.clientId,
    clientSecret: one.clientSecret,
  });
  const config = {
    externalSignIn: { allowInternalAddresses: true },
    oidc: { fake: settings(fake), other: settings(other) },
  };
  expect(await platform.admin.patch('/config/authentication', { config })).toMatchObject({
    status: 200,
  });
});
afterAll(async () => {
  await platform.close();
  await Promise.all([fake.close(), other.close()]);
});
beforeEach(() => {
  fake.answers.set('/userinfo', { sub: 'subject-1' });
});

/** A whole sign-in whose ID token holds what the test says; `nonce` is the right one unless it says otherwise. */
async function signInWith(
  token: (nonce: string) => string,
): Promise<{ status: number; code: string | undefined }> {
  const browser = createBrowser(platform.client);
  const { url, state } = await browser.start('fake');
  fake.answers.set('/token', {
    access_token: 'at',
    token_type: 'Bearer',
    id_token: token(url.searchParams.get('nonce') ?? ''),
  });
  const { status, body } = await browser.back('fake', { state, code: 'c' });
  return { status, code: body?.code };
}

const withClaims = (more: object) => (nonce: string) => fake.sign(fake.claims({ nonce, ...more }));
const now = () => Math.floor(Date.now() / 1000);
const refused = { status: 401, code: 'EXTERNAL_TOKEN_INVALID' };

test('the honest answer is accepted, so that the refusals below mean something', async () => {
  expect(await signInWith(withClaims({}))).toEqual({ status: 200, code: undefined });
});

test('half a character, where the provider has cut a name in an emoji, keeps nobody out', async () => {
  const cut = { name: 'Ann \ud83d', picture: 'https://pictures.example/\ud83d' };
  const email = 'cut@provider.example';
  expect(await signInWith(withClaims({ sub: 'cut', email, ...cut }))).toEqual({
    status: 200,
    code: undefined,
  });
  // Of an id nothing may be guessed.
  expect((await signInWith(withClaims({ sub: 'cut\ud83d', email }))).status).toBe(503);
});

describe('ID tokens that are refused', () => {
  test.each<[string, () => object]>([
    ['another issuer', () => ({ iss: 'https://evil.example' })],
    ['the issuer of another provider here', () => ({ iss: other.url })],
    ['another audience', () => ({ aud: 'another-client' })],
    [
      'several audiences without an authorized party',
      () => ({ aud: ['fake-client', 'another-client'] }),
    ],
    [
      'several audiences, issued to another one',
      () => ({ aud: ['fake-client', 'another-client'], azp: 'another-client' }),
    ],
    ['no audience', () => ({ aud: undefined })],
    ['expired', () => ({ exp: now() - 600 })],
    ['without an end', () => ({ exp: undefined })],
    ['issued in the future', () => ({ iat: now() + 600, exp: now() + 1200 })],
    ['not valid yet', () => ({ nbf: now() + 600 })],
    ['times that are text', () => ({ exp: String(now() + 300) })],
    ['no subject', () => ({ sub: undefined })],
    ['an empty subject', () => ({ sub: '' })],
    ['another nonce', () => ({ nonce: 'another' })],
    ['no nonce', () => ({ nonce: undefined })],
  ])('%s', async (_name, claims) => {
    expect(await signInWith(withClaims(claims()))).toEqual(refused);
  });

  const unsigned = (header: object, claims: object): string =>
    [header, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
  const hmac = (text: string, secret: string): string =>
    `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;

  test.each<[string, (nonce: string) => string]>([
    ['algorithm none', (nonce) => `${unsigned({ alg: 'none' }, fake.claims({ nonce }))}.`],
    [
      'algorithm None with a signature',
      (nonce) => `${unsigned({ alg: 'None' }, fake.claims({ nonce }))}.AAAA`,
    ],
    [
      'HS256 with the public key as secret',
      (nonce) =>
        hmac(unsigned({ alg: 'HS256', kid: 'fake-1' }, fake.claims({ nonce })), fake.publicKeyPem),
    ],
    [
      'HS256 with the client secret',
      (nonce) =>
        hmac(unsigned({ alg: 'HS256', kid: 'fake-1' }, fake.claims({ nonce })), fake.clientSecret),
    ],
    [
      'signed by somebody else',
      (nonce) => fake.sign(fake.claims({ nonce }), { key: foreignKey() }),
    ],
    [
      'a key that nobody published',
      (nonce) =>
        fake.sign(fake.claims({ nonce }), { header: { kid: '../../fake-1' }, key: foreignKey() }),
    ],
    [
      'its own key in the header',
      (nonce) =>
        fake.sign(fake.claims({ nonce }), {
          header: { kid: 'mine', jku: 'http://127.0.0.1:1/keys', jwk: {} },
          key: foreignKey(),
        }),
    ],
    [
      'a claim of ES256 for an RSA key',
      (nonce) => fake.sign(fake.claims({ nonce }), { header: { alg: 'ES256' } }),
    ],
    [
      'a critical extension',
      (nonce) => fake.sign(fake.claims({ nonce }), { header: { crit: ['b64'], b64: false } }),
    ],
    [
      'a payload changed after signing',
      (nonce) =>
        fake
          .sign(fake.claims({ nonce }))
          .replace(
            /\.[^.]+\./,
            `.${Buffer.from(JSON.stringify(fake.claims({ nonce, sub: 'admin' }))).toString('base64url')}.`,
          ),
    ],
    ['no token at all', () => 'not a token'],
    ['an endless token', () => `a.${'b'.repeat(20_000)}.c`],
  ])('%s', async (_name, token) => {
    expect(await signInWith(token)).toEqual(refused);
  });

  test('an answer without an ID token', async () => {
    const browser = createBrowser(platform.client);
    const { state } = await browser.start('fake');
    fake.answers.set('/token', { access_token: 'at', token_type: 'Bearer' });
    expect(await browser.back('fake', { state, code: 'c' })).toMatchObject({
      status: 401,
      body: { code: 'EXTERNAL_TOKEN_INVALID' },
    });
  });

  test('a profile about another subject than the ID token', async () => {
    fake.answers.set('/userinfo', {
      sub: 'somebody-else',
      email: 'victim@example.com',
      email_verified: true,
    });
    expect(await signInWith(withClaims({ sub: 'subject-userinfo' }))).toMatchObject({
      status: 503,
      code: 'EXTERNAL_PROVIDER_UNAVAILABLE',
    });
  });
});

describe('answers that are none', () => {
  const reply =
    (status: number, headers: Record<string, string>, body: string): FakeAnswer =>
    (_request: SeenRequest, response: import('node:http').ServerResponse) =>
      void response.writeHead(status, headers).end(body);
  const json = { 'content-type': 'application/json' };

  test.each<[string, () => FakeAnswer, number]>([
    ['text that is not JSON', () => reply(200, json, '<html>'), 503],
    ['a list', () => reply(200, json, '[]'), 503],
    ['null', () => reply(200, json, 'null'), 503],
    [
      'a body without end',
      () => reply(200, json, `{"access_token":"${'a'.repeat(600_000)}"}`),
      503,
    ],
    [
      'a redirect to somewhere else',
      () => reply(302, { location: 'http://169.254.169.254/latest/meta-data' }, ''),
      503,
    ],
    ['an empty answer', () => reply(204, {}, ''), 503],
    ['a failure of its own', () => reply(500, {}, 'stack trace'), 503],
    ['our client is not known', () => reply(401, json, '{"error":"invalid_client"}'), 503],
    ['the code is not known', () => reply(400, json, '{"error":"invalid_grant"}'), 400],
    ['a refusal with status 200', () => reply(200, json, '{"error":"bad_verification_code"}'), 400],
    [
      'a cut connection',
      () => (_request: SeenRequest, response: import('node:http').ServerResponse) =>
        void response.destroy(),
      503,
    ],
    [
      'numbers for texts',
      () => reply(200, json, '{"access_token":1,"token_type":2,"id_token":3}'),
      503,
    ],
  ])('%s', async (_name, answer, status) => {
    const browser = createBrowser(platform.client);
    const { state } = await browser.start('fake');
    fake.answers.set('/token', answer());
    const got = await browser.back('fake', { state, code: 'c' });
    expect(got, got.text).toMatchObject({
      status,
      body: { code: expect.stringMatching(/^EXTERNAL_/), requestId: expect.any(String) },
    });
    expect(got.text).not.toContain('stack trace');
    if (status === 503) expect(got.headers.get('retry-after')).toBeTruthy();
    expect(fake.seen.some(({ path }) => path.includes('meta-data'))).toBe(false);
  });
});

describe('the state', () => {
  beforeEach(() => {
    fake.answers.set('/token', { access_token: 'at', token_type: 'Bearer', id_token: 'x' });
  });
  const invalid = { status: 400, body: { code: 'EXTERNAL_STATE_INVALID' } };

  test('works once under 50 parallel uses', async () => {
    const browser = createBrowser(platform.client);
    const { url, state } = await browser.start('fake');
    fake.answers.set('/token', {
      access_token: 'at',
      token_type: 'Bearer',
      id_token: fake.sign(fake.claims({ nonce: url.searchParams.get('nonce') })),
    });
    const before = fake.seen.filter(({ path }) => path === '/token').length;
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => browser.back('fake', { state, code: 'c' })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(49);
    expect(fake.seen.filter(({ path }) => path === '/token')).toHaveLength(before + 1);
  });

  test('of another browser, or of none, is refused (login CSRF)', async () => {
    const attacker = createBrowser(platform.client);
    const { state } = await attacker.start('fake');
    const victim = createBrowser(platform.client);
    await victim.start('fake');
    expect(await victim.back('fake', { state, code: 'attackers-code' })).toMatchObject(invalid);
    const { state: second } = await attacker.start('fake');
    expect(
      await createBrowser(platform.client).back('fake', { state: second, code: 'c' }),
    ).toMatchObject(invalid);
    expect(await attacker.back('fake', { state: second, code: 'c' })).toMatchObject(invalid);
  });

  test('of another provider is refused (mix-up)', async () => {
    const browser = createBrowser(platform.client);
    const { state } = await browser.start('fake');
    await browser.start('other');
    expect(await browser.back('other', { state, code: 'c' })).toMatchObject(invalid);
    expect(other.seen.some(({ path }) => path === '/token')).toBe(false);
  });

  test('an answer in the name of another issuer is refused before the code goes anywhere', async () => {
    const browser = createBrowser(platform.client);
    const { state } = await browser.start('fake');
    const before = fake.seen.filter(({ path }) => path === '/token').length;
    expect(await browser.back('fake', { state, code: 'c', iss: other.url })).toMatchObject(invalid);
    expect(fake.seen.filter(({ path }) => path === '/token')).toHaveLength(before);
  });

  test('that nobody gave out, and secrets of other kinds, are refused', async () => {
    const browser = createBrowser(platform.client);
    await browser.start('fake');
    const ticket =
      new URL(
        (
          await createBrowser(platform.client).get(
            '/authentication/init/fake',
            {},
            { origin: 'https://app.example' },
          )
        ).body.result,
      ).searchParams.get('ticket') ?? '';
    for (const state of ['x', 'A'.repeat(43), ticket, "' or 1=1 --", '%00']) {
      expect(await browser.back('fake', { state, code: 'c' }), state).toMatchObject(invalid);
    }
    expect(
      (await platform.client.get('/hook/authentication/fake', { query: { code: 'c' } })).body,
    ).toMatchObject({
      status: 400,
      errors: [{ path: 'state' }],
    });
  });

  test('each sign-in has its own state, nonce and PKCE challenge, and the code is sent with the verifier', async () => {
    const browser = createBrowser(platform.client);
    const [one, two] = [(await browser.start('fake')).url, (await browser.start('fake')).url];
    for (const name of ['state', 'nonce', 'code_challenge']) {
      expect(one.searchParams.get(name)).toMatch(/^[\w-]{43,}$/);
      expect(one.searchParams.get(name)).not.toBe(two.searchParams.get(name));
    }
    expect(one.searchParams.get('code_challenge_method')).toBe('S256');
    await browser.back('fake', { state: one.searchParams.get('state') ?? '', code: 'c' });
    const { form } = fake.last('/token');
    const digest = await crypto.subtle.digest(
      'SHA-256',
      Buffer.from(form.get('code_verifier') ?? ''),
    );
    expect(Buffer.from(digest).toString('base64url')).toBe(one.searchParams.get('code_challenge'));
  });

  test('the secret goes into the form, never into an address', async () => {
    for (const { path, query } of fake.seen)
      expect([...query.values()].join(), path).not.toContain(fake.clientSecret);
    expect(fake.last('/token').form.get('client_secret')).toBe(fake.clientSecret);
  });

  test('the cookie is out of reach for scripts and says nothing', async () => {
    const { headers } = await createBrowser(platform.client).get('/authentication/init/fake');
    const [cookie = ''] = headers.getSetCookie();
    expect(cookie).toMatch(
      /^sign-in-fake=[\w-]{43}; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/,
    );
  });
});

test('a person who cancels goes back to the app, other errors of the provider are 400', async () => {
  const browser = createBrowser(platform.client);
  const { state } = await browser.start('fake');
  const answer = await browser.back('fake', {
    state,
    error: 'access_denied',
    error_description: '<script>',
  });
  expect(answer).toMatchObject({ status: 400, body: { code: 'EXTERNAL_SIGN_IN_DENIED' } });
  expect(answer.text).not.toContain('<script>');

  await platform.admin.patch('/config/authentication', {
    config: { oidc: { fake: { redirect_uri: 'https://app.example/end?x=1' } } },
  });
  const second = await browser.start('fake');
  const back = await browser.back('fake', { state: second.state, error: 'access_denied' });
  expect(back.status).toBe(302);
  expect(back.headers.get('location')).toMatch(
    /^https:\/\/app\.example\/end\?x=1&error=access_denied&/,
  );
  await platform.admin.patch('/config/authentication', {
    config: { oidc: { fake: { redirect_uri: '' } } },
  });
});

test.each([
  'https://evil.example',
  '//evil.example',
  'https:evil.example',
  'https://app.example.evil.example',
  'https://app.example@evil.example',
  '\\\\evil.example',
  'javascript:alert(1)',
  'https://app.example\t.evil.example',
  'https://аpp.example/',
])('a redirect to %s is refused at the start', async (redirectUri) => {
  await platform.admin.patch('/config/authentication', {
    config: { redirectUris: { whitelistedUris: ['https://app.example/*'] } },
  });
  const answer = await createBrowser(platform.client).get('/authentication/init/fake', {
    redirectUri,
  });
  expect([400, 403]).toContain(answer.status);
});

test('private and loopback addresses are closed unless the operator opens them; the cloud metadata service always is', async () => {
  const change = (config: object) => platform.admin.patch('/config/authentication', { config });
  expect((await change({ externalSignIn: { allowInternalAddresses: false } })).status).toBe(400);
  const settings = {
    enabled: true,
    clientId: 'x',
    authorizationUrl: 'https://idp.example/a',
    jwksUrl: 'https://idp.example/k',
    issuer: 'https://idp.example',
  };
  for (const tokenUrl of [
    'http://169.254.169.254/token',
    'http://[::ffff:169.254.169.254]/token',
    'http://0.0.0.0/token',
  ]) {
    expect((await change({ oidc: { inner: { ...settings, tokenUrl } } })).status).toBe(200);
    const browser = createBrowser(platform.client);
    const { state } = await browser.start('inner');
    expect(await browser.back('inner', { state, code: 'c' })).toMatchObject({
      status: 503,
      body: { code: 'EXTERNAL_PROVIDER_UNAVAILABLE' },
    });
  }
  await change({ oidc: { inner: { enabled: false } } });
});
