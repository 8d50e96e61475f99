/** Live lists, tickets and the end of sessions over two processes on one database, with Redis between them and without. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { describeWithPostgres15, describeWithRedis } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { makeRoom } from '../chat/clients.ts';
import { closeClients, connect, create, createSchemas, grant, listen } from './clients.ts';
import { closeStreams, openEventStream, openSubscription } from './streams.ts';

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
  afterEach(() => {
    closeClients();
    closeStreams();
  });
  afterAll(() => nodes?.close(), 60_000);

  it('shows a grant and a revocation on the other node, and nothing afterwards', async () => {
    const id = await create(owner, 'Task', { title: 'one' });
    const lists = [
      await listen(nodes.first, reader, { schema: 'Task' }),
      await listen(nodes.second, reader, { schema: 'Task' }),
    ];
    const streams = await Promise.all([
      openEventStream(nodes.second, reader, { schema: 'Task' }),
      openSubscription(nodes.second, { token: reader.accessToken }),
    ]);
    const heard = [...lists, ...streams];
    const mine = await listen(nodes.second, owner, { schema: 'Task' });
    const revoke = await grant(nodes.first, reader, `Task:${id}`);
    await waitFor(() => heard.every(({ told }) => told.length === 1));
    await revoke();
    await waitFor(() => heard.every(({ told }) => told.length === 2));
    await owner.api.patch(`/database/Task/${id}`, { title: 'two' });
    await owner.api.delete(`/database/Task/${id}`);
    // It may have been read again only after both writes.
    await waitFor(() => mine.told.some((line) => line.startsWith('removed')));
    for (const { told } of heard) expect(told).toEqual(['added one', 'removed one']);
  });

  it('follows a role that is given and taken on one node, on what is open at the other', async () => {
    const teams = { enabled: true, memberAccess: 'read' };
    const config = { teams };
    expectStatus(await nodes.first.admin.patch('/config/authentication', { config }), 200, 'teams');
    const { _id: team } = (await owner.api.post('/authentication/teams', { name: 'two' })).body;
    const user = await nodes.second.registerUser();
    const heard = await Promise.all([
      listen(nodes.second, user, { schema: 'Task' }),
      openEventStream(nodes.second, user, { schema: 'Task' }),
      openSubscription(nodes.second, { token: user.accessToken }),
    ]);
    await create(owner, `Task?scope=Team:${team}`, { title: 'theirs' });
    const members = `/authentication/teams/${team}/members`;
    const added = await nodes.first.admin.post(members, { members: [user.userId] });
    expectStatus(added, 200, 'a member');
    await waitFor(() => heard.every(({ told }) => told.length === 1));
    const removed = await nodes.first.admin.delete(members, { query: { members: user.userId } });
    expectStatus(removed, 200, 'no member any more');
    await waitFor(() => heard.every(({ told }) => told.length === 2));
    await create(owner, `Task?scope=Team:${team}`, { title: 'later' });
    for (const { told } of heard) expect(told).toEqual(['added theirs', 'removed theirs']);

    const room = await makeRoom(owner, [user]);
    const [mine, theirs] = [
      await connect(nodes.first, owner, { namespace: '/chat/' }),
      await connect(nodes.second, user, { namespace: '/chat/' }),
    ];
    const said = await Promise.all(['a', 'b'].map((text) => mine.ask('message', room, text)));
    const role = (name: string) =>
      owner.api.put(`/chat/rooms/${room}/roles`, { users: [user.userId], role: name });
    const remove = (n: number) => theirs.ask('deleteMessage', { messageId: said[n]._id });
    expect(await remove(0)).toMatchObject({ ok: false });
    expectStatus(await role('admin'), 200, 'a role');
    expect(await remove(0)).toMatchObject({ ok: true });
    expectStatus(await role('member'), 200, 'no role any more');
    expect(await remove(1)).toMatchObject({ ok: false });
  });

  /** Everything that one session can have open: sockets of each namespace, event streams, subscriptions of GraphQL. */
  const sessions = async () => {
    const user = await nodes.first.registerUser();
    const sockets = [
      (await connect(nodes.first, user)).socket,
      (await connect(nodes.second, user)).socket,
      (await connect(nodes.second, user, { namespace: '/chat/' })).socket,
      (await connect(nodes.second, user, { namespace: '/communications/' })).socket,
      (await connect(nodes.second, user, { namespace: '/channels/' })).socket,
      (await connect(nodes.second, user, { auth: { ticket: await ticketOf(user) } })).socket,
    ];
    const streams = await Promise.all([
      openEventStream(nodes.first, user, { schema: 'Task' }),
      openEventStream(nodes.second, user, { schema: 'Task' }),
      openEventStream(nodes.second, { ticket: await ticketOf(user) }, { schema: 'Task' }),
      openSubscription(nodes.first, { token: user.accessToken }),
      openSubscription(nodes.second, { ticket: await ticketOf(user) }),
    ]);
    const ended = async () => {
      await waitFor(() => sockets.every((one) => !one.connected), { what: 'the end of sockets' });
      await waitFor(() => streams.every(({ end }) => end() !== undefined), {
        what: 'the end of streams',
      });
      for (const { end } of streams)
        expect([4403, 'TOKEN_INVALID', 'USER_BLOCKED']).toContain(end());
    };
    return { user, ended };
  };
  const ticketOf = async (user: TestUser): Promise<string> =>
    expectStatus(await user.api.post('/realtime/ticket'), 200, 'a ticket').body.ticket;

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

  it('ends the sockets of a session that is ended from another one, or by an operator', async () => {
    const [one, two] = [await sessions(), await sessions()];
    const other = await nodes.second.login(one.user.email, one.user.password);
    const own = expectStatus(await other.api.get('/authentication/sessions'), 200, 'sessions');
    const first = own.body.sessions.find((session: Json) => !session.current);
    expectStatus(await other.api.delete(`/authentication/sessions/${first._id}`), 200, 'the end');
    const all = `/authentication/users/${two.user.userId}/sessions`;
    expectStatus(await nodes.second.admin.delete(all), 200, 'the end of all');
    await one.ended();
    await two.ended();
  });

  it('takes a ticket once, however often it comes at the same time, and only while its session lasts', async () => {
    const user = await nodes.first.registerUser();
    const ticket = await ticketOf(user);
    const addresses = [nodes.first.addresses.client, nodes.second.addresses.client];
    const abort = new AbortController();
    const answers = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const url = `${addresses[n % 2]}/listen/ticket?schema=Post&ticket=${ticket}`;
        return (await fetch(url, { signal: abort.signal })).status;
      }),
    );
    abort.abort();
    expect(answers.filter((status) => status === 200)).toHaveLength(1);
    expect(answers.filter((status) => status === 401)).toHaveLength(49);

    const [unused, spare] = [await ticketOf(user), await ticketOf(user)];
    const search = await openSubscription(nodes.second, {}, `?ticket=${spare}`);
    expect(search.end()).toBeUndefined();
    expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
    for (const by of [unused, spare, '', 'x'.repeat(129)]) {
      const refused = openEventStream(nodes.second, { ticket: by }, { schema: 'Post' });
      await expect(refused).rejects.toThrow(/^(401|400) /);
    }
    await waitFor(() => search.end() === 4403);
    expect((await nodes.first.client.post('/realtime/ticket')).status).toBe(401);
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
    const config = { accessTokens: { expiryPeriod: 6_000 } };
    expectStatus(
      await nodes.first.admin.patch('/config/authentication', { config }),
      200,
      'short tokens',
    );
    try {
      const short = await nodes.first.registerUser();
      const [dying, living, ...streams] = await Promise.all([
        connect(nodes.first, short),
        connect(nodes.second, short),
        openEventStream(nodes.first, short, { schema: 'Task' }),
        ticketOf(short).then((ticket) =>
          openEventStream(nodes.second, { ticket }, { schema: 'Task' }),
        ),
        openSubscription(nodes.second, { token: short.accessToken }),
      ]);
      const list = await living.ask('watch', { schema: 'Post', query: { title: 'later' } });
      expect(list).toMatchObject({ ok: true, records: [] });
      const longer = { accessTokens: { expiryPeriod: 3_600_000 } };
      await nodes.first.admin.patch('/config/authentication', { config: longer });
      const { accessToken } = await nodes.first.login(short.email, short.password);
      expect(await living.ask('authenticate', { token: accessToken })).toEqual({ ok: true });
      await waitFor(() => !dying.socket.connected);
      await waitFor(() => streams.every(({ end }) => end() !== undefined));
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
