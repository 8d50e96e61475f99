/** The 13 known providers, each played by a local server in the shapes that the provider documents. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { createBrowser } from '../../../test/support/providers/browser.ts';
import {
  type FakeProvider,
  startFakeProvider,
} from '../../../test/support/providers/fake-provider.ts';

let platform: TestPlatform;
let fake: FakeProvider;

beforeAll(async () => {
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  fake = await startFakeProvider();
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

async function configure(config: object) {
  const answer = await platform.admin.patch('/config/authentication', { config });
  expect(answer, answer.text).toMatchObject({ status: 200 });
}

const tenant = '11111111-2222-4333-8444-555555555555';
const bearer = { access_token: 'provider-token', token_type: 'bearer', expires_in: 3600 };

interface Case {
  /** Beginning of the address that the browser is sent to. */
  readonly authorize: string;
  readonly scope: string;
  readonly parameters?: Record<string, string>;
  readonly settings?: object;
  /** `basic` or `form`: where the secret goes. */
  readonly secret: 'basic' | 'form';
  readonly pkce?: false;
  readonly nonce?: false;
  /** Claims of the ID token, for providers that have one. */
  readonly idToken?: object;
  readonly token?: object;
  /** Answers of the profile address and those beside it. */
  readonly answers?: Record<string, object>;
  readonly expected: {
    readonly subject: string;
    readonly email: string | null;
    readonly emailVerified: boolean;
    readonly data?: object;
  };
}

