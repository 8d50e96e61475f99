/** Chat over two processes on one database, with Redis between them and without. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { describeWithPostgres15, describeWithRedis } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

function suite(redis: boolean): void {
  let nodes: TwoNodes;
  let ann: TestUser;
  let bob: TestUser;
  let eve: TestUser;
  const admin = () => nodes.first.admin;

  beforeAll(async () => {
    nodes = await startTwoNodes({ redis });
    ann = await nodes.first.registerUser();
    bob = await nodes.second.registerUser();
    eve = await nodes.second.registerUser();
    await configure(nodes.first, { rateLimit: { messagesPer10s: 100_000 } });
  }, 120_000);
  afterEach(closeClients);
  afterAll(() => nodes?.close(), 60_000);

  it('brings each message to the other node once and in order, whoever writes', async () => {
    const room = await makeRoom(ann, [bob, eve]);
    const [a, b] = [await connectChat(nodes.first, ann), await connectChat(nodes.second, bob)];
    const long = 'é'.repeat(7_000);
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(
        Array.from({ length: 16 }, (_, n) =>
          (n % 2 === 0 ? a : b).ask('message', room, n === 3 ? long : `${round}-${n}`),
        ),
      );
    }
    const expected = Array.from({ length: 80 }, (_, n) => n + 1);
    for (const client of [a, b]) {
      await waitFor(() => client.of('message').length >= 80);
      expect(client.of('message').map(({ seq }) => seq)).toEqual(expected);
    }
    expect(b.of('message').map(({ _id }) => _id)).toEqual(a.of('message').map(({ _id }) => _id));
    expect(b.of('message').filter(({ content }) => content === long)).toHaveLength(5);
  });

  it('moves members in and out on the other node before the call returns', async () => {
    const room = await makeRoom(ann, [bob], 'Shared');
    const [a, e] = [await connectChat(nodes.first, ann), await connectChat(nodes.second, eve)];
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    await a.ask('message', room, 'one');
    await waitFor(() => e.of('message').length === 1);
    expect(
      e.heard.map(({ event }) => event).filter((event) => event !== 'participants-changed'),
    ).toEqual(['room-joined', 'message']);
    await ann.api.put(`/chat/rooms/${room}/removeUsers`, { users: [eve.userId] });
    await a.ask('message', room, 'two');
    await waitFor(() => e.of('room-left').length === 1);
    await a.ask('message', room, 'three');
    expect(e.of('message')).toHaveLength(1);
    const { _id } = await a.ask('message', room, 'four');
    const b = await connectChat(nodes.second, bob);
    await ann.api.patch(`/chat/messages/${_id}`, { newMessage: 'five' });
    await waitFor(() => b.of('message-edited').length === 1);
    await b.ask('typing', { roomId: room, state: 'start' });
    await waitFor(() => a.of('typing').length === 1);
    await nodes.first.admin.delete('/chat/rooms', { query: { ids: room } });
    await waitFor(() => b.of('room-deleted').length === 1);
  });

  it('stores a nonce once, also when both nodes get it at the same time', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, other, b] = [
      await connectChat(nodes.first, ann),
      await connectChat(nodes.second, ann),
      await connectChat(nodes.second, bob),
    ];
    const message = { contentType: 'text', content: 'once', nonce: 'same' };
    const acks: Json[] = await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? a : other).ask('message', room, message)),
    );
    expect(new Set(acks.map(({ _id }) => _id)).size).toBe(1);
    await a.ask('message', room, 'end');
    await waitFor(() => b.of('message').some(({ content }) => content === 'end'));
    expect(b.of('message').map(({ content }) => content)).toEqual(['once', 'end']);
  });

  it.each<[string, (carl: TestUser) => Promise<{ readonly status: number }>]>([
    ['its end', ({ api }) => api.post('/authentication/logout')],
    ['a block', ({ userId }) => admin().post(`/authentication/users/${userId}/block`)],
    ['a deletion', ({ userId }) => admin().delete(`/authentication/users/${userId}`)],
  ])(
    'ends the sockets of a session on both nodes with %s, and tells them nothing behind it',
    async (_name, end) => {
      const carl = await nodes.first.registerUser();
      const room = await makeRoom(ann, [bob, carl]);
      const [a, b] = [await connectChat(nodes.first, ann), await connectChat(nodes.second, bob)];
      const ended = [await connectChat(nodes.first, carl), await connectChat(nodes.second, carl)];
      expect((await end(carl)).status).toBe(200);
      for (let n = 0; n < 5; n += 1) await a.ask('message', room, `behind ${n}`);
      await waitFor(() => b.of('message').length === 5);
      await waitFor(() => ended.every(({ socket }) => !socket.connected));
      expect(ended.flatMap(({ of }) => of('message'))).toEqual([]);
    },
  );

  it('loses no acknowledged message when a node is killed', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(nodes.first, ann), await connectChat(nodes.second, bob)];
    const acknowledged: number[] = [];
    let stopped = false;
    const sending = (async () => {
      for (let n = 0; !stopped; n += 1) {
        const ack = await a.socket
          .timeout(2_000)
          .emitWithAck('message', room, `m${n}`)
          .catch(() => undefined);
        if (ack?.ok) acknowledged.push(ack.seq);
        if (!a.socket.connected) return;
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
    })();
    await waitFor(() => acknowledged.length > 10);
    await nodes.first.kill();
    stopped = true;
    await sending;
    const last = acknowledged.at(-1) ?? 0;
    await waitFor(() => b.of('message').some(({ seq }) => seq >= last));
    const heard = b.of('message').map(({ seq }) => seq);
    expect(heard).toEqual(heard.map((_, at) => at + 1));
    expect(heard.length).toBeGreaterThanOrEqual(last);
    const elsewhere = nodes.second.client.with({ authorization: `Bearer ${ann.accessToken}` });
    const stored = await elsewhere.get('/chat/messages', { query: { roomId: room } });
    expect(stored.body.count).toBeGreaterThanOrEqual(last);
  });
}

await describeWithPostgres15('chat on two nodes without Redis', () => suite(false));
await describeWithRedis('chat on two nodes with Redis', () => suite(true));
