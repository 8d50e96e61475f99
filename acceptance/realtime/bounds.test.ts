/** What one connection may cost: readers that do not read, and far too many subscriptions (CWE-770). */
import { once } from 'node:events';
import { Manager } from 'socket.io-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type Api, createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients as closeChat, configure, connectChat, makeRoom } from '../chat/clients.ts';
import { closeClients, connect, create, createSchemas } from './clients.ts';

/** Characters of one message, and of one record. */
const LARGE_MESSAGE = 90_000;
const LARGE_RECORD = 400_000;
/** Messages that are written at once. */
const AT_ONCE = 5;
/** What may be on its way to a reader that stopped: what waits with us, once more in the transport, and in the kernel. */
const MAX_BYTES = 24_000_000;
/** More than any reader is kept. */
const MAX_MESSAGES = 300;

/** Frames over a connection that can stop to read, as a suspended phone does. */
async function openReader(platform: TestPlatform, user: TestUser, namespace: string) {
  const origin = platform.addresses.client.replace('http', 'ws');
  const socket = new WebSocket(`${origin}/realtime/?EIO=4&transport=websocket`, {
    perMessageDeflate: false,
  });
  const frames: string[] = [];
  let bytes = 0;
  socket.on('message', (data: Buffer) => {
    const frame = data.toString();
    bytes += data.length;
    // What was said stands at the beginning and the end.
    frames.push(frame.length > 1_000 ? `${frame.slice(0, 400)}...` : frame);
    if (frame === '2') socket.send('3');
  });
  await once(socket, 'open');
  socket.send(`40${namespace},${JSON.stringify({ token: user.accessToken })}`);
  await waitFor(() => frames.some((frame) => frame.startsWith(`40${namespace}`)));
  return {
    socket,
    frames,
    bytes: () => bytes,
    has: (text: string) => frames.some((frame) => frame.includes(text)),
    close: () => socket.terminate(),
  };
}

