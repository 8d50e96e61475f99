/**
 * Tokens in cookies: requests that pages of somebody else cause (CWE-352), cookies that other hosts set
 * (RFC 6265bis 4.1.3.2), lifetimes in the right unit (spec/authentication.md W15).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { createMailbox } from '../../test/support/mailbox.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
const password = 'correct horse battery staple';
const email = 'ada@example.com';
const ours = { 'sec-fetch-site': 'same-origin' };
const foreign = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };

const configure = (config: object) => platform.admin.patch('/config/authentication', { config });
const both = (setCookie: boolean, cookieOptions: object = {}) => ({
  accessTokens: { setCookie, cookieOptions },
  refreshTokens: { setCookie, cookieOptions },
});

beforeAll(async () => {
  platform = await createTestPlatform();
  await platform.client.post('/authentication/local/new', { email, password });
  expect((await configure(both(true))).status).toBe(200);
});
afterAll(() => platform.close());

/** The cookies of an answer as a browser would send them back. */
const jarOf = ({ headers }: Answer<Json>): Record<string, string> =>
  Object.fromEntries(
    headers
      .getSetCookie()
      .map((line) => [
        line.slice(0, line.indexOf('=')),
        line.slice(line.indexOf('=') + 1).split(';', 1)[0] ?? '',
      ]),
  );
const sent = (jar: Record<string, string>) => ({
  cookie: Object.entries(jar)
    .map(([name, value]) => `${name}=${value}`)
    .join('; '),
});

async function signIn() {
  const answer = await platform.client.post('/authentication/local', { email, password });
  expect(answer.status).toBe(200);
  return { answer, cookies: sent(jarOf(answer)), csrfToken: answer.body.csrfToken as string };
}

test('the tokens are in cookies with lifetimes in seconds, bound to this host, and not in the body', async () => {
  const { answer } = await signIn();
  expect(Object.keys(answer.body).sort()).toEqual(['csrfToken', 'userId']);
  const lines = answer.headers.getSetCookie();
  expect(lines).toHaveLength(2);
  expect(lines[0]).toMatch(
    /^__Host-accessToken=[\w.-]+; Path=\/; Max-Age=3600; HttpOnly; Secure; SameSite=Lax$/,
  );
  expect(lines[1]).toMatch(
    /^__Host-refreshToken=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; Secure; SameSite=Lax$/,
  );
});

test('a cookie reads, and changes something only for a page of this host or with the token of the session', async () => {
  const { cookies, csrfToken } = await signIn();
  const patch = (headers: Record<string, string>) =>
    platform.client.patch(
      '/authentication/user',
      { userData: {} },
      { headers: { ...cookies, ...headers } },
    );
  expect(
    (await platform.client.get('/authentication/user', { headers: { ...cookies, ...foreign } }))
      .status,
  ).toBe(200);
  const refused = { status: 403, body: { code: 'CSRF_REFUSED' } };
  expect(await patch({})).toMatchObject(refused);
  expect(await patch(foreign)).toMatchObject(refused);
  expect(
    await patch({ 'sec-fetch-site': 'same-site', origin: 'https://blog.example.com' }),
  ).toMatchObject(refused);
  expect(await patch({ origin: 'null' })).toMatchObject(refused);
  expect(
    await patch({ origin: `${new URL(platform.client.baseUrl).origin}.evil.example` }),
  ).toMatchObject(refused);
  expect((await patch(ours)).status).toBe(200);
  expect((await patch({ origin: new URL(platform.client.baseUrl).origin })).status).toBe(200);
  expect((await patch({ ...foreign, 'x-csrf-token': csrfToken })).status).toBe(200);
});

