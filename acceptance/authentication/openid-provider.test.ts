/** The platform as an OpenID provider, from an app that uses `openid-client`, and a browser that keeps cookies. */
import { randomUUID } from 'node:crypto';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  fetchUserInfo,
  None,
  randomPKCECodeVerifier,
  refreshTokenGrant,
  tokenIntrospection,
  tokenRevocation,
} from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestConnection } from '../../test/support/connection.ts';
import { type CookieBrowser, createCookieBrowser } from '../../test/support/cookie-browser.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let issuer: string;
let app: App;

const redirectUri = 'https://app.example.com/callback';
const afterSignOut = 'https://app.example.com/bye';

interface App {
  readonly clientId: string;
  readonly secret: string | undefined;
  readonly config: Configuration;
}

const discover = (clientId: string, authentication: ClientAuth): Promise<Configuration> =>
  discovery(new URL(issuer), clientId, undefined, authentication, {
    execute: [allowInsecureRequests],
  });

async function register(more: object = {}): Promise<App> {
  const clientId = `app-${randomUUID()}`;
  const { status, body, text } = await platform.admin.post('/authentication/openid/clients', {
    clientId,
    name: 'Calendar',
    kind: 'web',
    redirectUris: [redirectUri],
    postLogoutRedirectUris: [afterSignOut],
    ...more,
  });
  expect(status, text).toBe(200);
  const secret: string | undefined = body.clientSecret;
  const config = await discover(clientId, secret ? ClientSecretBasic(secret) : None());
  return { clientId, secret, config };
}

beforeAll(async () => {
  platform = await createTestPlatform();
  issuer = platform.addresses.client;
  const { status, text } = await platform.admin.patch('/config/authentication', {
    config: { accessTokens: { issuer, algorithm: 'RS256' }, openidProvider: { enabled: true } },
  });
  expect(status, text).toBe(200);
  app = await register();
});
afterAll(() => platform?.close());

interface Attempt {
  readonly url: URL;
  readonly verifier: string;
  readonly state: string;
}

async function begin({ config }: App, more: Record<string, string> = {}): Promise<Attempt> {
  const verifier = randomPKCECodeVerifier();
  const state = randomUUID();
  const url = buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope: 'openid profile email',
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    ...more,
  });
  return { url, verifier, state };
}

/** Goes where the app sends the browser, proves who it is, and agrees; answers where the browser ends. */
async function goThrough(
  browser: CookieBrowser,
  start: URL | string,
  user: TestUser,
  token = user.accessToken,
): Promise<string> {
  let { url } = await browser.visit(String(start));
  while (url.startsWith(`${issuer}/openid/interaction/`)) {
    const { prompt } = JSON.parse((await browser.visit(`${url}/details`)).text);
    const { status, body } =
      prompt === 'login'
        ? await browser.send(`${url}/sign-in`, {}, { authorization: `Bearer ${token}` })
        : await browser.send(`${url}/consent`, { allow: true }, { origin: issuer });
    expect(status, JSON.stringify(body)).toBe(200);
    ({ url } = await browser.visit(String(body.redirectTo)));
  }
  return url;
}

/** A whole sign-in; answers the tokens. */
async function signIn(one: App, user: TestUser, more: Record<string, string> = {}) {
  const browser = createCookieBrowser(issuer);
  const { url, verifier, state } = await begin(one, more);
  const end = await goThrough(browser, url, user);
  const tokens = await authorizationCodeGrant(one.config, new URL(end), {
    pkceCodeVerifier: verifier,
    expectedState: state,
    idTokenExpected: true,
    ...(more.nonce ? { expectedNonce: more.nonce } : {}),
  });
  return { browser, tokens, end, verifier };
}

/** What `openid-client` makes of a 401. */
const unknownApp = 'OAUTH_WWW_AUTHENTICATE_CHALLENGE';
const refusal = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: { error?: string; code?: string }) => error.error ?? String(error.code),
  );