const cases: Record<string, Case> = {
  google: {
    authorize: 'https://accounts.google.com/o/oauth2/v2/auth?',
    scope: 'openid profile email',
    secret: 'form',
    idToken: {
      iss: 'https://accounts.google.com',
      sub: '1088',
      email: 'g@gmail.com',
      email_verified: true,
      name: 'G',
      picture: 'https://lh3.example/p',
    },
    expected: {
      subject: '1088',
      email: 'g@gmail.com',
      emailVerified: true,
      data: { name: 'G', picture: 'https://lh3.example/p' },
    },
  },
  github: {
    authorize: 'https://github.com/login/oauth/authorize?',
    scope: 'read:user user:email',
    secret: 'form',
    nonce: false,
    token: { ...bearer, scope: 'read:user,user:email' },
    answers: {
      '/profile': {
        id: 583231,
        login: 'octocat',
        name: null,
        email: 'public@github.example',
        avatar_url: 'https://avatars.example/1',
      },
      '/profile/emails': [
        { email: 'other@github.example', primary: false, verified: true, visibility: null },
        { email: 'octo@github.example', primary: true, verified: true, visibility: 'private' },
      ],
    },
    expected: {
      subject: '583231',
      email: 'octo@github.example',
      emailVerified: true,
      data: { username: 'octocat' },
    },
  },
  facebook: {
    authorize: 'https://www.facebook.com/v24.0/dialog/oauth?',
    scope: 'public_profile email',
    secret: 'form',
    nonce: false,
    answers: {
      '/profile': {
        id: '10159',
        name: 'F',
        email: 'f@example.com',
        picture: { data: { url: 'https://fb.example/p' } },
      },
    },
    expected: {
      subject: '10159',
      email: 'f@example.com',
      emailVerified: false,
      data: { name: 'F', picture: 'https://fb.example/p' },
    },
  },
  microsoft: {
    authorize: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize?',
    scope: 'openid profile email User.Read',
    secret: 'form',
    idToken: {
      iss: `https://login.microsoftonline.com/${tenant}/v2.0`,
      tid: tenant,
      oid: 'o-1',
      sub: 'pairwise',
      email: 'm@contoso.example',
      xms_edov: '1',
      name: 'M',
    },
    expected: {
      subject: `${tenant}:o-1`,
      email: 'm@contoso.example',
      emailVerified: true,
      data: { name: 'M' },
    },
  },
  twitter: {
    authorize: 'https://x.com/i/oauth2/authorize?',
    scope: 'tweet.read users.read users.email',
    secret: 'basic',
    nonce: false,
    answers: {
      '/profile': {
        data: { id: '2244994945', name: 'X', username: 'xdev', confirmed_email: 'x@example.com' },
      },
    },
    expected: {
      subject: '2244994945',
      email: 'x@example.com',
      emailVerified: true,
      data: { name: 'X', username: 'xdev' },
    },
  },
  linkedin: {
    authorize: 'https://www.linkedin.com/oauth/v2/authorization?',
    scope: 'openid profile email',
    secret: 'form',
    pkce: false,
    nonce: false,
    idToken: { iss: 'https://www.linkedin.com/oauth', sub: '782bbtaQ', name: 'L' },
    answers: {
      '/profile': {
        sub: '782bbtaQ',
        name: 'L',
        email: 'l@example.com',
        email_verified: 'true',
        locale: { country: 'US' },
      },
    },
    expected: { subject: '782bbtaQ', email: 'l@example.com', emailVerified: true },
  },
  slack: {
    authorize: 'https://slack.com/openid/connect/authorize?',
    scope: 'openid profile email',
    secret: 'form',
    token: { ok: true, ...bearer, token_type: 'Bearer' },
    idToken: {
      iss: 'https://slack.com',
      sub: 'U0R7MFMJM',
      'https://slack.com/team_id': 'T0RR',
      email: 's@example.com',
      email_verified: true,
    },
    expected: { subject: 'U0R7MFMJM', email: 's@example.com', emailVerified: true },
  },
  twitch: {
    authorize: 'https://id.twitch.tv/oauth2/authorize?',
    scope: 'openid user:read:email',
    parameters: {
      claims:
        '{"id_token":{"email":null,"email_verified":null,"preferred_username":null,"picture":null}}',
    },
    secret: 'form',
    token: { ...bearer, scope: ['openid', 'user:read:email'] },
    idToken: {
      iss: 'https://id.twitch.tv/oauth2',
      sub: '713936733',
      email: 't@example.com',
      email_verified: true,
      preferred_username: 'tw',
    },
    expected: {
      subject: '713936733',
      email: 't@example.com',
      emailVerified: true,
      data: { username: 'tw' },
    },
  },
  gitlab: {
    authorize: 'https://gitlab.corp.example/oauth/authorize?',
    scope: 'read_user',
    settings: { baseUrl: 'https://gitlab.corp.example/' },
    secret: 'form',
    nonce: false,
    answers: {
      '/profile': {
        id: 1,
        username: 'gl',
        name: 'GL',
        email: 'gl@example.com',
        confirmed_at: '2012-05-23T09:05:22Z',
      },
    },
    expected: {
      subject: '1',
      email: 'gl@example.com',
      emailVerified: true,
      data: { name: 'GL', username: 'gl' },
    },
  },
  bitbucket: {
    authorize: 'https://bitbucket.org/site/oauth2/authorize?',
    scope: 'account email',
    secret: 'form',
    nonce: false,
    answers: {
      '/profile': {
        uuid: '{c788b2da}',
        display_name: 'B',
        username: 'bb',
        type: 'user',
        links: { avatar: { href: 'https://bb.example/a' } },
      },
      '/profile/emails': {
        values: [
          { email: 'first@example.com', is_primary: false, is_confirmed: true },
          { email: 'bb@example.com', is_primary: true, is_confirmed: false },
        ],
      },
    },
    expected: { subject: '{c788b2da}', email: 'bb@example.com', emailVerified: false },
  },
  reddit: {
    authorize: 'https://www.reddit.com/api/v1/authorize?',
    scope: 'identity',
    parameters: { duration: 'temporary' },
    secret: 'basic',
    nonce: false,
    answers: { '/profile': { id: 't2abc', name: 'redditor', icon_img: '' } },
    expected: {
      subject: 't2abc',
      email: null,
      emailVerified: false,
      data: { username: 'redditor' },
    },
  },
  figma: {
    authorize: 'https://www.figma.com/oauth?',
    scope: 'current_user:read',
    secret: 'basic',
    nonce: false,
    token: {
      access_token: 'provider-token',
      expires_in: 7_776_000,
      refresh_token: 'r',
      user_id: 742,
    },
    answers: {
      '/profile': {
        id: '742',
        email: 'fi@example.com',
        handle: 'Fi',
        img_url: 'https://figma.example/i',
      },
    },
    expected: {
      subject: '742',
      email: 'fi@example.com',
      emailVerified: false,
      data: { username: 'Fi' },
    },
  },
};