test('neither a made-up token nor that of another session counts, and pages read their own', async () => {
  const one = await signIn();
  const other = await signIn();
  for (const token of [
    other.csrfToken,
    '',
    'x',
    `${one.csrfToken}0`,
    one.csrfToken.split('.')[0] ?? '',
    `${one.csrfToken.split('.')[0]}.`,
  ]) {
    const answer = await platform.client.post('/authentication/logout', undefined, {
      headers: { ...one.cookies, ...foreign, 'x-csrf-token': token },
    });
    expect(answer.status, token).toBe(403);
  }
  expect(
    (await platform.client.get('/authentication/csrf', { headers: one.cookies })).body,
  ).toEqual({ csrfToken: one.csrfToken });
});

test('a bearer goes before a cookie and needs no such proof', async () => {
  const { answer, cookies } = await signIn();
  const token = jarOf(answer)['__Host-accessToken'] ?? '';
  expect(
    (
      await platform.client.patch(
        '/authentication/user',
        { userData: {} },
        { token, headers: { ...cookies, ...foreign } },
      )
    ).status,
  ).toBe(200);
  expect(
    (await platform.client.get('/authentication/user', { token: 'wrong', headers: cookies }))
      .status,
  ).toBe(401);
});

test('renewal by cookie gives new cookies; a page of somebody else cannot cause it; logout takes them away', async () => {
  const { answer, cookies } = await signIn();
  const renew = (headers: Record<string, string>) =>
    platform.client.post('/authentication/renew', undefined, { headers });
  expect((await renew({ ...cookies, ...foreign })).status).toBe(403);
  expect((await renew(ours)).status).toBe(401);
  const renewed = await renew({ ...cookies, ...ours });
  expect(renewed).toMatchObject({ status: 200, body: { csrfToken: answer.body.csrfToken } });
  expect(renewed.text).not.toContain('refreshToken');
  const fresh = jarOf(renewed);
  expect(fresh['__Host-refreshToken']).not.toBe(jarOf(answer)['__Host-refreshToken']);
  // Two tabs that renew at the same moment get the same.
  expect(jarOf(await renew({ ...cookies, ...ours }))).toEqual(fresh);

  const logout = await platform.client.post('/authentication/logout', undefined, {
    headers: { ...sent(fresh), ...ours },
  });
  expect(logout).toMatchObject({ status: 200, body: { result: 'LoggedOut' } });
  expect(jarOf(logout)).toEqual({ '__Host-accessToken': '', '__Host-refreshToken': '' });
  expect(logout.headers.getSetCookie().every((line) => line.includes('Max-Age=0'))).toBe(true);
  const dead = await platform.client.get('/authentication/user', { headers: sent(fresh) });
  expect(dead.status).toBe(401);
  expect(jarOf(dead)).toEqual({ '__Host-accessToken': '' });
});

test('a cookie by another name or while cookies are off is none', async () => {
  const { answer } = await signIn();
  const token = jarOf(answer)['__Host-accessToken'] ?? '';
  expect(
    (
      await platform.client.get('/authentication/user', {
        headers: { cookie: `accessToken=${token}` },
      })
    ).status,
  ).toBe(401);
  await configure(both(false));
  const { body } = await platform.client.post('/authentication/local', { email, password });
  expect(body).toMatchObject({ accessToken: expect.any(String), refreshToken: expect.any(String) });
  expect(
    (
      await platform.client.get('/authentication/user', {
        headers: { cookie: `__Host-accessToken=${body.accessToken}` },
      })
    ).status,
  ).toBe(401);
  expect(
    (await platform.client.get('/authentication/csrf', { token: body.accessToken })).status,
  ).toBe(404);
  await configure(both(true));
});

test('a sign-in that needs its second factor leaves no refresh token of an earlier session behind; a step-up leaves the own one', async () => {
  const { cookies } = await signIn();
  const stepUp = await platform.client.post(
    '/authentication/sudo',
    { password },
    { headers: { ...cookies, ...ours } },
  );
  expect(stepUp).toMatchObject({ status: 200, body: { csrfToken: expect.any(String) } });
  expect(Object.keys(jarOf(stepUp))).toEqual(['__Host-accessToken']);
  await configure({ twoFa: { enabled: true, required: true } });
  const partial = await signIn();
  expect(partial.answer.body).toMatchObject({ twoFaRequired: true });
  expect(jarOf(partial.answer)['__Host-refreshToken']).toBe('');
  await configure({ twoFa: { enabled: false, required: false } });
});

