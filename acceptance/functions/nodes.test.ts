/** Functions over two processes on one database: what is stored at one serves at the other when the call returns. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { describeWithPostgres15, describeWithRedis } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect } from '../realtime/clients.ts';
import { follow, upload } from './requests.ts';

await describeWithPostgres15('functions on two nodes', () => suite(false));
await describeWithRedis('functions on two nodes with Redis', () => suite(true));

function suite(redis: boolean): void {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis });
    await liftLimits(nodes.first.admin);
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

  it('logs of runs at one node are followed at the other', async () => {
    const { first, second } = nodes;
    const code = 'console.log("from " + req.params.at); return 1;';
    const inputs = { method: 'GET', queryParams: { at: 'String' } };
    await upload(first.admin, { name: 'followed', inputs, functionCode: code });
    const listening = await follow(second, '?function=followed');
    // Until the first node knows that the second listens, it tells nothing.
    await waitFor(async () => {
      await first.client.get('/functions/followed?at=first');
      return listening.lines.some(({ text }) => text === 'from first');
    });
    await second.client.get('/functions/followed?at=second');
    await waitFor(() => listening.lines.some(({ text }) => text === 'from second'));
    await listening.close();
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
    // Rooms and users are told by ways of their own.
    expect(b.heard.toSorted((x, y) => Number(x.data) - Number(y.data))).toEqual([
      { event: 'room', data: 1 },
      { event: 'direct', data: 2 },
    ]);
    expect(a.heard).toEqual([]);
    await first.admin.delete(`/functions/${_id}`);
    await waitFor(() => a.socket.disconnected && b.socket.disconnected);
  });

  it('hooks, events and schedules hold at both, and each time and event runs once', async () => {
    const { first, second } = nodes;
    const open = { enabled: true, authenticated: false };
    for (const name of ['Order', 'Noted'])
      await first.createSchema({
        ...{ name, fields: { text: 'String', at: 'String' } },
        conduitOptions: { cms: { enabled: true, crudOperations: { create: open, read: open } } },
      });
    const noting = (text: string, at: string) =>
      `export default (ctx, req) => ctx.system.db.create('Noted', { text: ${text}, at: String(${at}) });`;
    const inputs = { rights: 'system' };
    const given = [
      {
        ...{ name: 'before', functionType: 'hook', functionCode: "return { text: 'hooked' };" },
        inputs: { trigger: { schema: 'Order', op: 'create', when: 'before' } },
      },
      {
        ...{ name: 'heard', functionType: 'event', functionCode: noting("'event'", 'req._id') },
        inputs: { ...inputs, event: 'database:create:Order' },
      },
      {
        ...{ name: 'ticks', functionType: 'cron' },
        functionCode: noting("'tick'", 'req.scheduledAt'),
        inputs: { ...inputs, cronPattern: '* * * * * *', overlap: 'parallel' },
      },
    ];
    const stored = [];
    for (const one of given) stored.push(await upload(first.admin, one));
    const made = [];
    for (const node of [first, second, first, second])
      made.push((await node.client.post('/database/Order', { text: 'plain' })).body);
    expect(made.map(({ text }) => text)).toEqual(made.map(() => 'hooked'));
    const noted = async (text: string): Promise<string[]> => {
      const { body } = await second.client.get('/database/Noted', { query: { limit: 1_000 } });
      return body.documents
        .filter((one: { text: string }) => one.text === text)
        .map(({ at }: { at: string }) => at);
    };
    await waitFor(
      async () => (await noted('event')).length >= 4 && (await noted('tick')).length >= 3,
    );
    const [, , ticks] = stored;
    await second.admin.delete(`/functions/${ticks?._id}`);
    expect((await noted('event')).sort()).toEqual(made.map(({ _id }) => _id).sort());
    const times = await noted('tick');
    expect(new Set(times).size).toBe(times.length);
    for (const { _id } of stored.slice(0, 2)) await second.admin.delete(`/functions/${_id}`);
    const { body } = await first.client.post('/database/Order', { text: 'plain' });
    expect(body.text).toBe('plain');
  });
}
