/** Functions over two processes on one database: what is stored at one serves at the other when the call returns. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect } from '../realtime/clients.ts';
import { upload } from './requests.ts';

await describeWithPostgres15('functions on two nodes', () => {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
  }, 120_000);
  afterEach(closeClients);
  afterAll(() => nodes?.close(), 60_000);

  it('a request function serves, changes and ends at the other node when the call returns', async () => {
    const { first, second } = nodes;
    for (let index = 0; index < 5; index += 1) {
      const name = `shared_${index}`;
      const { _id } = await upload(first.admin, { name, functionCode: 'return 1' });
      // Asked once, without waiting.
      const made = await second.client.get(`/functions/${name}`);
      expect([made.status, made.text]).toEqual([200, '{"result":1}']);
      await first.admin.patch(`/functions/${_id}`, { functionCode: 'return 2' });
      expect((await second.client.get(`/${name}`)).text).toBe('{"result":2}');
      await first.admin.delete(`/functions/${_id}`);
      expect((await second.client.get(`/functions/${name}`)).status).toBe(404);
      expect((await second.client.get(`/${name}`)).status).toBe(404);
    }
  });

  it('a socket function serves at the other node, and sends to sockets of both', async () => {
    const { first, second } = nodes;
    const given = { name: 'relay', functionType: 'socket', inputs: { event: 'ask', auth: true } };
    const { _id } = await upload(first.admin, { ...given, functionCode: 'return req.params[0]' });
    const [ann, bob] = [await first.registerUser(), await second.registerUser()];
    const b = await connect(second, bob, { namespace: '/relay' });
    const a = await connect(first, ann, { namespace: '/functions/relay' });
    await b.ask('ask', { event: 'join-room', rooms: ['red'] });
    await a.ask('ask', { event: 'room', data: 1, rooms: ['red'] });
    await a.ask('ask', { event: 'direct', data: 2, receivers: [bob.userId] });
    await waitFor(() => b.heard.length === 2);
    expect(b.heard).toEqual([
      { event: 'room', data: 1 },
      { event: 'direct', data: 2 },
    ]);
    expect(a.heard).toEqual([]);
    await first.admin.delete(`/functions/${_id}`);
    await waitFor(() => a.socket.disconnected && b.socket.disconnected);
  });
});