const settingsOf = (one: Case) => ({
  enabled: true,
  clientId: 'client-id_1',
  clientSecret: 'client-secret_1',
  tokenUrl: `${fake.url}/token`,
  userInfoUrl: `${fake.url}/profile`,
  ...(one.idToken ? { jwksUrl: `${fake.url}/keys` } : {}),
  ...one.settings,
});

describe.each(Object.entries(cases))('%s', (name, one) => {
  const start = async () => {
    await configure({ externalSignIn: { allowInternalAddresses: true }, [name]: settingsOf(one) });
    const browser = createBrowser(platform.client);
    return { browser, ...(await browser.start(name)) };
  };

  test('sends the browser to the right address with what it needs', async () => {
    const { url } = await start();
    expect(url.href.startsWith(one.authorize), url.href).toBe(true);
    const query = Object.fromEntries(url.searchParams);
    expect(query).toMatchObject({
      response_type: 'code',
      client_id: 'client-id_1',
      scope: one.scope,
      redirect_uri: `${platform.addresses.client}/hook/authentication/${name}`,
      state: expect.stringMatching(/^[\w-]{43}$/),
      ...one.parameters,
    });
    expect(url.searchParams.has('code_challenge')).toBe(one.pkce !== false);
    expect(url.searchParams.has('nonce')).toBe(one.nonce !== false);
    expect(url.href).not.toContain('client-secret');
  });

  test('signs in whoever its answers name', async () => {
    const { browser, url, state } = await start();
    const nonce = url.searchParams.get('nonce') ?? undefined;
    const idToken =
      one.idToken &&
      fake.sign(
        fake.claims({
          aud: 'client-id_1',
          ...(nonce === undefined ? {} : { nonce }),
          ...one.idToken,
        }),
      );
    for (const [path, answer] of Object.entries(one.answers ?? {})) fake.answers.set(path, answer);
    fake.issue(`code-${name}`, {
      ...(one.token ?? bearer),
      ...(idToken ? { id_token: idToken } : {}),
    });

    const answer = await browser.back(name, { state, code: `code-${name}` });
    expect(answer, answer.text).toMatchObject({
      status: 200,
      body: { accessToken: expect.any(String) },
    });
    const { body } = await platform.client.get('/authentication/identities', {
      token: answer.body.accessToken,
    });
    expect(body.identities).toMatchObject([{ provider: name, ...one.expected }]);

    const { form, headers, query } = fake.last('/token');
    expect([...query.keys()]).toEqual([]);
    expect(form.get('redirect_uri')).toBe(
      `${platform.addresses.client}/hook/authentication/${name}`,
    );
    expect(form.has('code_verifier')).toBe(one.pkce !== false);
    expect(headers['user-agent']).toMatch(/^Penstock\//);
    if (one.secret === 'form') expect(form.get('client_secret')).toBe('client-secret_1');
    else
      expect(headers.authorization).toBe(
        `Basic ${Buffer.from('client-id_1:client-secret_1').toString('base64')}`,
      );
    if (one.answers)
      expect(fake.last('/profile').headers.authorization).toBe('Bearer provider-token');
  });
});

test('github: an address that is not verified, and the public one of the profile, prove nothing', async () => {
  fake.answers.set('/profile', { id: 99, login: 'evil', email: 'target@example.com' });
  fake.answers.set('/profile/emails', [
    { email: 'target@example.com', primary: true, verified: false },
  ]);
  fake.issue('code-evil', bearer);
  await platform.registerUser({ email: 'target@example.com' });
  const browser = createBrowser(platform.client);
  const { state } = await browser.start('github');
  expect(await browser.back('github', { state, code: 'code-evil' })).toMatchObject({
    status: 409,
    body: { code: 'EXTERNAL_EMAIL_UNVERIFIED' },
  });
});

describe('microsoft', () => {
  const signIn = async (claims: object) => {
    const browser = createBrowser(platform.client);
    const { url, state } = await browser.start('microsoft');
    const idToken = fake.sign(
      fake.claims({ aud: 'client-id_1', nonce: url.searchParams.get('nonce'), ...claims }),
    );
    fake.issue('code-ms', { ...bearer, id_token: idToken });
    return browser.back('microsoft', { state, code: 'code-ms' });
  };
  const issuer = (id: string) => `https://login.microsoftonline.com/${id}/v2.0`;

  test('an address that a tenant merely writes into a profile joins no account (nOAuth)', async () => {
    await platform.registerUser({ email: 'ceo@corp.example' });
    const evil = '99999999-2222-4333-8444-555555555555';
    for (const more of [
      {},
      { email_verified: true },
      { xms_edov: false },
      { verified_primary_email: ['someone@else.example'] },
    ]) {
      const answer = await signIn({
        iss: issuer(evil),
        tid: evil,
        oid: 'x',
        sub: 'y',
        email: 'ceo@corp.example',
        ...more,
      });
      expect(answer).toMatchObject({ status: 409, body: { code: 'EXTERNAL_EMAIL_UNVERIFIED' } });
    }
  });

  test('the issuer must be the tenant that the token names, and that a tenant', async () => {
    for (const claims of [
      { iss: issuer('99999999-2222-4333-8444-555555555555'), tid: tenant },
      { iss: issuer('evil'), tid: 'evil' },
      { iss: issuer('common'), tid: 'common' },
      { iss: 'https://evil.example/v2.0', tid: tenant },
      { iss: issuer(''), tid: undefined },
    ]) {
      expect(await signIn({ oid: 'x', sub: 'y', ...claims })).toMatchObject({
        status: 401,
        body: { code: 'EXTERNAL_TOKEN_INVALID' },
      });
    }
  });

  test('one configured tenant lets no other in', async () => {
    await configure({ microsoft: { tenantId: tenant } });
    const stranger = '99999999-2222-4333-8444-555555555555';
    expect(
      (await signIn({ iss: issuer(stranger), tid: stranger, oid: 'o', sub: 's' })).status,
    ).toBe(401);
    expect((await signIn({ iss: issuer(tenant), tid: tenant, oid: 'o-1', sub: 's' })).status).toBe(
      200,
    );
  });
});

test('a provider whose addresses the operator trusts counts as verified', async () => {
  await configure({ figma: { trustEmail: true } });
  fake.answers.set('/profile', { id: '743', email: 'trusted@example.com', handle: 'T' });
  fake.issue('code-trusted', bearer);
  const browser = createBrowser(platform.client);
  const { state } = await browser.start('figma');
  const answer = await browser.back('figma', { state, code: 'code-trusted' });
  expect(
    (await platform.client.get('/authentication/user', { token: answer.body.accessToken })).body,
  ).toMatchObject({
    email: 'trusted@example.com',
    isVerified: true,
  });
});

test('scopes of the configuration and of the request take the place of the usual ones, the needed ones stay', async () => {
  await configure({ google: { scopes: ['email'] }, github: { scopes: ['read:org'] } });
  const scopesOf = async (name: string, query: Record<string, string> = {}) =>
    (await createBrowser(platform.client).start(name, query)).url.searchParams.get('scope');
  expect(await scopesOf('google')).toBe('openid email');
  expect(await scopesOf('github')).toBe('read:org');
  expect(
    await scopesOf('google', { scopes: 'profile,https://www.googleapis.com/auth/drive.file' }),
  ).toBe('openid profile https://www.googleapis.com/auth/drive.file');
  expect(
    (await createBrowser(platform.client).get('/authentication/init/google', { scopes: 'a b' }))
      .status,
  ).toBe(400);
});
