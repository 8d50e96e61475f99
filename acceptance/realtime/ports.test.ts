/** Two addresses, one server; several workers behind both, for clients that poll too. */
import { afterEach, describe, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform } from '../../test/support/platform.ts';
import { sendRaw } from '../../test/support/raw-http.ts';
import { spawnPlatform } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect, create, createSchemas } from './clients.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  closeClients();
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const ways = [
  { transports: ['polling'], upgrade: false },
  { transports: ['polling', 'websocket'] },
  { transports: ['websocket'] },
];

describe('the port of the client surface', () => {
  it('serves sockets below /realtime, and everything else as before', async () => {
    const platform = await createTestPlatform();
    cleanUps.push(() => platform.close());
    await createSchemas(platform);
    const user = await platform.registerUser();
    const sockets = await Promise.all(
      ways.map((way) => connect(platform, user, { ...way, at: platform.addresses.client })),
    );
    for (const { ask } of sockets)
      expect(await ask('watch', { schema: 'Post' })).toMatchObject({ ok: true, records: [] });
    await create(user, 'Post', { title: 'heard' });
    await waitFor(() =>
      sockets.every(({ heard }) => heard.some(({ event }) => event === 'records')),
    );
    const answer = await sendRaw(
      platform.addresses.client,
      'GET /ready HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe('a server that stops', () => {
  it('tells each socket when to come back, and leaves them free to', async () => {
    const platform = await createTestPlatform();
    const user = await platform.registerUser();
    const sockets = await Promise.all(
      ['/database/', '/chat/', '/communications'].map((namespace) =>
        connect(platform, user, { namespace }),
      ),
    );
    const reasons: string[] = [];
    for (const { socket } of sockets) socket.on('disconnect', (reason) => reasons.push(reason));
    await platform.close();
    await waitFor(() => reasons.length === sockets.length);
    // After `io server disconnect` a client does not come back by itself.
    expect(reasons).toEqual(sockets.map(() => 'transport close'));
    for (const { heard } of sockets) {
      const told = heard.filter(({ event }) => event === 'server-stopping');
      expect(told).toEqual([
        { event: 'server-stopping', data: { reconnectInMs: expect.any(Number) } },
      ]);
      expect(told[0]?.data.reconnectInMs).toBeLessThanOrEqual(1_000);
    }
  });
});

describe('WORKERS=2', { timeout: 180_000 }, () => {
  it('serves sockets from both, also those that poll', async () => {
    const platform = await spawnPlatform({ env: { WORKERS: '2' }, afterFirstStart: true });
    cleanUps.push(() => platform.dispose());
    await waitFor(() => platform.stdout().includes('This process serves'), { timeoutMs: 60_000 });
    await liftLimits(platform.admin);
    await createSchemas(platform);
    const user = await platform.registerUser();
    const sockets: Awaited<ReturnType<typeof connect>>[] = [];
    for (let round = 0; round < 6; round += 1)
      for (const way of ways)
        for (const at of [platform.addresses.client, platform.addresses.realtime])
          sockets.push(await connect(platform, user, { ...way, at }));
    const workers = sockets.map(({ socket }) => socket.io.engine.id?.split('~')[0]);
    expect(new Set(workers)).toEqual(new Set(['0', '1']));
    for (const { ask } of sockets)
      expect(await ask('watch', { schema: 'Post' })).toMatchObject({ ok: true });
    await create(user, 'Post', { title: 'heard' });
    await waitFor(() =>
      sockets.every(({ heard }) => heard.some(({ event }) => event === 'records')),
    );
    await user.api.post('/authentication/logout');
    await waitFor(() => sockets.every(({ socket }) => !socket.connected));
  });
});
