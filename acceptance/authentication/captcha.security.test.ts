/** Captchas that can be skipped by leaving their token out (spec/authentication.md W13), or that pass while nobody checks them (CWE-636). */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

/** The service at which tokens are checked: what it was asked, and what it answers next. */
const service = { asked: [] as URLSearchParams[], answer: {} as unknown, status: 200 };
let server: Server;
let platform: TestPlatform;

const credentials = { email: 'ada@example.com', password: 'correct horse battery staple' };
const configure = (module: string, config: object) =>
  platform.admin.patch(`/config/${module}`, { config });
const login = (more: object = {}, options: object = {}) =>
  platform.client.post('/authentication/local', { ...credentials, ...more }, options);

beforeAll(async () => {
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += String(chunk);
    });
    request.on('end', () => {
      service.asked.push(new URLSearchParams(body));
      response
        .writeHead(service.status, { 'content-type': 'application/json' })
        .end(JSON.stringify(service.answer));
    });
  }).listen(0, '127.0.0.1');
  platform = await createTestPlatform();
  await platform.client.post('/authentication/local/new', credentials);
  const verifyUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/siteverify`;
  expect(
    (await configure('router', { captcha: { enabled: true, secretKey: 'the secret', verifyUrl } }))
      .status,
  ).toBe(200);
  expect(
    (
      await configure('authentication', {
        captcha: { enabled: true, routes: { login: true, register: true, oAuth2: true } },
      })
    ).status,
  ).toBe(200);
});
afterAll(async () => {
  await platform.close();
  server.closeAllConnections();
  server.close();
});

test('without a token nothing is tried, whatever the password', async () => {
  expect(await login()).toMatchObject({ status: 403, body: { code: 'CAPTCHA_REQUIRED' } });
  expect(await login({ captchaToken: '' })).toMatchObject({
    status: 403,
    body: { code: 'CAPTCHA_REQUIRED' },
  });
  expect(
    (
      await platform.client.post('/authentication/local/new', {
        ...credentials,
        email: 'new@example.com',
      })
    ).body,
  ).toMatchObject({
    code: 'CAPTCHA_REQUIRED',
  });
  expect(service.asked).toHaveLength(0);
});

test.each(['recaptcha', 'hcaptcha', 'turnstile'])(
  '%s: the token is checked by POST with the secret, from the body, the query or a header',
  async (provider) => {
    await configure('router', { captcha: { provider } });
    service.answer = {
      success: true,
      hostname: 'app.example.com',
      challenge_ts: '2026-01-01T00:00:00Z',
    };
    service.asked.length = 0;
    expect((await login({ captchaToken: 'from the body' })).status).toBe(200);
    expect((await login({}, { query: { captchaToken: 'from the query' } })).status).toBe(200);
    expect((await login({}, { headers: { captchatoken: 'from a header' } })).status).toBe(200);
    expect(service.asked.map((asked) => asked.get('response'))).toEqual([
      'from the body',
      'from the query',
      'from a header',
    ]);
    expect(service.asked[0]?.get('secret')).toBe('the secret');
    expect(service.asked[0]?.get('remoteip')).toBe('127.0.0.1');
  },
);

test('a token that the service refuses, of another site or with a low score is refused', async () => {
  const refused = { status: 403, body: { code: 'CAPTCHA_FAILED' } };
  service.answer = { success: false, 'error-codes': ['timeout-or-duplicate'] };
  expect(await login({ captchaToken: 'used' })).toMatchObject(refused);
  for (const success of ['true', 1, null, {}]) {
    service.answer = { success };
    expect(await login({ captchaToken: 'odd' })).toMatchObject(refused);
  }
  await configure('router', { captcha: { provider: 'recaptcha' } });
  service.answer = { success: true, score: 0.1 };
  expect(await login({ captchaToken: 'machine' })).toMatchObject(refused);
  await configure('router', { captcha: { hostnames: ['app.example.com'] } });
  service.answer = { success: true, hostname: 'evil.example' };
  expect(await login({ captchaToken: 'elsewhere' })).toMatchObject(refused);
  await configure('router', { captcha: { hostnames: [] } });
  expect(await login({ captchaToken: 'x'.repeat(9_000) })).toMatchObject({ status: 400 });
});

const askForText = (more: object) =>
  platform.client.post('/authentication/metamask/nonce', {
    ethPublicAddress: `0x${'a'.repeat(40)}`,
    ...more,
  });

test('an account by wallet takes a captcha like any other', async () => {
  await configure('authentication', { metamask: { enabled: true } });
  expect(await askForText({})).toMatchObject({ status: 403, body: { code: 'CAPTCHA_REQUIRED' } });
  service.answer = { success: true };
  expect((await askForText({ captchaToken: 'good' })).status).toBe(200);
});

test('the score of hCaptcha is a risk, not a merit: what counts is its verdict', async () => {
  await configure('router', { captcha: { provider: 'hcaptcha' } });
  service.answer = { success: true, score: 0 };
  expect((await askForText({ captchaToken: 'a person' })).status).toBe(200);
  service.answer = { success: false, score: 1 };
  expect((await askForText({ captchaToken: 'a machine' })).status).toBe(403);
});

test('while the service does not answer, or not to us, nobody passes', async () => {
  const unavailable = { status: 503, body: { code: 'CAPTCHA_UNAVAILABLE' } };
  service.answer = { success: false, 'error-codes': ['invalid-input-secret'] };
  expect(await login({ captchaToken: 'x' })).toMatchObject(unavailable);
  service.answer = [];
  service.status = 500;
  const answer = await login({ captchaToken: 'x' });
  expect(answer).toMatchObject(unavailable);
  expect(answer.headers.get('retry-after')).toBe('30');
  service.status = 200;
});

test('GraphQL asks too, and the documents name the argument', async () => {
  const query =
    'mutation ($params: postAuthenticationLocalRequest!) { postAuthenticationLocal(params: $params) { userId } }';
  const ask = (params: object) =>
    platform.client.post('/graphql', { query, variables: { params } });
  expect((await ask(credentials)).text).toContain('CAPTCHA_REQUIRED');
  service.answer = { success: true };
  expect((await ask({ ...credentials, captchaToken: 'good' })).text).toContain('userId');
});

test('registered apps are asked as their platform says', async () => {
  const app = async (body: object) => {
    const { clientId, clientSecret } = (await platform.admin.post('/router/security/client', body))
      .body;
    return { headers: { clientid: clientId as string, clientsecret: clientSecret as string } };
  };
  const [web, android, phone] = [
    await app({ platform: 'WEB', domain: '*' }),
    await app({ platform: 'ANDROID' }),
    await app({ platform: 'IOS' }),
  ];
  await configure('router', { security: { clientValidation: true } });
  const statuses = async () =>
    Promise.all([web, android, phone].map(async (options) => (await login({}, options)).status));
  expect(await statuses()).toEqual([403, 200, 200]);
  await configure('authentication', {
    captcha: { acceptablePlatform: { android: true, web: false } },
  });
  expect(await statuses()).toEqual([200, 403, 200]);
  await configure('router', { security: { clientValidation: false } });
});

test('the secret is masked, needed, and the address is for the super admin', async () => {
  expect((await platform.admin.get('/config/router')).text).not.toContain('the secret');
  const answer = await configure('router', { captcha: { enabled: true, secretKey: '' } });
  expect(answer.status).toBe(400);
  expect(answer.text).toContain('captcha.secretKey');
});

test('switched off in the router, none is asked for', async () => {
  await configure('router', { captcha: { enabled: false } });
  expect((await login()).status).toBe(200);
});
