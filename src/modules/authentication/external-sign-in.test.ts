/** Signing in at a real OpenID provider, the whole way: our routes, its pages, its keys. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { createBrowser } from '../../../test/support/providers/browser.ts';
import {
  type OpenidProvider,
  startOpenidProvider,
} from '../../../test/support/providers/openid-provider.ts';
import { silentLog } from '../../../test/support/quiet.ts';
import { connectToSource } from '../../backup/source.ts';

let platform: TestPlatform;
let idp: OpenidProvider;
const app = 'https://app.example.com/signed-in';

beforeAll(async () => {
  platform = await createTestPlatform();
  const callback = `${platform.addresses.client}/hook/authentication/corp`;
  idp = await startOpenidProvider([callback], {
    sub: 'u-1',
    email: 'Ada@Corp.example',
    email_verified: true,
    name: 'Ada Lovelace',
  });
  await configure({
    externalSignIn: { allowInternalAddresses: true },
    redirectUris: { whitelistedUris: [app] },
    oidc: {
      corp: {
        enabled: true,
        issuer: idp.issuer,
        clientId: idp.clientId,
        clientSecret: idp.clientSecret,
      },
    },
  });
});
afterAll(async () => {
  await platform.close();
  await idp.close();
});

async function configure(config: object) {
  const answer = await platform.admin.patch('/config/authentication', { config });
  expect(answer, answer.text).toMatchObject({ status: 200 });
}

/** Through the provider's pages and back to ours. */
async function signIn(query: Record<string, string> = {}, headers: Record<string, string> = {}) {
  const browser = createBrowser(platform.client);
  const { url } = await browser.start('corp', query, headers);
  const back = await browser.follow(url.href, `${platform.addresses.client}/hook/`);
  return browser.back('corp', Object.fromEntries(back.searchParams));
}

test('a stranger becomes a user, with a verified address, and is recognised by their subject afterwards', async () => {
  const first = await signIn();
  expect(first, first.text).toMatchObject({
    status: 200,
    body: {
      userId: expect.any(String),
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
    },
  });
  expect(first.headers.get('cache-control')).toContain('no-store');
  const user = await platform.client.get('/authentication/user', { token: first.body.accessToken });
  expect(user.body).toMatchObject({
    email: 'ada@corp.example',
    isVerified: true,
    isAnonymous: false,
  });

  idp.user = { sub: 'u-1', email: 'another@corp.example', email_verified: true };
  expect((await signIn()).body.userId).toBe(first.body.userId);

  const listed = await platform.client.get('/authentication/identities', {
    token: first.body.accessToken,
  });
  expect(listed.body).toMatchObject({
    count: 1,
    identities: [
      { provider: 'corp', subject: 'u-1', email: 'another@corp.example', emailVerified: true },
    ],
  });
});

test('the app gets tokens in the query, behind the fragment, or by a code, as configured', async () => {
  const tokensOf = (answer: { headers: Headers }) => new URL(answer.headers.get('location') ?? '');
  const byQuery = tokensOf(await signIn({ redirectUri: app }));
  expect(byQuery.origin + byQuery.pathname).toBe(app);
  expect(byQuery.searchParams.get('accessToken')).toMatch(/^ey/);
  expect(byQuery.searchParams.get('refreshToken')).toBeTruthy();

  await configure({ redirectUris: { tokenDelivery: 'fragment' } });
  const byFragment = tokensOf(await signIn({ redirectUri: app }));
  expect(byFragment.search).toBe('');
  expect(new URLSearchParams(byFragment.hash.slice(1)).get('accessToken')).toMatch(/^ey/);

  await configure({ redirectUris: { tokenDelivery: 'exchange' } });
  const byCode = tokensOf(await signIn({ redirectUri: app }));
  expect([...byCode.searchParams.keys()]).toEqual(['code']);
  const exchanged = await platform.client.post('/authentication/exchange', {
    code: byCode.searchParams.get('code'),
  });
  expect(exchanged).toMatchObject({
    status: 200,
    body: { accessToken: expect.any(String), userId: expect.any(String) },
  });
  await configure({ redirectUris: { tokenDelivery: 'query' } });
});