test('a sign-in over the cookies of an earlier session ends that one, also when only its refresh token is left', async () => {
  const first = await signIn();
  const over = (cookies: Record<string, string>) =>
    platform.client.post(
      '/authentication/local',
      { email, password },
      { headers: { ...cookies, ...ours } },
    );
  const dead = async (cookies: Record<string, string>) => {
    const read = await platform.client.get('/authentication/user', { headers: cookies });
    const renew = await platform.client.post('/authentication/renew', undefined, {
      headers: { ...cookies, ...ours },
    });
    return [read.status, renew.status];
  };
  const second = await over(first.cookies);
  expect(await dead(first.cookies)).toEqual([401, 401]);
  const { '__Host-refreshToken': refreshToken = '' } = jarOf(second);
  const third = await over(sent({ '__Host-refreshToken': refreshToken }));
  expect(await dead(sent(jarOf(second)))).toEqual([401, 401]);
  // A wrong password ends nothing; neither do a renewal and a step-up.
  const jar = sent(jarOf(third));
  expect(
    (
      await platform.client.post(
        '/authentication/local',
        { email, password: 'wrong' },
        { headers: { ...jar, ...ours } },
      )
    ).status,
  ).toBe(401);
  expect(
    (
      await platform.client.post(
        '/authentication/sudo',
        { password },
        { headers: { ...jar, ...ours } },
      )
    ).status,
  ).toBe(200);
  expect((await platform.client.get('/authentication/user', { headers: jar })).status).toBe(200);
});

test('so does one by a link in a mail, which ends in a redirect', async () => {
  await configure({ magic_link: { enabled: true, redirect_uri: 'https://app.example/in' } });
  const own = 'by-mail@example.com';
  await platform.client.post('/authentication/local/new', { email: own, password });
  const cookies = sent(
    jarOf(await platform.client.post('/authentication/local', { email: own, password })),
  );
  await platform.client.post('/authentication/magic-link', { email: own });
  const link = await createMailbox(platform.admin).link(own, 'MagicLink');
  const answer = await platform.client.send('POST', link.pathname, undefined, { headers: cookies });
  expect([answer.status, answer.headers.get('location')]).toEqual([302, 'https://app.example/in']);
  expect((await platform.client.get('/authentication/user', { headers: cookies })).status).toBe(
    401,
  );
  expect(
    (await platform.client.get('/authentication/user', { headers: sent(jarOf(answer)) })).status,
  ).toBe(200);
});

test('GraphQL asks the same', async () => {
  const { cookies, csrfToken } = await signIn();
  const query = 'mutation { deleteAuthenticationSessions { result } }';
  const ask = (headers: Record<string, string>) =>
    platform.client.post('/graphql', { query }, { headers: { ...cookies, ...headers } });
  expect((await ask(foreign)).text).toContain('CSRF_REFUSED');
  expect((await ask({ ...foreign, 'x-csrf-token': csrfToken })).text).toContain('sessions ended');
  const login = await platform.client.post('/graphql', {
    query:
      'mutation ($e: String!, $p: String!) { postAuthenticationLocal(params: { email: $e, password: $p }) { userId accessToken } }',
    variables: { e: email, p: password },
  });
  expect(login.text).toContain('"userId":');
  expect(login.text).not.toMatch(/eyJ/);
  expect(Object.keys(jarOf(login))).toContain('__Host-accessToken');
});

test('what browsers would refuse is 400 and names the field', async () => {
  for (const [options, field] of [
    [{ sameSite: 'None', secure: false }, 'sameSite'],
    [{ domain: 'a b' }, 'domain'],
    [{ path: 'x; Secure' }, 'path'],
  ] as const) {
    const answer = await configure({ accessTokens: { cookieOptions: options } });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(`accessTokens.cookieOptions.${field}`);
  }
});
