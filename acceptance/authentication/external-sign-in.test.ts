/** Sign-in at another provider as the interface describes it (section 4.1), with a real OpenID provider. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { createBrowser } from '../../test/support/providers/browser.ts';
import {
  type OpenidProvider,
  startOpenidProvider,
} from '../../test/support/providers/openid-provider.ts';

let platform: TestPlatform;
let provider: OpenidProvider;
const app = 'https://app.example.com/home';

beforeAll(async () => {
  platform = await createTestPlatform();
  const user = { sub: 'person-1', email: 'person@corp.example', email_verified: true };
  provider = await startOpenidProvider(
    [`${platform.addresses.client}/hook/authentication/google`],
    user,
  );
  const { issuer, clientId, clientSecret } = provider;
  await configure('authentication', {
    externalSignIn: { allowInternalAddresses: true },
    google: { enabled: true, issuer, clientId, clientSecret, redirect_uri: app },
  });
});
afterAll(async () => {
  await platform.close();
  await provider.close();
});

async function configure(module: string, config: object) {
  const answer = await platform.admin.patch(`/config/${module}`, { config });
  expect(answer, answer.text).toMatchObject({ status: 200 });
}

async function signIn(headers: Record<string, string> = {}) {
  const browser = createBrowser(platform.client);
  const { url } = await browser.start('google', {}, headers);
  const back = await browser.follow(url.href, `${platform.addresses.client}/hook/`);
  return browser.back('google', Object.fromEntries(back.searchParams));
}

const tokenOf = (answer: { readonly headers: Headers }) =>
  new URL(answer.headers.get('location') ?? '').searchParams.get('accessToken') ?? '';

test('init answers the address that starts the sign-in, the hook leads to the app with tokens', async () => {
  const { body } = await platform.client.get('/authentication/init/google', {
    headers: { 'sec-fetch-site': 'same-origin' },
  });
  expect(body).toEqual({ result: expect.stringContaining(`${provider.issuer}/auth?`) });
  const forPrograms = (await platform.client.get('/authentication/init/google')).body.result;
  expect((await fetch(forPrograms, { redirect: 'manual' })).headers.get('location')).toContain(
    `${provider.issuer}/auth?`,
  );

  const answer = await signIn();
  expect(answer.status).toBe(302);
  expect(answer.headers.get('location')).toMatch(
    /^https:\/\/app\.example\.com\/home\?accessToken=.+&refreshToken=/,
  );
  const user = await platform.client.get('/authentication/user', { token: tokenOf(answer) });
  expect(user.body).toMatchObject({ email: 'person@corp.example', isVerified: true, active: true });
});

test('with client validation on, the session belongs to the app that started, though the hook needs no headers', async () => {
  const made = await platform.admin.post('/router/security/client', {
    platform: 'ANDROID',
    alias: 'phone',
  });
  expect(made, made.text).toMatchObject({ status: 200 });
  const { clientId: clientid, clientSecret: clientsecret } = made.body;
  await configure('router', { security: { clientValidation: true } });
  expect((await platform.client.get('/authentication/init/google')).status).toBe(401);
  const answer = await signIn({ clientid, clientsecret });
  const mine = platform.client.with({ clientid, clientsecret });
  expect((await mine.get('/authentication/user', { token: tokenOf(answer) })).status).toBe(200);
  await configure('router', { security: { clientValidation: false } });
});