test('an app without cookies binds the sign-in by a challenge of its own', async () => {
  const codeVerifier = 'v'.repeat(43);
  const codeChallenge = Buffer.from(
    await crypto.subtle.digest('SHA-256', Buffer.from(codeVerifier)),
  ).toString('base64url');
  const codeOf = async () => {
    const { url } = await createBrowser(platform.client).start('corp', {
      redirectUri: app,
      codeChallenge,
    });
    const elsewhere = createBrowser(platform.client);
    const back = await elsewhere.follow(url.href, `${platform.addresses.client}/hook/`);
    const answer = await elsewhere.back('corp', Object.fromEntries(back.searchParams));
    const target = new URL(answer.headers.get('location') ?? '');
    expect([...target.searchParams.keys()]).toEqual(['code']);
    return target.searchParams.get('code');
  };
  const exchange = (body: object) => platform.client.post('/authentication/exchange', body);

  for (const wrong of [{}, { codeVerifier: 'w'.repeat(43) }]) {
    const code = await codeOf();
    expect(await exchange({ code, ...wrong })).toMatchObject({
      status: 400,
      body: { code: 'LINK_INVALID' },
    });
    expect((await exchange({ code, codeVerifier })).status).toBe(400);
  }
  const code = await codeOf();
  const uses = await Promise.all(
    Array.from({ length: 20 }, () => exchange({ code, codeVerifier })),
  );
  expect(uses.filter(({ status }) => status === 200)).toHaveLength(1);
});

test('GraphQL starts a sign-in too, and its answer carries the cookie', async () => {
  const query = '{ getAuthenticationInitProvider(provider: "corp") { result } }';
  const answer = await platform.client.post(
    '/graphql',
    { query },
    { headers: { 'sec-fetch-site': 'same-origin' } },
  );
  expect(answer.body, answer.text).toEqual({
    data: {
      getAuthenticationInitProvider: { result: expect.stringContaining(`${idp.issuer}/auth?`) },
    },
  });
  expect(answer.headers.getSetCookie()).toEqual([expect.stringMatching(/^sign-in-corp=/)]);
  const elsewhere = await platform.client.post(
    '/graphql',
    { query },
    { headers: { origin: 'https://app.example.com' } },
  );
  expect(new URL(elsewhere.body.data.getAuthenticationInitProvider.result).pathname).toBe(
    '/hook/authentication/corp/start',
  );
});

test('a page of another origin gets an address that gives the browser its cookie', async () => {
  const origin = 'https://app.example.com';
  const { body, headers } = await platform.client.get('/authentication/init/corp', {
    headers: { origin },
  });
  expect(headers.getSetCookie()).toEqual([]);
  expect(new URL(body.result).pathname).toBe('/hook/authentication/corp/start');
  expect((await signIn({}, { origin })).status).toBe(200);
});

test('a program gets such an address too: the browser that it opens has no cookie yet', async () => {
  const { body } = await platform.client.get('/authentication/init/corp');
  const start = new URL(body.result);
  expect(start.pathname).toBe('/hook/authentication/corp/start');
  idp.user = { sub: 'u-program', email: 'program@corp.example', email_verified: true };
  const browser = createBrowser(platform.client);
  const led = await browser.get(`${start.pathname}${start.search}`);
  const back = await browser.follow(
    led.headers.get('location') ?? '',
    `${platform.addresses.client}/hook/`,
  );
  expect((await browser.back('corp', Object.fromEntries(back.searchParams))).text).not.toContain(
    'EXTERNAL_STATE_INVALID',
  );
});

test('a program that plays the browser itself reads in that address what it needs, and keeps the cookie', async () => {
  const { body, headers } = await platform.client.get('/authentication/init/corp');
  const asked = new URL(body.result).searchParams;
  expect(Object.fromEntries(asked)).toMatchObject({
    client_id: expect.any(String),
    response_type: 'code',
    code_challenge_method: 'S256',
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.any(String),
  });
  asked.delete('ticket');
  idp.user = { sub: 'u-player', email: 'player@corp.example', email_verified: true };
  const player = createBrowser(platform.client);
  const back = await player.follow(
    `${idp.issuer}/auth?${asked}`,
    `${platform.addresses.client}/hook/`,
  );
  const [cookie = ''] = headers.getSetCookie().map((line) => line.split(';')[0]);
  const hook = '/hook/authentication/corp';
  const query = Object.fromEntries(back.searchParams);
  expect((await platform.client.get(hook, { query, headers: { cookie } })).text).not.toContain(
    'EXTERNAL_STATE_INVALID',
  );
  expect((await platform.client.get(hook, { query, headers: { cookie } })).text).toContain(
    'EXTERNAL_STATE_INVALID',
  );
});

