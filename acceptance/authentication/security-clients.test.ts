/** Apps of the router ("security clients"): registered by operators, told apart on every transport of the client surface. */
import { io } from 'socket.io-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform?.close());

const path = '/router/security/client';
const validation = (clientValidation: boolean) =>
  platform.admin.patch('/config/router', { security: { clientValidation } });
const register = async (body: object) =>
  (await platform.admin.post(path, body)).body as Record<string, string>;
const headersOf = (app: Record<string, string>) => ({
  clientid: app.clientId ?? '',
  clientsecret: app.clientSecret ?? '',
});

test('an app is registered, listed without its secret, changed, and taken away', async () => {
  const app = await register({ platform: 'ANDROID', notes: 'the phone' });
  expect(app).toMatchObject({
    platform: 'ANDROID',
    domain: null,
    alias: `android:${app.clientId}`,
    notes: 'the phone',
  });
  expect(app.clientId).toMatch(/^[0-9a-f]{30}$/);
  expect(app.clientSecret).toMatch(/^[0-9a-f]{128}$/);
  const { body: listed, text } = await platform.admin.get(path);
  expect(listed.clients).toContainEqual(expect.objectContaining({ clientId: app.clientId }));
  expect(text).not.toContain(app.clientSecret);
  expect(text.toLowerCase()).not.toContain('secret');
  expect((await platform.admin.put(`${path}/${app._id}`, { alias: 'phone' })).body).toMatchObject({
    alias: 'phone',
    notes: 'the phone',
  });
  expect(
    (await platform.admin.patch(`/security/client/${app._id}`, { notes: 'both' })).body,
  ).toMatchObject({
    alias: 'phone',
    notes: 'both',
  });
  expect((await platform.admin.delete(`${path}/${app._id}`)).body).toEqual({
    message: 'Client deleted',
  });
  expect((await platform.admin.delete(`${path}/${app._id}`)).status).toBe(404);
});

test.each([
  [{ platform: 'TOASTER' }, 400],
  [{ platform: 'WEB' }, 400],
  [{ platform: 'WEB', domain: 'https://app.example.com' }, 400],
  [{ platform: 'WEB', domain: 'a.*.example.com' }, 400],
  [{ platform: 'WEB', domain: '*example.com' }, 400],
  [{ platform: 'CLI', domain: 'example.com' }, 400],
  [{ platform: 'CLI', alias: '' }, 400],
  [{ platform: 'CLI', alias: '   ' }, 400],
])('%j is refused', async (body, status) => {
  expect((await platform.admin.post(path, body)).status).toBe(status);
});

test('an alias belongs to one app', async () => {
  const one = await register({ platform: 'CLI', alias: 'tool' });
  expect(await platform.admin.post(path, { platform: 'CLI', alias: 'tool' })).toMatchObject({
    status: 409,
    body: { code: 'CLIENT_EXISTS' },
  });
  const two = await register({ platform: 'CLI' });
  expect(await platform.admin.patch(`${path}/${two._id}`, { alias: 'tool' })).toMatchObject({
    status: 409,
  });
  expect((await platform.admin.patch(`${path}/${one._id}`, { alias: 'tool' })).status).toBe(200);
});

