/** Live lists and the end of sessions over two processes on one database, with Redis between them and without. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { describeWithPostgres15, describeWithRedis } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect, create, createSchemas, grant, listen } from './clients.ts';

function suite(redis: boolean): void {
  let nodes: TwoNodes;
  let owner: TestUser;
  let reader: TestUser;

  beforeAll(async () => {
    nodes = await startTwoNodes({ redis });
    await liftLimits(nodes.first.admin);
    owner = await nodes.first.registerUser();
    reader = await nodes.second.registerUser();
    await createSchemas(nodes.first);
  }, 120_000);
  afterEach(closeClients);
  afterAll(() => nodes?.close(), 60_000);

  it('shows a grant and a revocation on the other node, and nothing afterwards', async () => {
    const id = await create(owner, 'Task', { title: 'one' });
    const lists = [
      await listen(nodes.first, reader, { schema: 'Task' }),
      await listen(nodes.second, reader, { schema: 'Task' }),
    ];
    const mine = await listen(nodes.second, owner, { schema: 'Task' });
    const revoke = await grant(nodes.first, reader, `Task:${id}`);
    await waitFor(() => lists.every(({ told }) => told.length === 1));
    await revoke();
    await waitFor(() => lists.every(({ told }) => told.length === 2));
    await owner.api.patch(`/database/Task/${id}`, { title: 'two' });
    await owner.api.delete(`/database/Task/${id}`);
    // It may have been read again only after both writes.
    await waitFor(() => mine.told.some((line) => line.startsWith('removed')));
    for (const { told } of lists) expect(told).toEqual(['added one', 'removed one']);
  });

  const sessions = async () => {
    const user = await nodes.first.registerUser();
    const sockets = [
      (await connect(nodes.first, user)).socket,
      (await connect(nodes.second, user)).socket,
      (await connect(nodes.second, user, { namespace: '/chat/' })).socket,
    ];
    const ended = () => waitFor(() => sockets.every((one) => !one.connected));
    return { user, ended };
  };

  it('ends the sockets of a session that is logged out', async () => {
    const { user, ended } = await sessions();
    expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
    await ended();
  });

  it('ends the sockets of a user who is blocked', async () => {
    const { user, ended } = await sessions();
    const path = `/authentication/users/${user.userId}/block`;
    expectStatus(await nodes.second.admin.post(path), 200, 'block');
    await ended();
  });

  it('ends the sockets of sessions that a new password has ended', async () => {
    const { user, ended } = await sessions();
    const other = await nodes.second.login(user.email, user.password);
    const changed = await other.api.post('/authentication/local/change-password', {
      oldPassword: user.password,
      newPassword: 'Another-Horse-99',
    });
    expectStatus(changed, 200, 'a new password');
    await ended();
  });

  it('ends the sockets of a user who is deleted', async () => {
    const { user, ended } = await sessions();
    expectStatus(
      await nodes.first.admin.delete(`/authentication/users/${user.userId}`),
      200,
      'deletion',
    );
    await ended();
  });

  it('ends a socket with its token, and lets it live on with another one', async () => {
    const config = { accessTokens: { expiryPeriod: 5_000 } };
    expectStatus(
      await nodes.first.admin.patch('/config/authentication', { config }),
      200,
      'short tokens',
    );
    try {
      const short = await nodes.first.registerUser();
      const [dying, living] = [
        await connect(nodes.first, short),
        await connect(nodes.second, short),
      ];
      const list = await living.ask('watch', { schema: 'Post', query: { title: 'later' } });
      expect(list).toMatchObject({ ok: true, records: [] });
      const longer = { accessTokens: { expiryPeriod: 3_600_000 } };
      await nodes.first.admin.patch('/config/authentication', { config: longer });
      const { accessToken } = await nodes.first.login(short.email, short.password);
      expect(await living.ask('authenticate', { token: accessToken })).toEqual({ ok: true });
      await waitFor(() => !dying.socket.connected);
      await create(owner, 'Post', { title: 'later' });
      await waitFor(() => living.heard.some(({ event }) => event === 'records'));
      expect(living.socket.connected).toBe(true);
    } finally {
      await nodes.first.admin.patch('/config/authentication', {
        config: { accessTokens: { expiryPeriod: 3_600_000 } },
      });
    }
  });

  it('goes on elsewhere when a node is killed', async () => {
    const request = { schema: 'Post', query: { state: 'survives' } };
    await create(owner, 'Post', { title: 'a', state: 'survives' });
    const here = await listen(nodes.first, reader, request);
    const witness = await listen(nodes.second, reader, request);
    await nodes.first.kill();
    const elsewhere = nodes.second.client.with({ authorization: `Bearer ${owner.accessToken}` });
    await elsewhere.post('/database/Post', { title: 'b', state: 'survives' });
    await waitFor(() => witness.records.length === 2);
    const again = await listen(nodes.second, reader, { ...request, since: here.position() });
    expect(again.acknowledged.gap).toBe(true);
    expect(again.records).toEqual(witness.records);
  });
}

await describeWithPostgres15('realtime on two nodes without Redis', () => suite(false));
await describeWithRedis('realtime on two nodes with Redis', () => suite(true));
