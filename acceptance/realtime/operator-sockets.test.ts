/** Sockets of the admin surface: who gets in, what each may hear, and when it ends. */
import { io, type Socket } from 'socket.io-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { connectChat, makeRoom } from '../chat/clients.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;
let ownPort: number;
const sockets: Socket[] = [];

const switchTo = async (on: boolean): Promise<void> =>
  void expectStatus(
    await platform.admin.patch('/config/admin', { config: { transports: { sockets: on } } }),
    200,
    'sockets',
  );

beforeAll(async () => {
  ownPort = await freePort();
  platform = await createTestPlatform({ env: { ADMIN_SOCKET_PORT: String(ownPort) } });
  [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  await switchTo(true);
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.disconnect();
});
afterAll(() => platform?.close());

function dial(namespace: string, options: Parameters<typeof io>[1], at?: string): Socket {
  const socket = io(`${at ?? platform.addresses.admin}${namespace}`, {
    path: '/realtime',
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    ...options,
  });
  sockets.push(socket);
  return socket;
}

const byKey = { auth: { masterkey: 'test-master-key-0123456789' } };

async function listen(namespace: string, options: Parameters<typeof io>[1] = byKey, at?: string) {
  const socket = dial(namespace, options, at);
  const heard: { event: string; data: Json }[] = [];
  socket.onAny((event: string, data: Json) => heard.push({ event, data }));
  await waitFor(() => socket.connected, { what: 'the connection' });
  return {
    socket,
    heard,
    of: (event: string): Json[] => heard.filter((one) => one.event === event).map((o) => o.data),
    ask: (event: string, input: unknown): Promise<Json> =>
      socket.timeout(10_000).emitWithAck(event, input),
  };
}

const refused = (namespace: string, options: Parameters<typeof io>[1]): Promise<Json> =>
  new Promise((resolve, reject) => {
    const socket = dial(namespace, options);
    socket.on('connect_error', (error) =>
      resolve((error as { data?: Json }).data ?? { message: error.message }),
    );
    socket.on('connect', () => reject(new Error('It was let in')));
  });

async function apiToken(scopes: readonly string[]) {
  const body = { name: scopes.join('-') || 'all', ...(scopes.length > 0 && { scopes }) };
  return expectStatus(await platform.admin.post('/api-tokens', body), 200, 'token').body;
}

/** An operator who is no super admin, signed in. */
async function operator(username: string) {
  const password = 'Correct-Horse-43';
  const made = await platform.admin.post('/admins', { username, password });
  expectStatus(made, 200, 'an operator');
  const login = (word: string) => platform.admin.post('/login', { username, password: word });
  const { token } = expectStatus(await login(password), 200, 'login').body;
  const own = platform.adminAnonymous.with({ authorization: `Bearer ${token}` });
  const listed = (await platform.admin.get('/admins')).body.admins as Json[];
  const id = listed.find((one) => one.username === username)?._id as string;
  return { token: token as string, api: own, id };
}

describe('who gets in', () => {
  it('each credential of the admin surface, on both addresses and in both spellings', async () => {
    const session = await platform.adminLogin();
    const { token } = await apiToken([]);
    const ways: Parameters<typeof io>[1][] = [
      byKey,
      { extraHeaders: { masterkey: platform.masterKey } },
      { auth: { token: session } },
      { extraHeaders: { authorization: `Bearer ${session}` } },
      { auth: { authorization: `Bearer ${token}` } },
      { extraHeaders: { credential: token } },
    ];
    for (const way of ways) await listen('/core/', way);
    await listen('/chat', byKey, `http://127.0.0.1:${ownPort}`);
  });

  it('nobody else: no credential, a wrong one, a user, a token for other modules', async () => {
    const { token } = await apiToken(['read', 'storage']);
    expect(await refused('/chat/', {})).toMatchObject({ status: 401 });
    expect(await refused('/chat/', { auth: { token: 'nonsense' } })).toMatchObject({ status: 401 });
    expect(await refused('/chat/', { auth: { masterkey: 'wrong' } })).toMatchObject({
      status: 401,
    });
    expect(await refused('/chat/', { auth: { token: ann.accessToken } })).toMatchObject({
      status: 401,
    });
    expect(await refused('/chat/', { auth: { token } })).toMatchObject({
      status: 403,
      code: 'SCOPE_EXCEEDED',
    });
    expect(await refused('/nothing/', byKey)).toMatchObject({ message: 'Invalid namespace' });
    // And an operator is no user.
    const client = dial('/chat/', byKey, platform.addresses.realtime);
    await new Promise((resolve) => client.on('connect_error', resolve));
  });
});

describe('tickets', () => {
  it('stand for the credential once, for sockets of operators alone', async () => {
    const { token } = await apiToken(['read', 'core', 'chat']);
    const byToken = platform.adminAnonymous.with({ credential: token });
    const narrowed = await byToken.post('/realtime/ticket');
    const ticket = expectStatus(
      await platform.admin.post('/realtime/ticket'),
      200,
      'a ticket',
    ).body;
    expect(ticket).toMatchObject({ expiresIn: 30 });
    await listen('/core/', { auth: { ticket: ticket.ticket } });
    expect(await refused('/core/', { auth: { ticket: ticket.ticket } })).toMatchObject({
      status: 401,
    });
    const other = (await platform.admin.post('/realtime/ticket')).body.ticket;
    await listen('/chat/', { query: { ticket: other } }, `http://127.0.0.1:${ownPort}`);
    const asUser = (await ann.api.post('/realtime/ticket')).body.ticket;
    expect(await refused('/chat/', { auth: { ticket: asUser } })).toMatchObject({ status: 401 });
    // What it stands for is no wider than what it was given for.
    if (narrowed.status === 200)
      expect(await refused('/router/', { auth: { ticket: narrowed.body.ticket } })).toMatchObject({
        status: 403,
        code: 'SCOPE_EXCEEDED',
      });
    else expect(narrowed.body.code).toBe('SCOPE_EXCEEDED');
    expect((await platform.adminAnonymous.post('/realtime/ticket')).status).toBe(401);
  });
});

describe('what is heard', () => {
  it('rooms, members and reports of chat, and messages for who asks', async () => {
    const { token } = await apiToken(['read', 'chat']);
    const panel = await listen('/chat/', { auth: { token } });
    const room = await makeRoom(ann, [bob], 'Reported');
    await waitFor(() => panel.of('room:created').some((one) => one.room === room));
    expect(panel.of('room:created').at(-1)).toMatchObject({
      ...{ room, name: 'Reported', actor: `user:${ann.userId}`, at: expect.any(String) },
    });
    const b = await connectChat(platform, bob);
    const { _id: first } = await b.ask('message', room, 'not heard');
    expect(await panel.ask('subscribe', { topics: ['message:sent'] })).toMatchObject({
      ok: true,
      topics: expect.arrayContaining(['message:sent', 'room:created']),
    });
    const { _id } = await b.ask('message', room, 'secret words');
    const sent = await waitFor(() => panel.of('message:sent').find((one) => one.message === _id));
    expect(sent).toMatchObject({ room, sender: bob.userId, contentType: 'text', seq: 2 });
    const report = await ann.api.post(`/chat/messages/${_id}/report`, { reason: 'rude' });
    expectStatus(report, 200, 'report');
    await waitFor(() => panel.of('message:reported').length > 0);
    const [{ report: id }] = panel.of('message:reported') as [Json];
    expect(panel.of('message:reported')[0]).toMatchObject({ message: _id, room });
    const { body } = await platform.admin.get('/chat/reports');
    expect(body.reports.some((one: Json) => one._id === id)).toBe(true);
    await ann.api.delete(`/chat/messages/${first}`);
    await bob.api.delete(`/chat/messages/${first}`);
    await bob.api.put(`/chat/leave/${room}`);
    await waitFor(() => panel.of('members:changed').some((one) => one.room === room));
    await waitFor(() => panel.of('message:deleted').some((one) => one.message === first));
    expect(JSON.stringify(panel.heard)).not.toContain('secret words');
    b.close();
  });

  it('configuration, modules and routes', async () => {
    const panel = await listen('/core/');
    const active = (on: boolean) =>
      platform.admin.patch('/config/forms', { config: { active: on } });
    expectStatus(await active(false), 200, 'off');
    await waitFor(() => panel.of('module:down').length > 0);
    expectStatus(await active(true), 200, 'on');
    await waitFor(() => panel.of('module:up').length > 0);
    expect(panel.of('module:down')).toEqual([{ module: 'forms' }]);
    expect(panel.of('module:up')).toEqual([{ module: 'forms' }]);
    expect(panel.of('config:update')).toContainEqual({ module: 'forms' });
    const counts = panel.of('routes:refresh').map(({ client }) => client);
    expect(Math.max(...counts)).toBeGreaterThan(Math.min(...counts));
  });

  it('who is connected, and each socket for who asks', async () => {
    const panel = await listen('/router/');
    await panel.ask('subscribe', { topics: ['socket:opened', 'socket:closed'] });
    const client = await connectChat(platform, ann);
    await waitFor(() => panel.of('socket:opened').length > 0);
    client.close();
    await waitFor(() => panel.of('socket:closed').length > 0);
    expect(panel.of('socket:opened')[0]).toMatchObject({ namespace: '/chat/', user: ann.userId });
    expect(panel.of('socket:closed')[0]).toMatchObject({ reason: expect.any(String) });
  });

  it('the log for super admins alone, and events for credentials without scopes', async () => {
    const root = await listen('/core/');
    const { token: narrow } = await apiToken(['read', 'core']);
    const scoped = await listen('/core/', { auth: { token: narrow } });
    const other = await operator('listener');
    const plain = await listen('/core/', { auth: { token: other.token } });
    const code = (answer: Json): string => answer.error?.code ?? 'heard';
    const asks = async (topic: string) =>
      Promise.all(
        [root, plain, scoped].map(async ({ ask }) =>
          code(await ask('subscribe', { topics: [topic] })),
        ),
      );
    expect(await asks('event')).toEqual(['heard', 'heard', 'SCOPE_EXCEEDED']);
    expect((await asks('log'))[0]).toBe('heard');
    expect((await asks('log')).slice(1)).not.toContain('heard');
    const container = { name: 'seen-by-operators' };
    expectStatus(await platform.admin.post('/storage/containers', container), 200, 'container');
    const line = await waitFor(() =>
      root.of('log').find(({ message }) => message === 'A container was made'),
    );
    expect(line).toMatchObject({ level: 'info', fields: { module: 'storage' } });
    const room = await makeRoom(ann, [bob]);
    await waitFor(() => plain.of('event').some(({ ids = [] }) => ids.includes(room)));
    expect(plain.of('event').every((one) => one.payload === undefined)).toBe(true);
    expect([plain.of('log'), scoped.of('log'), scoped.of('event')]).toEqual([[], [], []]);
  });

  it('bad input is refused, and the connection stays', async () => {
    const panel = await listen('/chat/');
    for (const input of [{}, { topics: 'log' }, { topics: [] }, { topics: [7] }, null])
      expect(await panel.ask('subscribe', input)).toMatchObject({ error: { status: 400 } });
    expect(await panel.ask('subscribe', { topics: ['nothing'] })).toMatchObject({
      error: { status: 404, code: 'SUBSCRIPTION_NOT_FOUND' },
    });
    expect(await panel.ask('message', {})).toMatchObject({ error: { code: 'EVENT_UNKNOWN' } });
    expect(await panel.ask('unsubscribe', { topics: ['room:created'] })).toMatchObject({
      ok: true,
    });
    expect(panel.socket.connected).toBe(true);
  });
});

describe('when it ends', () => {
  const ended = async (panel: { socket: Socket }) =>
    waitFor(() => !panel.socket.connected, { what: 'the end' });

  it('with the session, the account and the token', async () => {
    const made = await operator('leaver');
    const bySession = await listen('/core/', { auth: { token: made.token } });
    expectStatus(await made.api.post('/logout', {}), 200, 'logout');
    await ended(bySession);
    expect(bySession.of('conduit_error')[0]).toMatchObject({ status: 401 });
    const gone = await operator('gone');
    const byAccount = await listen('/core/', { auth: { token: gone.token } });
    expectStatus(await platform.admin.delete(`/admins/${gone.id}`), 200, 'deletion');
    await ended(byAccount);
    const { token, id } = await apiToken(['read']);
    const byToken = await listen('/chat/', { auth: { token } });
    expectStatus(await platform.admin.delete(`/api-tokens/${id}`), 200, 'revocation');
    await ended(byToken);
  });

  it('with the switch, and it is described whatever the switch says', async () => {
    const panels = [
      await listen('/core/'),
      await listen('/chat/', byKey, `http://127.0.0.1:${ownPort}`),
    ];
    await switchTo(false);
    for (const panel of panels) await ended(panel);
    expect(await refused('/core/', byKey)).toBeDefined();
    await switchTo(true);
    await listen('/core/', byKey, `http://127.0.0.1:${ownPort}`);
    expect((await platform.adminAnonymous.get('/asyncapi.json')).status).toBe(401);
    const { body } = await platform.admin.get('/asyncapi.json');
    expect(Object.keys(body.channels).sort()).toEqual(['chat', 'core', 'router']);
    expect(body.operations['chat.send.message:reported']).toMatchObject({ action: 'send' });
    expect(body.operations['core.receive.subscribe']).toMatchObject({ action: 'receive' });
  });
});