test.each(['cross-site', 'same-site'])('a page that is %s gets one as well', async (fetchSite) => {
  const { body } = await platform.client.get('/authentication/init/corp', {
    headers: { 'sec-fetch-site': fetchSite },
  });
  expect(new URL(body.result).pathname).toBe('/hook/authentication/corp/start');
});

test('a user links another account and removes it, but never the last way in', async () => {
  const user = await platform.registerUser();
  idp.user = { sub: 'u-link', email: 'elsewhere@corp.example', email_verified: true };
  const started = await user.api.post('/authentication/identities/corp/link', { redirectUri: app });
  expect(started, started.text).toMatchObject({ status: 200 });
  const browser = createBrowser(platform.client);
  const back = await browser.follow(started.body.result, `${platform.addresses.client}/hook/`);
  const offered = await browser.back('corp', Object.fromEntries(back.searchParams));
  const linkCode = new URL(offered.headers.get('location') ?? '').searchParams.get('linkCode');
  expect(linkCode).toMatch(/^[\w-]{43}$/);
  expect(await user.api.post('/authentication/identities', { linkCode })).toMatchObject({
    status: 200,
  });

  const again = await signIn();
  expect(again.body.userId).toBe(user.userId);

  const { body } = await user.api.get('/authentication/identities');
  expect(body).toMatchObject({ count: 1, identities: [{ provider: 'corp', subject: 'u-link' }] });
  expect(
    await user.api.delete(`/authentication/identities/${body.identities[0]._id}`),
  ).toMatchObject({ status: 200 });
  expect((await user.api.get('/authentication/identities')).body.count).toBe(0);
  expect(
    (await user.api.delete(`/authentication/identities/${body.identities[0]._id}`)).status,
  ).toBe(404);

  idp.user = { sub: 'u-only', email: 'only@corp.example', email_verified: true };
  const only = await signIn();
  const { accessToken: token } = only.body;
  const mine = await platform.client.get('/authentication/identities', { token });
  const last = await platform.client.delete(
    `/authentication/identities/${mine.body.identities[0]._id}`,
    { token },
  );
  expect(last).toMatchObject({ status: 409, body: { code: 'LAST_SIGN_IN_METHOD_PROTECTED' } });
  expect((await platform.client.get('/authentication/identities', { token })).body.count).toBe(1);
});

test('a user with a second factor gets the partial token only', async () => {
  idp.user = { sub: 'u-2fa', email: 'second@corp.example', email_verified: true };
  const { userId } = (await signIn()).body;
  await platform.admin.patch(`/authentication/users/${userId}`, {
    phoneNumber: '+4915112345678',
    twoFaMethod: 'sms',
    hasTwoFA: true,
  });
  const answer = await signIn();
  expect(answer.body).toEqual({
    userId,
    accessToken: expect.any(String),
    twoFaRequired: true,
    twoFaMethod: 'sms',
  });
  expect(
    (await platform.client.get('/authentication/user', { token: answer.body.accessToken })).status,
  ).toBe(401);
});

test('a sign-in that began at one node ends at another', async () => {
  const second = await createTestPlatform({ databaseUrl: platform.databaseUrl ?? '' });
  try {
    await platform.admin.patch('/config/router', {
      config: { hostUrl: platform.addresses.client },
    });
    idp.user = { sub: 'u-nodes', email: 'nodes@corp.example', email_verified: true };
    const browser = createBrowser(platform.client);
    const { url } = await browser.start('corp');
    const back = await browser.follow(url.href, `${platform.addresses.client}/hook/`);
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await second.client.get('/hook/authentication/corp', {
      query: Object.fromEntries(back.searchParams),
      headers: { cookie },
    });
    expect(answer, answer.text).toMatchObject({
      status: 200,
      body: { accessToken: expect.any(String) },
    });
    expect(
      (await platform.client.get('/authentication/user', { token: answer.body.accessToken })).body
        .email,
    ).toBe('nodes@corp.example');
  } finally {
    await platform.admin.patch('/config/router', { config: { hostUrl: '' } });
    await second.close();
  }
});