describe('a sign-in', () => {
  it('leads from the app over login and consent to tokens that others verify', async () => {
    const user = await platform.registerUser();
    const nonce = randomUUID();
    const { tokens } = await signIn(app, user, { nonce });
    expect(tokens).toMatchObject({ token_type: 'bearer', expires_in: 3600 });
    expect(tokens.claims()).toMatchObject({
      iss: issuer,
      sub: user.userId,
      aud: app.clientId,
      nonce,
      email: user.email,
      email_verified: false,
    });
    const { jwks_uri: keys = '' } = app.config.serverMetadata();
    const { protectedHeader } = await jwtVerify(
      tokens.id_token ?? '',
      createRemoteJWKSet(new URL(keys)),
      { issuer, audience: app.clientId },
    );
    expect(protectedHeader.alg).toBe('RS256');
    expect(await fetchUserInfo(app.config, tokens.access_token, user.userId)).toMatchObject({
      sub: user.userId,
      email: user.email,
    });
  });

  it('asks once in a browser, and for consent once for each app', async () => {
    const user = await platform.registerUser();
    const { browser } = await signIn(app, user);
    const again = await begin(app);
    expect((await browser.visit(again.url.href)).url).toMatch(
      /^https:\/\/app\.example\.com.*code=/,
    );

    const elsewhere = createCookieBrowser(issuer);
    const { url } = await begin(app);
    const page = await elsewhere.visit(url.href);
    const { body } = await elsewhere.send(
      `${page.url}/sign-in`,
      {},
      { authorization: `Bearer ${user.accessToken}` },
    );
    expect((await elsewhere.visit(String(body.redirectTo))).url).toContain('code=');
  });

  it('asks nobody for consent to an own app, and everybody to another one', async () => {
    const user = await platform.registerUser();
    const own = await register({ consent: 'never' });
    const browser = createCookieBrowser(issuer);
    const { url } = await begin(own);
    const page = await browser.visit(url.href);
    const { body } = await browser.send(
      `${page.url}/sign-in`,
      {},
      { authorization: `Bearer ${user.accessToken}` },
    );
    expect((await browser.visit(String(body.redirectTo))).url).toContain('code=');

    const silent = await browser.visit((await begin(app, { prompt: 'none' })).url.href);
    expect(new URL(silent.url).searchParams.get('error')).toBe('consent_required');
    const nobody = createCookieBrowser(issuer);
    const refused = await nobody.visit((await begin(app, { prompt: 'none' })).url.href);
    expect(new URL(refused.url).searchParams.get('error')).toBe('login_required');
  });

  it('works for pages and devices without a secret, by PKCE alone', async () => {
    const user = await platform.registerUser();
    const page = await register({ kind: 'spa' });
    expect(page.secret).toBeUndefined();
    const { tokens } = await signIn(page, user);
    expect(tokens.claims()?.sub).toBe(user.userId);
    const { url } = await begin(page);
    url.searchParams.delete('code_challenge');
    url.searchParams.delete('code_challenge_method');
    const { url: end } = await createCookieBrowser(issuer).visit(url.href);
    expect(new URL(end).searchParams.get('error')).toBe('invalid_request');
  });

  it('wants a fresh login where the app does', async () => {
    const user = await platform.registerUser();
    const { browser } = await signIn(app, user);
    const strict: Record<string, string>[] = [{ prompt: 'login' }, { max_age: '0' }];
    for (const more of strict) {
      const page = await browser.visit((await begin(app, more)).url.href);
      expect(page.url).toContain('/openid/interaction/');
      const old = await browser.send(
        `${page.url}/sign-in`,
        {},
        { authorization: `Bearer ${user.accessToken}` },
      );
      // The login of this user may be as young as the request: only an old one must be refused.
      expect([200, 403]).toContain(old.status);
      if (old.status === 403) expect(old.body.code).toBe('OPENID_LOGIN_REQUIRED');
    }
    const page = await browser.visit((await begin(app, { prompt: 'login' })).url.href);
    const fresh = await platform.login(user.email, user.password);
    const end = await goThrough(browser, page.url, fresh);
    expect(end).toContain('code=');
  });

  it('ends in the app when the user cancels', async () => {
    const browser = createCookieBrowser(issuer);
    const page = await browser.visit((await begin(app)).url.href);
    const { body } = await browser.send(
      `${page.url}/consent`,
      { allow: false },
      { origin: issuer },
    );
    const { url } = await browser.visit(String(body.redirectTo));
    expect(new URL(url).searchParams.get('error')).toBe('access_denied');
  });

  it('knows the second factor: half a login signs in nowhere', async () => {
    const user = await platform.registerUser();
    await platform.admin.patch('/config/authentication', { config: { twoFa: { enabled: true } } });
    const { status } = await platform.admin.patch(`/authentication/users/${user.userId}`, {
      requiresTwoFA: true,
    });
    expect(status).toBe(200);
    const { body: half } = await platform.client.post('/authentication/local', {
      email: user.email,
      password: user.password,
    });
    expect(half.twoFaEnrolment).toBe(true);
    const browser = createCookieBrowser(issuer);
    const page = await browser.visit((await begin(app)).url.href);
    const refused = await browser.send(
      `${page.url}/sign-in`,
      {},
      { authorization: `Bearer ${half.accessToken}` },
    );
    expect([401, 403]).toContain(refused.status);
  });
});

