/** Two processes on one database act as one, with Redis between them and without. */
import { randomUUID } from 'node:crypto';
import { io } from 'socket.io-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../test/support/node.ts';
import { describeWithPostgres15, describeWithRedis } from '../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../test/support/two-nodes.ts';
import { waitFor } from '../test/support/wait-for.ts';

function suite(redis: boolean): void {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis });
  }, 120_000);
  afterAll(() => nodes?.close(), 60_000);

  it('a schema made at one serves at the other when the call returns', async () => {
    const { first, second } = nodes;
    const { api } = await second.registerUser();
    for (let index = 0; index < 5; index += 1) {
      const name = `Shared${randomUUID().slice(0, 8)}`;
      await first.createSchema({ name, fields: { text: 'String' } });
      expectStatus(await api.post(`/database/${name}`, { text: 'hello' }), 200, 'create at the other node');
    }
  });

  it('a session that ends at one has ended at the other', async () => {
    const { first, second } = nodes;
    const user = await first.registerUser();
    const elsewhere = second.client.with({ authorization: `Bearer ${user.accessToken}` });
    expectStatus(await elsewhere.get('/authentication/user'), 200, 'warm up the cache of the other node');
    expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
    expect((await elsewhere.get('/authentication/user')).status).toBe(401);
  });

  it('a revoked api token is refused by both', async () => {
    const { first, second } = nodes;
    const { id, token } = (await first.admin.post('/api-tokens', { name: 'shared' })).body;
    const credential = { headers: { credential: token } };
    expectStatus(await second.adminAnonymous.get('/config', credential), 200, 'token at the other node');
    expectStatus(await first.admin.delete(`/api-tokens/${id}`), 200, 'revocation');
    expect((await second.adminAnonymous.get('/config', credential)).status).toBe(401);
  });

  it('a configuration change holds at both when the call returns', async () => {
    const { first, second } = nodes;
    const changed = await first.admin.patch('/config/admin', { hostUrl: 'https://panel.example.com' });
    expect(changed.body.config.hostUrl).toBe('https://panel.example.com');
    expect((await second.admin.get('/config/admin')).body.config.hostUrl).toBe('https://panel.example.com');
    expectStatus(await first.admin.patch('/config/authentication', { active: false }), 200, 'off');
    expect((await second.client.post('/authentication/local', { email: 'a@example.com', password: 'x' })).status).toBeOneOf([404, 503]);
    expectStatus(await first.admin.patch('/config/authentication', { active: true }), 200, 'on');
    expect((await second.client.get('/authentication/user')).status).toBe(401);
  });

  it('a change at one reaches a socket at the other, until the session ends', async () => {
    const { first, second } = nodes;
    const user = await first.registerUser();
    await first.createSchema({ name: `Watched${redis}`, fields: { text: 'String' } });
    const extraHeaders = { authorization: `Bearer ${user.accessToken}` };
    const socket = io(`${second.addresses.realtime}/database/`, {
      path: '/realtime',
      transports: ['websocket'],
      reconnection: false,
      extraHeaders,
    });
    try {
      await waitFor(() => socket.connected, { what: 'the connection' });
      const changes: { documentId: string; operation: string; sequence: number }[] = [];
      socket.on('change', (change) => changes.push(change));
      expect(await socket.emitWithAck('subscribe', { schema: `Watched${redis}` })).toMatchObject({ ok: true });
      const { _id } = (await user.api.post(`/database/Watched${redis}`, { text: 'hello' })).body;
      const change = await waitFor(() => changes.find(({ documentId }) => documentId === _id), { what: 'the change' });
      expect(change).toMatchObject({ version: 1, operation: 'insert', schema: `Watched${redis}`, sequence: expect.any(Number) });
      expect(change).not.toHaveProperty('text');

      expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
      await waitFor(() => !socket.connected, { what: 'the end of the connection' });
    } finally {
      socket.close();
    }
  });
}

await describeWithPostgres15('two nodes on PostgreSQL alone', () => suite(false));
await describeWithRedis('two nodes with Redis', () => suite(true));
