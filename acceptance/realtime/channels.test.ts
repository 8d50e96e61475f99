/** Channels over two processes on one database, with Redis between them and without. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { openTestConnection } from '../../test/support/connection.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { describeWithPostgres15, describeWithRedis } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect, create, createSchemas, grant } from './clients.ts';

const definitions = [
  { pattern: 'lobby', join: 'users', send: 'users', presence: true, history: 3 },
  { pattern: 'game:{id}', join: 'users', send: 'users', payloadBytes: 64, messagesPerSecond: 5 },
  { pattern: 'own:{id}', join: 'self', send: 'self', presence: true },
  { pattern: 'task:{id}', join: 'readers', send: 'editors', schema: 'Task', presence: true },
  { pattern: 'post:{id}', join: 'readers', send: 'editors', schema: 'Post' },
  { pattern: 'quiet', join: 'users', send: 'none', presence: true },
];

const define = async (node: TestNode, channels: readonly object[]): Promise<void> =>
  void expectStatus(
    await node.admin.patch('/config/router', { config: { channels } }),
    200,
    'definitions',
  );

async function client(node: TestNode, user: TestUser) {
  const { socket, heard, ask } = await connect(node, user, { namespace: '/channels/' });
  const of = (name: string): Json[] =>
    heard.filter(({ event }) => event === name).map(({ data }) => data);
  const join = async (channel: string, more: object = {}): Promise<Json> => {
    const answer = await ask('join', { channel, ...more });
    expect(answer, JSON.stringify(answer)).toMatchObject({ ok: true });
    return answer;
  };
  return { socket, of, ask, join };
}

/** Ids of members who went. */
const left = ({ of }: Pick<Awaited<ReturnType<typeof client>>, 'of'>): string[] =>
  of('presence').flatMap(({ kind, member }) => (kind === 'left' ? [member.id] : []));

const refusal = async (answer: Promise<Json>): Promise<string> => {
  const { ok, error } = await answer;
  expect(ok).toBe(false);
  return `${error.status} ${error.code}`;
};