test('while apps are told apart, only registered ones get in, on every transport', async () => {
  const user = await platform.registerUser();
  const app = await register({ platform: 'IOS' });
  await validation(true);
  try {
    expect(await platform.client.get('/authentication/sessions')).toMatchObject({
      status: 401,
      body: { code: 'CLIENT_REFUSED' },
    });
    expect((await platform.client.get('/ready')).status).toBe(200);
    expect((await platform.client.get('/.well-known/jwks.json')).status).toBe(200);
    expect((await platform.client.get('/hook/authentication/nothing')).status).toBe(404);
    for (const headers of [
      { clientid: app.clientId ?? '' },
      { ...headersOf(app), clientsecret: 'wrong' },
      { ...headersOf(app), clientid: '0'.repeat(30) },
    ]) {
      expect(
        (
          await platform.client
            .with(headers)
            .post('/authentication/local', { email: user.email, password: user.password })
        ).status,
      ).toBe(401);
    }
    const query = { query: '{ __typename }' };
    expect((await platform.client.post('/graphql', query)).status).toBe(401);
    expect((await platform.client.with(headersOf(app)).post('/graphql', query)).status).toBe(200);
    expect(await connects({ token: user.accessToken })).toBe('CLIENT_REFUSED');

    const phone = platform.client.with(headersOf(app));
    const login = await phone.post('/authentication/local', {
      email: user.email,
      password: user.password,
    });
    expect(login.status).toBe(200);
    const signedIn = phone.with({ authorization: `Bearer ${login.body.accessToken}` });
    expect((await signedIn.get('/authentication/user')).status).toBe(200);
    expect((await signedIn.get('/authentication/sessions')).body.sessions).toContainEqual(
      expect.objectContaining({ clientId: app.clientId }),
    );
    expect(
      await connects({
        token: login.body.accessToken,
        clientid: app.clientId,
        clientsecret: app.clientSecret,
      }),
    ).toBe('connected');

    // Tokens belong to the app that they were given to.
    const other = platform.client.with(headersOf(await register({ platform: 'CLI' })));
    expect(
      (
        await other
          .with({ authorization: `Bearer ${login.body.accessToken}` })
          .get('/authentication/user')
      ).status,
    ).toBe(401);
    expect(
      (
        await other
          .with({ authorization: `Bearer ${login.body.refreshToken}` })
          .post('/authentication/renew')
      ).status,
    ).toBe(401);
    expect(
      (
        await phone
          .with({ authorization: `Bearer ${user.accessToken}` })
          .get('/authentication/user')
      ).status,
    ).toBe(401);
    expect(
      await connects({
        token: user.accessToken,
        clientid: app.clientId,
        clientsecret: app.clientSecret,
      }),
    ).toBe('UNAUTHORIZED');
    expect(
      (
        await phone
          .with({ authorization: `Bearer ${login.body.refreshToken}` })
          .post('/authentication/renew')
      ).status,
    ).toBe(200);

    // What was taken away is refused for the next request.
    await platform.admin.delete(`${path}/${app._id}`);
    expect((await signedIn.get('/authentication/user')).status).toBe(401);
  } finally {
    await validation(false);
  }
  expect((await user.api.get('/authentication/user')).status).toBe(200);
});

test('a link in a mail opens a session of the app that asked for it', async () => {
  const user = await platform.registerUser();
  const app = await register({ platform: 'IOS' });
  await platform.admin.patch('/config/authentication', {
    config: { magic_link: { enabled: true } },
  });
  await validation(true);
  try {
    const phone = platform.client.with(headersOf(app));
    expect((await phone.post('/authentication/magic-link', { email: user.email })).status).toBe(
      200,
    );
    const [link = ''] = await waitFor(async () => {
      const { body } = await platform.admin.get('/communications/messages', {
        query: { recipient: user.email, template: 'MagicLink' },
      });
      return (await platform.admin.get(`/communications/messages/${body.messages[0]._id}`)).body
        .content?.links as string[] | undefined;
    });
    // The link is followed in a browser, which sends no headers of an app.
    const { body: tokens } = await platform.client.post(new URL(link).pathname);
    expect(
      (
        await phone
          .with({ authorization: `Bearer ${tokens.accessToken}` })
          .get('/authentication/user')
      ).body,
    ).toMatchObject({
      email: user.email,
    });
  } finally {
    await validation(false);
  }
});