describe('bounds of a connection', () => {
  let platform: TestPlatform;
  let metrics: Api;
  let user: TestUser;
  let other: TestUser;

  beforeAll(async () => {
    const metricsPort = await freePort();
    platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
    metrics = createApi(`http://127.0.0.1:${metricsPort}`);
    await liftLimits(platform.admin);
    await createSchemas(platform);
    await configure(platform, {
      limits: { messageLength: 100_000 },
      rateLimit: { messagesPer10s: 10_000 },
    });
    [user, other] = [await platform.registerUser(), await platform.registerUser()];
  });
  afterEach(() => {
    closeClients();
    closeChat();
  });
  afterAll(() => platform?.close());

  it('tells a slow reader of a list `gap`, keeps a bounded amount for it, and goes on with the others', async () => {
    const request = { schema: 'Post', query: { state: 'large' } };
    const reader = await openReader(platform, user, '/database/');
    reader.socket.send(`42/database/,1${JSON.stringify(['watch', request])}`);
    await waitFor(() => reader.has('43/database/,1['));
    const quick = await connect(platform, other);
    expect(await quick.ask('watch', request)).toMatchObject({ ok: true });
    const told = () => quick.heard.filter(({ event }) => event === 'records').length;
    const before = await slowReaders();
    reader.socket.pause();
    const id = await create(user, 'Post', { title: 'first', state: 'large' });
    let sent = 0;
    while (sent < MAX_MESSAGES && (await slowReaders()) === before) {
      const heard = told();
      await user.api.patch(`/database/Post/${id}`, {
        title: `${sent} ${'x'.repeat(LARGE_RECORD)}`,
      });
      await waitFor(() => told() > heard);
      sent += 1;
    }
    expect(sent).toBeLessThan(MAX_MESSAGES);
    reader.socket.resume();
    await waitFor(() => reader.has('"gap"'));
    expect(reader.has('"reason":"slow"')).toBe(true);
    expect(reader.bytes()).toBeLessThan(MAX_BYTES);
    await user.api.patch(`/database/Post/${id}`, { title: 'last' });
    await waitFor(() => JSON.stringify(quick.heard.at(-1)).includes('"last"'));
    expect(quick.heard.some(({ event }) => event === 'gap')).toBe(false);
    // It asks anew on the same connection, and has it all.
    reader.socket.send(`42/database/,2${JSON.stringify(['watch', request])}`);
    await waitFor(() =>
      reader.frames.some((one) => one.startsWith('43/database/,2') && one.includes('last')),
    );
    reader.close();
  });

  it('ends a chat socket that does not read, and the others hear everything', async () => {
    const room = await makeRoom(user, [other]);
    const reader = await openReader(platform, user, '/chat/');
    const quick = await connectChat(platform, other);
    const before = await slowReaders();
    reader.socket.pause();
    let sent = 0;
    while (sent < MAX_MESSAGES && (await slowReaders()) === before) {
      const content = 'x'.repeat(LARGE_MESSAGE);
      const message = { contentType: 'text', content };
      const answers = await Promise.all(
        Array.from({ length: AT_ONCE }, () =>
          other.api.post(`/chat/rooms/${room}/messages`, message),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
      sent += AT_ONCE;
    }
    expect(sent).toBeLessThan(MAX_MESSAGES);
    await quick.ask('message', room, 'last');
    await waitFor(() => quick.of('message').length === sent + 1);
    const ended = once(reader.socket, 'close');
    reader.socket.resume();
    await ended;
    expect(reader.has('CONSUMER_TOO_SLOW')).toBe(true);
    expect(reader.bytes()).toBeLessThan(MAX_BYTES);
    // What it missed is there when it comes back.
    const again = await connectChat(platform, user);
    const missed = await again.ask('sync', { roomId: room, afterSeq: sent });
    expect(missed.messages.map(({ content }: Json) => content)).toEqual(['last']);
  });

  it('refuses what is more than a connection may hold, each in its acknowledgement', async () => {
    const { socket, ask } = await connect(platform, user);
    const witness = await connect(platform, other);
    const codes = new Map<string, number>();
    const tries = 10_000;
    let answered = 0;
    for (let n = 0; n < tries; n += 1)
      socket.emit('watch', { schema: 'Post', query: { rank: n } }, (answer: Json) => {
        const code = answer.ok ? 'ok' : (answer.error.code ?? answer.error.name);
        codes.set(code, (codes.get(code) ?? 0) + 1);
        answered += 1;
      });
    // Others are served meanwhile.
    expect(await witness.ask('watch', { schema: 'Post', limit: 1 })).toMatchObject({ ok: true });
    await waitFor(() => answered === tries, { timeoutMs: 30_000 });
    expect(socket.connected).toBe(true);
    expect(codes.get('ok')).toBeLessThanOrEqual(100);
    // More slowly, as far as it goes: the next one over the bound names the bound.
    let last: Json;
    let n = tries;
    await waitFor(
      async () => {
        last = await ask('watch', { schema: 'Post', query: { rank: n } });
        n += 1;
        return last.error?.status === 409;
      },
      { timeoutMs: 30_000, everyMs: 1 },
    );
    expect(last.error.code).toBe('SUBSCRIPTION_LIMIT_EXCEEDED');
    expect(socket.connected).toBe(true);
  });

  it('takes as many events of a socket as are set, and connections of an address', async () => {
    const realtime = async (change: Json) =>
      expectStatus(
        await platform.admin.patch('/config/router', { config: { realtime: change } }),
        200,
        'realtime',
      );
    const { ask } = await connect(platform, user);
    const refusedOf = async (events: number): Promise<number> =>
      (
        await Promise.all(
          Array.from({ length: events }, () => ask('unsubscribe', { schema: 'Post' })),
        )
      ).filter(({ error }) => error?.code === 'RATE_LIMIT').length;
    await realtime({ eventsPerSecond: 5 });
    expect(await refusedOf(20)).toBeGreaterThan(0);
    await realtime({ eventsPerSecond: 1_000 });
    expect(await refusedOf(300)).toBe(0);
    const open = async () =>
      (await fetch(`${platform.addresses.realtime}/realtime/?EIO=4&transport=polling`)).status;
    await realtime({ connectionsPer10s: 1 });
    await open();
    expect(await open()).toBe(403);
    await realtime({ eventsPerSecond: 50, connectionsPer10s: 100_000 });
    expect(await open()).toBe(200);
  });

  it('lets one connection into its namespaces, however few connections an address may open', async () => {
    const other = await createTestPlatform();
    try {
      const { accessToken: token } = await other.registerUser();
      const realtime = { connectionsPer10s: 2 };
      await other.admin.patch('/config/router', { config: { realtime } });
      const manager = new Manager(other.addresses.client, {
        path: '/realtime',
        transports: ['websocket'],
      });
      const entered = ['/database/', '/channels/', '/chat/'].map(
        (name) =>
          new Promise((resolve) => {
            const socket = manager.socket(name, { auth: { token } });
            socket.on('connect', () => resolve('entered'));
            socket.on('connect_error', ({ message }) => resolve(message));
            socket.connect();
          }),
      );
      expect(await Promise.all(entered)).toEqual(['entered', 'entered', 'entered']);
      manager._close();
    } finally {
      await other.close();
    }
  });

  it('refuses filters, positions and ids that are not meant for it, and goes on', async () => {
    const { socket, ask } = await connect(platform, user);
    const statusOf = async (request: object): Promise<number> => {
      const answer = await ask('watch', request);
      return answer.ok ? 200 : answer.error.status;
    };
    for (const query of [
      { $where: 'sleep(1)' },
      { title: { $regex: '(a+)+$', $options: 'xyz' } },
      { 'title; drop table x': 1 },
      { state: { $gt: { $ne: null } } },
      { password: 'x' },
      '$',
      7,
    ])
      expect(await statusOf({ schema: 'Post', query }), JSON.stringify(query)).toBe(400);
    expect(await statusOf({ schema: 'User' })).toBeLessThan(500);
    expect(await statusOf({ schema: '__proto__' })).toBe(404);
    expect(await statusOf({ schema: 'Post', documentId: "' or 1=1" })).toBe(400);
    const resumed = await ask('watch', { schema: 'Post', limit: 2, since: 'forged.99999' });
    expect(resumed).toMatchObject({ ok: true, gap: true });
    expect(socket.connected).toBe(true);
  });

  it('refuses messages, answers and nonces with the ids of other rooms and users', async () => {
    const [own, foreign] = [await makeRoom(user, [user]), await makeRoom(other, [other])];
    const [mine, theirs] = [await connectChat(platform, user), await connectChat(platform, other)];
    const message = { contentType: 'text', content: 'secret', nonce: 'replayed' };
    const { _id } = await theirs.ask('message', foreign, message);
    const codeOf = async (event: string, ...input: unknown[]): Promise<string> =>
      (await mine.ask(event, ...input)).error?.code;
    const unknown = 'CHAT_MESSAGE_NOT_FOUND';
    expect(await codeOf('message', foreign, message)).toBe('CHAT_ROOM_NOT_FOUND');
    expect(await codeOf('sync', { roomId: foreign, afterSeq: 0 })).toBe('CHAT_ROOM_NOT_FOUND');
    expect(await codeOf('messagesRead', own, { upTo: _id })).toBe(unknown);
    expect(await codeOf('react', { messageId: _id, emoji: '+' })).toBe(unknown);
    expect(await codeOf('editMessage', { messageId: _id, message: 'x' })).toBe(unknown);
    expect(await codeOf('deleteMessage', { messageId: _id })).toBe(unknown);
    const { nonce: _nonce, ...plain } = message;
    expect(await codeOf('message', own, { ...plain, threadRoot: _id })).toBe(unknown);
    // A nonce is one of its user and room: nobody learns by it what others sent.
    const replayed = await mine.ask('message', own, message);
    expect(replayed).toMatchObject({ ok: true, seq: 1 });
    expect(replayed._id).not.toBe(_id);
    expect(JSON.stringify(mine.heard)).not.toContain(_id);
  });

  it('takes back a crowd that lost its connections, while others sign in', async () => {
    // Connections of one address are counted: 200 in ten seconds.
    const open = () => Promise.all(Array.from({ length: 80 }, () => connect(platform, user)));
    for (const { socket } of await open()) socket.io.engine.close();
    const { email, password } = other;
    const [again, signedIn] = await Promise.all([
      open(),
      Promise.all(Array.from({ length: 5 }, () => platform.login(email, password))),
    ]);
    expect(again.every(({ socket }) => socket.connected)).toBe(true);
    expect(signedIn).toHaveLength(5);
    expect(await again[0]?.ask('watch', { schema: 'Post', limit: 1 })).toMatchObject({ ok: true });
  });

  const slowReaders = async (): Promise<number> => {
    const { text } = await metrics.get('/metrics');
    const line = text
      .split('\n')
      .find((one) => one.includes('realtime_slow_readers_total') && !one.startsWith('#'));
    return Number(line?.split(' ').at(-1) ?? 0);
  };
});