function suite(redis: boolean): void {
  let nodes: TwoNodes;
  let ann: TestUser;
  let bob: TestUser;

  beforeAll(async () => {
    nodes = await startTwoNodes({ redis });
    await liftLimits(nodes.first.admin);
    ann = await nodes.first.registerUser();
    bob = await nodes.second.registerUser();
    await createSchemas(nodes.first);
    await define(nodes.first, definitions);
  }, 120_000);
  afterEach(closeClients);
  afterAll(() => nodes?.close(), 60_000);

  it('brings messages to the others on both nodes, in order, and to no other channel', async () => {
    const [a, b, c, d] = [
      await client(nodes.first, ann),
      await client(nodes.second, bob),
      await client(nodes.first, bob),
      await client(nodes.second, bob),
    ];
    const { member } = await a.join('game:one');
    await b.join('game:one');
    await c.join('game:one');
    await d.join('game:two');
    for (let n = 0; n < 4; n += 1)
      expect(await a.ask('send', { channel: 'game:one', event: 'move', data: { n } })).toEqual({
        ok: true,
      });
    for (const one of [b, c]) {
      await waitFor(() => one.of('message').length === 4);
      expect(one.of('message').map(({ data }) => data.n)).toEqual([0, 1, 2, 3]);
      expect(one.of('message')[0]).toMatchObject({
        ...{ channel: 'game:one', event: 'move', member, userId: ann.userId },
      });
    }
    expect(a.of('message')).toEqual([]);
    expect(d.of('message')).toEqual([]);
    await b.ask('leave', { channel: 'game:one' });
    await a.ask('send', { channel: 'game:one', data: 'last' });
    await waitFor(() => c.of('message').length === 5);
    expect(b.of('message')).toHaveLength(4);
    expect(await refusal(b.ask('send', { channel: 'game:one' }))).toBe(
      '409 CHANNEL_MEMBERSHIP_REQUIRED',
    );
  });

  it('says who is there, who comes, changes and goes', async () => {
    const [a, b] = [await client(nodes.first, ann), await client(nodes.second, bob)];
    const first = await a.join('quiet', { state: { name: 'Ann' } });
    expect([first.count, first.send]).toEqual([1, false]);
    const second = await b.join('quiet', { state: { name: 'Bob' } });
    expect(second.members).toEqual([
      { id: first.member, userId: ann.userId, state: { name: 'Ann' } },
      { id: second.member, userId: bob.userId, state: { name: 'Bob' } },
    ]);
    await b.join('quiet', { state: { name: 'Bobby' } });
    await waitFor(() => a.of('presence').length === 2);
    b.socket.disconnect();
    await waitFor(() => a.of('presence').length === 3);
    const bobIs = { id: second.member, userId: bob.userId };
    expect(a.of('presence')).toEqual([
      { kind: 'joined', channel: 'quiet', member: { ...bobIs, state: { name: 'Bob' } } },
      { kind: 'updated', channel: 'quiet', member: { ...bobIs, state: { name: 'Bobby' } } },
      { kind: 'left', channel: 'quiet', member: bobIs },
    ]);
    await waitFor(async () => (await a.ask('members', { channel: 'quiet' })).count === 1);
    expect(await refusal(a.ask('send', { channel: 'quiet' }))).toBe('403 CHANNEL_SEND_FORBIDDEN');
  });

  it('keeps the last messages for who asks, whichever node they are on', async () => {
    const a = await client(nodes.first, ann);
    await a.join('lobby');
    for (let n = 1; n <= 5; n += 1) await a.ask('send', { channel: 'lobby', data: n });
    const b = await client(nodes.second, bob);
    const joined = await b.join('lobby', { history: 2 });
    expect(joined.history.map(({ data }: Json) => data)).toEqual([4, 5]);
    const { history } = await b.ask('history', { channel: 'lobby' });
    expect(history.map(({ data }: Json) => data)).toEqual([3, 4, 5]);
    const { seq } = await a.ask('send', { channel: 'lobby', data: 6 });
    await waitFor(() => b.of('message').length === 1);
    expect(b.of('message')[0]).toMatchObject({ seq, data: 6, channel: 'lobby' });
    await b.join('game:none');
    expect((await b.ask('history', { channel: 'game:none' })).history).toEqual([]);
    const eve = await nodes.second.registerUser();
    const e = await client(nodes.second, eve);
    await e.join('lobby');
    await e.ask('send', { channel: 'lobby', data: 'of somebody who goes' });
    const path = `/authentication/users/${eve.userId}`;
    expectStatus(await nodes.first.admin.delete(path), 200, 'deletion');
    const kept = async (): Promise<Json[]> =>
      (await a.ask('history', { channel: 'lobby' })).history;
    await waitFor(async () => (await kept()).every(({ userId }) => userId === ann.userId));
    expect((await kept()).map(({ data }) => data).slice(-2)).toEqual([5, 6]);
  });

  it('lets in by records, and ends who may not be there any more', async () => {
    const id = await create(ann, 'Task', { title: 'one' });
    const channel = `task:${id}`;
    const [a, b] = [await client(nodes.first, ann), await client(nodes.second, bob)];
    expect((await a.join(channel.replace(id, id.toUpperCase()))).send).toBe(true);
    expect(await refusal(b.ask('join', { channel }))).toBe('403 CHANNEL_FORBIDDEN');
    const unknown = `task:${ann.userId}`;
    expect(await refusal(b.ask('join', { channel: unknown }))).toBe('403 CHANNEL_FORBIDDEN');
    const revoke = await grant(nodes.first, bob, `Task:${id}`);
    expect((await b.join(channel)).send).toBe(false);
    expect(await refusal(b.ask('send', { channel }))).toBe('403 CHANNEL_SEND_FORBIDDEN');
    await a.ask('send', { channel, data: 1 });
    await waitFor(() => b.of('message').length === 1);
    await revoke();
    // At once: nobody waits for the channel to notice.
    expect(await refusal(b.ask('history', { channel }))).toMatch(/^403 CHANNEL_FORBIDDEN$|MEMBER/);
    await waitFor(() => b.of('ended').length === 1);
    await waitFor(() => a.of('presence').some(({ kind }) => kind === 'left'));
    await a.ask('send', { channel, data: 2 });
    expect((await a.ask('members', { channel })).count).toBe(1);
    expect([b.of('message').length, b.of('ended')]).toEqual([1, [{ channel }]]);
    expectStatus(await ann.api.delete(`/database/Task/${id}`), 200, 'deletion');
    await waitFor(() => a.of('ended').length === 1);
    const post = await create(ann, 'Post', { title: 'everybody reads it' });
    expect((await a.join(`post:${post}`)).send).toBe(false);
    expect((await a.join(`own:${ann.userId}`)).send).toBe(true);
    expect(await refusal(b.ask('join', { channel: `own:${ann.userId}` }))).toBe(
      '403 CHANNEL_FORBIDDEN',
    );
  });

  it('ends members with their session, and channels with their definition', async () => {
    const eve = await nodes.second.registerUser();
    const [a, e] = [await client(nodes.first, ann), await client(nodes.second, eve)];
    await a.join('quiet');
    await a.join('game:three');
    const { member } = await e.join('quiet');
    expectStatus(await eve.api.post('/authentication/logout'), 200, 'logout');
    await waitFor(() => !e.socket.connected);
    await waitFor(() => left(a).includes(member));
    await define(
      nodes.second,
      definitions.filter(({ pattern }) => pattern !== 'game:{id}'),
    );
    await waitFor(() => a.of('ended').length === 1);
    expect(a.of('ended')).toEqual([{ channel: 'game:three' }]);
    expect(await refusal(a.ask('join', { channel: 'game:three' }))).toBe('404 CHANNEL_NOT_FOUND');
    await define(nodes.first, definitions);
    // Where the id becomes that of a user, it has one spelling, and the channel of the other spelling ends.
    const shouted = `game:${ann.userId.toUpperCase()}`;
    await a.join(shouted);
    const game = { ...definitions.find(({ pattern }) => pattern === 'game:{id}'), join: 'self' };
    const others = definitions.filter(({ pattern }) => pattern !== 'game:{id}');
    await define(nodes.second, [...others, game]);
    await waitFor(() => a.of('ended').length === 2);
    expect(a.of('ended')[1]).toEqual({ channel: shouted });
    expect((await a.join(shouted)).channel).toBe(`game:${ann.userId}`);
    await define(nodes.first, definitions);
  });

  it('answers bad input with its error, and goes on', async () => {
    const [a, b] = [await client(nodes.first, ann), await client(nodes.second, bob)];
    for (const input of [
      ...[{}, { channel: 7 }, { channel: 'Game:x' }, { channel: 'game:a:b' }, { channel: '' }],
      ...[{ channel: 'game:../x' }, { channel: `game:${'x'.repeat(65)}` }],
      ...[
        { channel: 'lobby', history: 0 },
        { channel: 'lobby', history: 1e9 },
      ],
    ])
      expect(await refusal(a.ask('join', input))).toBe('400 INVALID_ARGUMENTS');
    expect(await refusal(a.ask('join', null as never))).toBe('400 INVALID_ARGUMENTS');
    for (const channel of ['lobby:x', 'game', 'unknown', 'constructor'])
      expect(await refusal(a.ask('join', { channel }))).toBe('404 CHANNEL_NOT_FOUND');
    const large = { channel: 'lobby', state: 'x'.repeat(1_100) };
    expect(await refusal(a.ask('join', large))).toBe('413 CHANNEL_PAYLOAD_TOO_LARGE');
    await a.join('game:x');
    await b.join('game:x');
    const send = (data: unknown) => a.ask('send', { channel: 'game:x', data });
    expect(await refusal(send('é'.repeat(32)))).toBe('413 CHANNEL_PAYLOAD_TOO_LARGE');
    const deep = JSON.parse('['.repeat(3_000) + ']'.repeat(3_000));
    expect(await refusal(send(deep))).toBe('400 INVALID_ARGUMENTS');
    // What the database does not take is refused, whether or not the channel keeps it.
    for (const foreign of [{ '\u0000': 1 }, { half: '\ud800' }, ['\u0000']])
      expect(await refusal(send(foreign))).toBe('400 INVALID_ARGUMENTS');
    const odd = { '\u0001 ': '\u{1f600}', __proto__x: null };
    expect(await send(odd)).toEqual({ ok: true });
    await waitFor(() => b.of('message').length === 1);
    expect(Object.keys(b.of('message')[0].data)).toEqual(Object.keys(odd));
    const many = await Promise.all(Array.from({ length: 8 }, (_, n) => send(n)));
    expect(many.filter(({ ok }) => !ok).map(({ error }) => error.code)).toContain('RATE_LIMIT');
    expect(await refusal(a.ask('members', { channel: 'game:x' }))).toBe(
      '409 CHANNEL_PRESENCE_DISABLED',
    );
    expect(a.socket.connected).toBe(true);
  });

  it('bounds the channels of a socket, however many join at once', async () => {
    const bound = async (roomsPerSocket: number) =>
      expectStatus(
        await nodes.first.admin.patch('/config/router', {
          config: { realtime: { roomsPerSocket } },
        }),
        200,
        'bound',
      );
    await bound(30);
    const a = await client(nodes.first, ann);
    const codes: string[] = [];
    for (let round = 0; round < 4; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) => a.ask('join', { channel: `game:${round}-${n}` })),
      );
      for (const { ok, error } of answers) codes.push(ok ? 'ok' : error.code);
      await waitFor(async () => (await a.ask('leave', { channel: 'game:none' })).ok);
    }
    expect(codes.filter((code) => code === 'ok').length).toBeLessThanOrEqual(30);
    expect(codes).toContain('CHANNEL_LIMIT_EXCEEDED');
    await bound(1_000);
    expect((await a.ask('join', { channel: 'game:more' })).ok).toBe(true);
  });

  it('refuses definitions that cannot hold', async () => {
    for (const [wrong, path] of [
      [{ pattern: 'a', join: 'self', send: 'none' }, 'channels.0.pattern'],
      [{ pattern: 'a:{id}', join: 'readers', send: 'none' }, 'channels.0.schema'],
      [{ pattern: 'a:{user}', join: 'users', send: 'none' }, 'channels.0.pattern'],
      [{ pattern: 'a', join: 'anybody', send: 'none' }, 'channels.0.join'],
      [{ pattern: 'a', join: 'users', send: 'none', history: 201 }, 'channels.0.history'],
    ] as const) {
      const answer = await nodes.first.admin.patch('/config/router', {
        config: { channels: [wrong] },
      });
      expectStatus(answer, 400, path);
      expect(JSON.stringify(answer.body.errors)).toContain(path);
    }
  });

  it('lets go of the members of a node that was killed', async () => {
    const [a, b] = [await client(nodes.first, ann), await client(nodes.second, bob)];
    const { member } = await a.join('quiet');
    await b.join('quiet');
    await nodes.first.kill();
    await letLeaseEnd(member);
    await waitFor(() => left(b).includes(member), { timeoutMs: 30_000 });
    expect((await b.ask('members', { channel: 'quiet' })).count).toBe(1);
  }, 60_000);

  /** As if the half minute had passed for which a node speaks for its members without renewing that. */
  const letLeaseEnd = async (member: string): Promise<void> => {
    const database = await openTestConnection(nodes.databaseUrl);
    const ended = await database.query(
      `update penstock.channel_members set expires_at = now() - interval '1 millisecond'
        where id = $1 and expires_at > now() returning id`,
      [member],
    );
    await database.close();
    expect(ended).toEqual([{ id: member }]);
  };
}

await describeWithPostgres15('channels on two nodes without Redis', () => suite(false));
await describeWithRedis('channels on two nodes with Redis', () => suite(true));