describe('what apps get', () => {
  it('works once: of 50 parallel uses of a code one succeeds, and then it opens nothing', async () => {
    const user = await platform.registerUser();
    const browser = createCookieBrowser(issuer);
    const { url, verifier } = await begin(app);
    const code = new URL(await goThrough(browser, url, user)).searchParams.get('code') ?? '';
    const use = () =>
      fetch(`${issuer}/openid/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri,
          code_verifier: verifier,
          client_id: app.clientId,
          client_secret: app.secret ?? '',
        }),
      });
    const uses = await Promise.all(Array.from({ length: 50 }, use));
    const bodies = (await Promise.all(uses.map((one) => one.json()))) as {
      access_token?: string;
    }[];
    expect(uses.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(uses.filter(({ status }) => status === 400)).toHaveLength(49);
    const token = bodies.find((one) => one.access_token)?.access_token ?? '';
    const { active } = await tokenIntrospection(app.config, token);
    expect(active).toBe(false);
  });

  it('is renewed by a token that works once; a second use ends everything', async () => {
    const { tokens } = await signIn(app, await platform.registerUser());
    const first = tokens.refresh_token ?? '';
    const renewed = await refreshTokenGrant(app.config, first);
    expect(renewed.refresh_token).not.toBe(first);
    expect(await tokenIntrospection(app.config, renewed.access_token)).toMatchObject({
      active: true,
    });
    expect(await refusal(refreshTokenGrant(app.config, first))).toBe('invalid_grant');
    expect(await refusal(refreshTokenGrant(app.config, renewed.refresh_token ?? ''))).toBe(
      'invalid_grant',
    );
    expect(await tokenIntrospection(app.config, renewed.access_token)).toEqual({ active: false });
  });

  it('of 50 parallel uses of a refresh token one succeeds', async () => {
    const { tokens } = await signIn(app, await platform.registerUser());
    const uses = await Promise.all(
      Array.from({ length: 50 }, () =>
        refusal(refreshTokenGrant(app.config, tokens.refresh_token ?? '')),
      ),
    );
    expect(uses.filter((one) => one === 'done')).toHaveLength(1);
  });

  it('is revoked, and introspected, by the app alone', async () => {
    const { tokens } = await signIn(app, await platform.registerUser());
    const wrong = await discover(app.clientId, ClientSecretPost('not-the-secret'));
    expect(await refusal(tokenIntrospection(wrong, tokens.access_token))).toBe('invalid_client');
    await tokenRevocation(app.config, tokens.access_token);
    expect(await tokenIntrospection(app.config, tokens.access_token)).toEqual({ active: false });
    expect(await refusal(fetchUserInfo(app.config, tokens.access_token, 'x'))).not.toBe('done');
  });

  it('goes to registered addresses only, with the right proof only', async () => {
    for (const wrong of [
      'https://evil.example.com/callback',
      `${redirectUri}/more`,
      `${redirectUri}?x=1`,
      'https://app.example.com.evil.example/callback',
    ]) {
      const { url } = await begin(app, { redirect_uri: wrong });
      const page = await createCookieBrowser(issuer).visit(url.href);
      expect(page.status).toBe(400);
      expect(page.url).toBe(url.href);
      expect(page.text).toContain('redirect_uri');
    }
    const other = await register();
    const user = await platform.registerUser();
    const browser = createCookieBrowser(issuer);
    const attempt = await begin(app);
    const end = new URL(await goThrough(browser, attempt.url, user));
    const redeem = (one: App, verifier: string) =>
      refusal(
        authorizationCodeGrant(one.config, end, {
          pkceCodeVerifier: verifier,
          expectedState: attempt.state,
        }),
      );
    expect(await redeem(other, attempt.verifier)).toBe('invalid_grant');
    expect(await redeem(app, randomPKCECodeVerifier())).toBe('invalid_grant');
    expect(await redeem(app, attempt.verifier)).toBe('done');
  });
});

describe('what apps have ends', () => {
  const isActive = async (token: string): Promise<boolean> =>
    (await tokenIntrospection(app.config, token)).active;

  it('when the user is blocked', async () => {
    const user = await platform.registerUser();
    const { tokens, browser } = await signIn(app, user);
    expect(await isActive(tokens.access_token)).toBe(true);
    await platform.admin.post(`/authentication/users/${user.userId}/block`);
    expect(await isActive(tokens.access_token)).toBe(false);
    expect(await refusal(refreshTokenGrant(app.config, tokens.refresh_token ?? ''))).toBe(
      'invalid_grant',
    );
    const { url } = await browser.visit((await begin(app)).url.href);
    expect(url).toContain('/openid/interaction/');
  });

  it('with the session of the platform', async () => {
    const user = await platform.registerUser();
    const { tokens } = await signIn(app, user);
    await user.api.post('/authentication/logout');
    expect(await isActive(tokens.access_token)).toBe(false);
    expect(await refusal(refreshTokenGrant(app.config, tokens.refresh_token ?? ''))).toBe(
      'invalid_grant',
    );
  });

  it('when the user signs out, also on the platform', async () => {
    const user = await platform.registerUser();
    const { tokens, browser } = await signIn(app, user);
    const url = buildEndSessionUrl(app.config, {
      id_token_hint: tokens.id_token ?? '',
      post_logout_redirect_uri: afterSignOut,
      state: 'done',
    });
    const page = await browser.visit(url.href);
    const xsrf = /name="xsrf" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
    const end = await browser.submit(`${issuer}/openid/end-session/confirm`, {
      xsrf,
      logout: 'yes',
    });
    expect(end.url).toBe(`${afterSignOut}?state=done`);
    expect(await isActive(tokens.access_token)).toBe(false);
    expect((await user.api.get('/authentication/user')).status).toBe(401);
    const elsewhere = buildEndSessionUrl(app.config, {
      id_token_hint: tokens.id_token ?? '',
      post_logout_redirect_uri: 'https://evil.example.com',
    });
    expect((await browser.visit(elsewhere.href)).status).toBe(400);
  });

  it('when the user withdraws the consent, and the next sign-in asks again', async () => {
    const user = await platform.registerUser();
    const { tokens, browser } = await signIn(app, user);
    expect((await user.api.get('/authentication/apps')).body.apps).toMatchObject([
      { clientId: app.clientId, name: 'Calendar' },
    ]);
    expect((await user.api.delete(`/authentication/apps/${app.clientId}`)).status).toBe(200);
    expect(await isActive(tokens.access_token)).toBe(false);
    expect((await browser.visit((await begin(app)).url.href)).url).toContain(
      '/openid/interaction/',
    );
  });

  it('with a scope that the app may no longer ask for, and users are asked again', async () => {
    const narrowed = await register();
    const user = await platform.registerUser();
    const { tokens, browser } = await signIn(narrowed, user);
    const path = `/authentication/openid/clients/${narrowed.clientId}`;
    const change = async (body: object) =>
      expect((await platform.admin.patch(path, body)).status).toBe(200);
    await change({ name: 'Another name' });
    expect((await fetchUserInfo(narrowed.config, tokens.access_token, user.userId)).email).toBe(
      user.email,
    );
    await change({ scopes: ['openid', 'profile'] });
    expect(await refusal(fetchUserInfo(narrowed.config, tokens.access_token, 'x'))).not.toBe(
      'done',
    );
    expect(await refusal(refreshTokenGrant(narrowed.config, tokens.refresh_token ?? ''))).toBe(
      'invalid_grant',
    );
    expect((await user.api.get('/authentication/apps')).body.apps).toMatchObject([
      { scopes: expect.not.arrayContaining(['email']) },
    ]);
    await change({ scopes: ['openid', 'profile', 'email'] });
    const { url } = await browser.visit((await begin(narrowed)).url.href);
    expect(url).toContain('/openid/interaction/');
  });

  it('of an own app, when its users are to be asked from now on', async () => {
    const own = await register({ consent: 'never' });
    const { tokens, browser } = await signIn(own, await platform.registerUser());
    const path = `/authentication/openid/clients/${own.clientId}`;
    expect((await platform.admin.patch(path, { consent: 'ask' })).status).toBe(200);
    expect(await refusal(refreshTokenGrant(own.config, tokens.refresh_token ?? ''))).toBe(
      'invalid_grant',
    );
    const { url } = await browser.visit((await begin(own)).url.href);
    expect(url).toContain('/openid/interaction/');
  });

  it('with the app itself', async () => {
    const gone = await register();
    const user = await platform.registerUser();
    const { tokens } = await signIn(gone, user);
    await platform.admin.delete(`/authentication/openid/clients/${gone.clientId}`);
    expect(await isActive(tokens.access_token)).toBe(false);
    expect(await refusal(refreshTokenGrant(gone.config, tokens.refresh_token ?? ''))).toBe(
      unknownApp,
    );
  });
});

describe('a sign-in belongs to one browser', () => {
  it('and nobody else can finish it, nor another page decide', async () => {
    const user = await platform.registerUser();
    const browser = createCookieBrowser(issuer);
    const page = await browser.visit((await begin(app)).url.href);
    const thief = createCookieBrowser(issuer);
    expect(
      await thief.send(`${page.url}/sign-in`, {}, { authorization: `Bearer ${user.accessToken}` }),
    ).toMatchObject({ status: 400, body: { code: 'OPENID_INTERACTION_INVALID' } });
    expect((await thief.visit(page.url)).status).toBe(400);
    for (const headers of [
      { origin: 'https://evil.example.com' },
      { 'sec-fetch-site': 'cross-site' },
    ])
      expect(
        (await browser.send(`${page.url}/consent`, { allow: true }, headers as never)).status,
      ).toBe(403);
  });
});

describe('what nobody has signed in to', () => {
  it('is bounded in size, and kept for minutes', async () => {
    const { url } = await begin(app, { state: 'x'.repeat(9_000) });
    const { status, body } = await platform.client.get(url.pathname + url.search);
    expect([status, body.errors[0].path]).toEqual([400, 'query']);
    const sql = await openTestConnection(platform.databaseUrl ?? '');
    await platform.client.get('/openid/end-session');
    const [kept] = await sql.query(
      `select count(*)::int as count, max(expires_at) < now() + interval '11 minutes' as brief
       from penstock.openid_items where kind = 'Session' and user_id is null`,
    );
    await sql.close();
    expect(kept).toMatchObject({ brief: true });
  });
});

describe('apps', () => {
  it('are changed, get new secrets, and are checked', async () => {
    const one = await register();
    const path = `/authentication/openid/clients/${one.clientId}`;
    const twice = await platform.admin.post('/authentication/openid/clients', {
      clientId: one.clientId,
      name: 'Other',
      kind: 'web',
      redirectUris: [redirectUri],
    });
    expect(twice).toMatchObject({ status: 409, body: { code: 'OPENID_CLIENT_EXISTS' } });
    for (const [change, field] of [
      [{ redirectUris: ['javascript:alert(1)'] }, 'redirectUris'],
      [{ redirectUris: ['https://app.example.com/#fragment'] }, 'redirectUris'],
      [{ scopes: ['email'] }, 'scopes'],
    ] as const)
      expect(await platform.admin.patch(path, change)).toMatchObject({
        status: 400,
        body: { errors: [{ path: field }] },
      });
    expect((await platform.admin.patch(path, { name: 'Diary' })).body.name).toBe('Diary');

    const { body } = await platform.admin.post(`${path}/secret`, {});
    const user = await platform.registerUser();
    await signIn(one, user);
    const next = await discover(one.clientId, ClientSecretBasic(body.clientSecret));
    await signIn({ ...one, config: next }, user);
    await platform.admin.post(`${path}/secret`, { keepPreviousMs: 0 });
    const { url, verifier, state } = await begin(one);
    const end = await goThrough(createCookieBrowser(issuer), url, user);
    for (const config of [one.config, next])
      expect(
        await refusal(
          authorizationCodeGrant(config, new URL(end), {
            pkceCodeVerifier: verifier,
            expectedState: state,
          }),
        ),
      ).toBe(unknownApp);
  });

  it('are state without their secrets', async () => {
    const { text } = await platform.admin.get('/state/export', {
      query: { types: 'openidClients' },
    });
    const state = JSON.parse(text) as {
      modules: { authentication: { openidClients: { clientId: string }[] } };
    };
    const documents = state.modules.authentication.openidClients;
    expect(documents.map(({ clientId }) => clientId)).toContain(app.clientId);
    expect(JSON.stringify(documents)).not.toMatch(/secret|hash/i);
    const own = documents.filter(({ clientId }) => clientId === app.clientId);
    const plan = await platform.admin.post('/state/import', {
      ...state,
      modules: {
        authentication: {
          openidClients: [...own, { ...own[0], clientId: 'imported', name: 'Imported' }],
        },
      },
    });
    expect(plan.status, plan.text).toBe(200);
    const secret = await platform.admin.post('/authentication/openid/clients/imported/secret', {});
    expect(secret.body.clientSecret).toEqual(expect.any(String));
  });
});
