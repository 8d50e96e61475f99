/** Sockets that a page of somebody else opens with the cookie of a user: https://christian-schneider.net/blog/cross-site-websocket-hijacking/ (CWE-1385). */
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let socket: Socket | undefined;
let cookie = '';
let csrfToken = '';

beforeAll(async () => {
  platform = await createTestPlatform();
  const credentials = { email: 'ada@example.com', password: 'correct horse battery staple' };
  await platform.client.post('/authentication/local/new', credentials);
  await platform.admin.patch('/config/authentication', {
    config: { accessTokens: { setCookie: true } },
  });
  const { body, headers } = await platform.client.post('/authentication/local', credentials);
  cookie = headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';
  csrfToken = body.csrfToken;
});
afterEach(() => void socket?.disconnect());
afterAll(() => platform.close());

/** `connected`, or the code of the refusal. */
function connect(options: Partial<ManagerOptions & SocketOptions>): Promise<string> {
  const opened = io(`${platform.addresses.realtime}/database/`, {
    path: '/realtime',
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    ...options,
  });
  socket = opened;
  return new Promise((resolve) => {
    opened.on('connect', () => resolve('connected'));
    opened.on('connect_error', (error) =>
      resolve((error as { data?: { code?: string } }).data?.code ?? error.message),
    );
  });
}

test.each<[string, string, Record<string, string>, boolean]>([
  ['of this host', 'connected', { 'sec-fetch-site': 'same-origin' }, false],
  [
    'of another site',
    'CSRF_REFUSED',
    { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
    false,
  ],
  [
    'of another site, without the newer header',
    'CSRF_REFUSED',
    { origin: 'https://evil.example' },
    false,
  ],
  [
    'of another site with the token of the session',
    'connected',
    { origin: 'https://app.example.com' },
    true,
  ],
])('the cookie from a page %s: %s', async (_page, expected, headers, withToken) => {
  expect(
    await connect({
      extraHeaders: { cookie, ...headers },
      ...(withToken ? { auth: { csrfToken } } : {}),
    }),
  ).toBe(expected);
});