test('refusals go to the app where the configuration says so', async () => {
  idp.user = { sub: 'u-refused', email: 'taken@corp.example', email_verified: false };
  await platform.registerUser({ email: 'taken@corp.example' });
  expect(await signIn({ redirectUri: app })).toMatchObject({ status: 409 });
  await configure({ externalSignIn: { errors: 'redirect' } });
  const { headers } = await signIn({ redirectUri: app });
  const target = new URL(headers.get('location') ?? '');
  expect(target.searchParams.get('error')).toBe('external_email_unverified');
  expect(target.searchParams.has('accessToken')).toBe(false);
  await configure({ externalSignIn: { errors: 'answer' } });
});

test('who signed in and who was refused is in the audit log, without secrets', async () => {
  idp.user = { sub: 'u-audit', email: 'audit@corp.example', email_verified: true };
  await signIn();
  await createBrowser(platform.client).back('corp', { state: 'A'.repeat(43), code: 'c' });
  const { body, text } = await platform.admin.get('/audit-logs', { query: { limit: 50 } });
  expect(text).not.toMatch(/code_verifier|id_token|accessToken/);
  const actions = JSON.stringify(body);
  expect(actions).toContain('authentication.register');
  expect(actions).toContain('authentication.login');
});

test('routes are there only while the provider is', async () => {
  expect((await platform.client.get('/authentication/init/unknown')).status).toBe(404);
  expect((await platform.client.get('/authentication/init/google')).status).toBe(404);
  expect((await platform.client.post('/authentication/google', { id_token: 'x' })).status).toBe(
    404,
  );
  await configure({ oidc: { corp: { enabled: false } } });
  expect((await platform.client.get('/authentication/init/corp')).status).toBe(404);
  await configure({ oidc: { corp: { enabled: true } } });
  expect((await signIn()).status).toBe(200);
});

test('secrets of providers are sealed and masked', async () => {
  const { body, text } = await platform.admin.get('/config/authentication');
  expect(text).not.toContain(idp.clientSecret);
  expect(body.config.oidc.corp.clientSecret).toBe('********');
});

test('a provider that an earlier version stored under a name that is taken now says how it goes', async () => {
  const { client, close } = await connectToSource(
    { dataDir: platform.dataDir, databaseUrl: platform.databaseUrl },
    silentLog,
  );
  const stored = `jsonb_set(config::jsonb, '{oidc,internal}', '{"issuer": "https://login.internal.example"}')`;
  await client
    .query(`update penstock.config set config = ${stored} where name = 'authentication'`)
    .finally(close);
  const change = (config: object) => platform.admin.patch('/config/authentication', { config });
  const refused = await change({ local: { enabled: true } });
  expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: 'oidc.internal' }] } });
  const [way = ''] = /\{"config".*\}\}\}/.exec(refused.body.errors[0].message) ?? [];
  expect((await platform.admin.patch('/config/authentication', JSON.parse(way))).status).toBe(200);
  const after = await change({ local: { enabled: true } });
  expect(after.status).toBe(200);
  expect(Object.keys(after.body.config.oidc)).not.toContain('internal');
});

test('configuration that cannot work is refused, naming the key', async () => {
  const refused = async (config: object) =>
    (await platform.admin.patch('/config/authentication', { config })).body.errors?.map(
      ({ path }: { path: string }) => path,
    );
  expect(await refused({ github: { enabled: true } })).toEqual([
    'github.clientId',
    'github.clientSecret',
  ]);
  expect(await refused({ apple: { enabled: true, clientId: 'x' } })).toEqual([
    'apple.privateKey',
    'apple.teamId',
    'apple.keyId',
  ]);
  expect(await refused({ apple: { privateKey: 'not a key' } })).toEqual(['apple.privateKey']);
  expect(await refused({ google: { tokenUrl: 'ftp://x.example' } })).toEqual(['google.tokenUrl']);
  // `internal` and `admin` register without an invitation; `verify-email` has addresses of its own.
  for (const name of [
    'google',
    'metamask',
    'local',
    'admin',
    'internal',
    'magic-link',
    'verify-email',
  ]) {
    expect(await refused({ oidc: { [name]: { enabled: false } } })).toEqual([`oidc.${name}`]);
  }
  expect(await refused({ oidc: { other: { enabled: true, clientId: 'x' } } })).toEqual([
    'oidc.other.issuer',
  ]);
});