test('a rotated secret works beside the one before, until that ends', async () => {
  const app = await register({ platform: 'LINUX' });
  await validation(true);
  const works = async (clientSecret: string | undefined) =>
    (
      await platform.client
        .with({ clientid: app.clientId ?? '', clientsecret: clientSecret ?? '' })
        .get('/authentication/user')
    ).body.code !== 'CLIENT_REFUSED';
  try {
    const { body: second } = await platform.admin.post(`${path}/${app._id}/secret`, {});
    expect([await works(app.clientSecret), await works(second.clientSecret)]).toEqual([true, true]);
    const { body: third } = await platform.admin.post(`${path}/${app._id}/secret`, {
      keepPreviousMs: 0,
    });
    expect([
      await works(app.clientSecret),
      await works(second.clientSecret),
      await works(third.clientSecret),
    ]).toEqual([false, false, true]);
  } finally {
    await validation(false);
  }
});

/** CWE-1289, comparing names by their ends: https://cwe.mitre.org/data/definitions/1289.html (spec/authentication.md W35). */
test('pages are known by where the browser says that they come from, label by label', async () => {
  const app = await register({ platform: 'WEB', domain: '*.Example.com' });
  expect(app.domain).toBe('*.example.com');
  const exact = await register({ platform: 'WEB', domain: 'app.example.org' });
  await validation(true);
  const passes = async (clientid: string | undefined, origin: string | undefined) =>
    (
      await platform.client
        .with({ clientid: clientid ?? '', ...(origin === undefined ? {} : { origin }) })
        .get('/authentication/user')
    ).body.code !== 'CLIENT_REFUSED';
  try {
    for (const origin of [
      'https://a.example.com',
      'https://a.b.example.com',
      'http://a.example.com:8080',
    ])
      expect(await passes(app.clientId, origin)).toBe(true);
    for (const origin of [
      'https://example.com',
      'https://evilexample.com',
      'https://example.com.evil.net',
      'null',
      'https://a.example.com.',
      undefined,
    ]) {
      expect({ origin, passes: await passes(app.clientId, origin) }).toEqual({
        origin,
        passes: false,
      });
    }
    expect(await passes(exact.clientId, 'https://app.example.org')).toBe(true);
    expect(await passes(exact.clientId, 'https://x.app.example.org')).toBe(false);
  } finally {
    await validation(false);
  }
});

function connects(auth: Record<string, unknown>): Promise<string> {
  const socket = io(`${platform.addresses.realtime}/database/`, {
    path: '/realtime',
    auth,
    transports: ['websocket'],
    reconnection: false,
  });
  return new Promise((resolve) => {
    const end = (text: string) => {
      socket.disconnect();
      resolve(text);
    };
    socket.on('connect', () => end('connected'));
    socket.on('connect_error', (error) =>
      end(String((error as { data?: { code?: string } }).data?.code ?? error.message)),
    );
  });
}

test('the API description says which apps must show themselves, while they must', async () => {
  const described = async () => (await platform.client.get('/swagger.json')).body;
  const schemes = ['clientId', 'clientSecret'];
  const before = await described();
  expect(Object.keys(before.components.securitySchemes)).not.toEqual(
    expect.arrayContaining(schemes),
  );
  const app = await register({ platform: 'CLI' });
  await validation(true);
  try {
    const { body: now } = await platform.client.with(headersOf(app)).get('/swagger.json');
    expect(now.components.securitySchemes).toMatchObject({
      clientId: { type: 'apiKey', in: 'header', name: 'clientid' },
      clientSecret: { type: 'apiKey', in: 'header', name: 'clientsecret' },
    });
    expect(now.paths['/authentication/user'].get.security).toEqual([
      { userToken: [], clientId: [], clientSecret: [] },
      { userToken: [], clientId: [] },
    ]);
    const open = now.paths['/authentication/local'].post;
    expect(open.security).toEqual([{ clientId: [], clientSecret: [] }, { clientId: [] }]);
    expect(Object.keys(open.responses)).toContain('401');
    expect(now.security).toEqual([
      { userToken: [], clientId: [], clientSecret: [] },
      { clientId: [], clientSecret: [] },
      { userToken: [], clientId: [] },
      { clientId: [] },
    ]);
    expect(now.paths['/ready'].get.security).toEqual([]);
  } finally {
    await validation(false);
  }
  expect(await described()).toEqual(before);
});
