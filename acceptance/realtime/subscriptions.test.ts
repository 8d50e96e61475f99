/** Subscriptions of GraphQL, over the protocol's own client: what `watch` tells, typed and selected. */
import { type Client, createClient, type Sink } from 'graphql-ws';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import {
  applyChanges,
  askForCaptchas,
  closeClients,
  connect as connectSocket,
  create,
  createSchemas,
  grant,
} from './clients.ts';

describe('subscriptions of GraphQL', () => {
  let platform: TestPlatform;
  let owner: TestUser;
  let reader: TestUser;
  let postId: string;
  const clients: Client[] = [];
  const raw: WebSocket[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    [owner, reader] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    postId = await createSchemas(platform);
  });
  afterEach(async () => {
    closeClients();
    await Promise.all(clients.splice(0).map((client) => client.dispose()));
    for (const socket of raw.splice(0)) socket.terminate();
  });
  afterAll(() => platform.close());

  const sendAtMost = async (eventsPerSecond: number) =>
    expectStatus(
      await platform.admin.patch('/config/router', { config: { realtime: { eventsPerSecond } } }),
      200,
      'set how much a connection may send',
    );
  const url = () => `${platform.addresses.client.replace('http', 'ws')}/graphql`;

  /** A client of one connection, which does not connect again by itself. */
  function connect(params: object | undefined, options: object = {}) {
    const closes: { readonly code: number; readonly reason: string }[] = [];
    const pongs: Json[] = [];
    let socket: WebSocket | undefined;
    const client = createClient({
      url: url(),
      webSocketImpl: WebSocket,
      retryAttempts: 0,
      ...(params && { connectionParams: params as Record<string, unknown> }),
      on: {
        connected: (opened) => {
          socket = opened as WebSocket;
        },
        closed: (event) => void closes.push(event as never),
        pong: (_received, payload) => void pongs.push(payload),
      },
      ...options,
    });
    clients.push(client);
    const subscribe = (query: string, variables: Record<string, unknown> = {}) => {
      const events: Json[] = [];
      const errors: Json[] = [];
      let ended = false;
      const sink: Sink<Json> = {
        next: (event) => void events.push(event),
        error: (error) => void errors.push(error),
        complete: () => {
          ended = true;
        },
      };
      const stop = client.subscribe({ query, variables }, sink as never);
      return { events, errors, ended: () => ended, stop };
    };
    return { client, subscribe, closes, pongs, socket: () => socket };
  }

  const as = (user: Pick<TestUser, 'accessToken'>) =>
    connect(
      { authorization: `Bearer ${user.accessToken}` },
      { lazy: false, onNonLazyError: () => undefined },
    );

  const tasks = `subscription Tasks($since: String) {
    getDatabaseTask(since: $since) {
      position gap
      records { _id title }
      changes { kind id index record { _id title } }
    }
  }`;

  /** The list as its subscriber has it. */
  const listOf = (events: readonly Json[], field: string): Json[] => {
    const records: Json[] = [];
    for (const { data } of events) {
      if (data[field].records) records.splice(0, records.length, ...data[field].records);
      applyChanges(records, data[field].changes ?? []);
    }
    return records.map(({ title }) => title);
  };

  it('keeps a list current as permissions allow: a grant shows a record, a revocation takes it away', async () => {
    const id = await create(owner, 'Task', { title: 'one' });
    const { subscribe } = as(reader);
    const list = subscribe(tasks);
    await waitFor(() => list.events.length === 1);
    expect(list.events[0].data.getDatabaseTask).toMatchObject({ records: [], gap: null });
    const revoke = await grant(platform, reader, `Task:${id}`);
    await waitFor(() => list.events.length === 2);
    expect(list.events[1].data.getDatabaseTask).toMatchObject({
      records: null,
      changes: [{ kind: 'added', id, index: 0, record: { _id: id, title: 'one' } }],
    });
    await revoke();
    await waitFor(() => list.events.length === 3);
    expect(list.events[2].data.getDatabaseTask.changes).toEqual([
      { kind: 'removed', id, index: null, record: null },
    ]);
    await owner.api.delete(`/database/Task/${id}`);
    const own = await create(reader, 'Task', { title: 'own' });
    await waitFor(() => listOf(list.events, 'getDatabaseTask').join() === 'own');
    expect(list.events).toHaveLength(4);
    expect(list.errors).toEqual([]);
    await reader.api.delete(`/database/Task/${own}`);
  });

  it('listens to a record, a filter and endpoints, with the arguments of their fields', async () => {
    const endpoint = (name: string, more: object) =>
      platform.admin.post('/database/customEndpoints', {
        name,
        operation: 0,
        selectedSchema: postId,
        authentication: true,
        inputs: [{ name: 'state', type: 'String', location: 1 }],
        query: {
          AND: [
            {
              schemaField: 'state',
              operation: 0,
              comparisonField: { type: 'Input', value: 'state' },
            },
          ],
        },
        ...more,
      });
    expectStatus(await endpoint('postsIn', {}), 200, 'endpoint');
    const counts = { groupBy: [], values: [{ as: 'posts', function: 'count' }] };
    expectStatus(await endpoint('countIn', { operation: 5, aggregate: counts }), 200, 'endpoint');
    const { subscribe } = as(reader);
    const id = await create(owner, 'Post', { title: 'a', state: 'graph', rank: 1 });
    const told = 'records { _id title } changes { kind id index record { _id title } }';
    const record = subscribe(`subscription { getDatabasePostId(id: "${id}") { ${told} } }`);
    const filtered = subscribe(
      `subscription { postDatabasePostQuery(params: { query: { state: "graph" } }, sort: ["-rank"]) { ${told} } }`,
    );
    const listed = subscribe(
      `subscription { getDatabaseFunctionPostsIn(state: "graph") { ${told} } }`,
    );
    const counted = subscribe(
      'subscription { getDatabaseFunctionCountIn(state: "graph") { changed value { posts } } }',
    );
    await waitFor(() => [record, filtered, listed, counted].every(({ events }) => events.length));
    expect(counted.events[0].data.getDatabaseFunctionCountIn).toEqual({
      changed: false,
      value: [{ posts: 1 }],
    });
    await create(owner, 'Post', { title: 'b', state: 'graph', rank: 9 });
    await create(owner, 'Post', { title: 'elsewhere', state: 'other' });
    await owner.api.patch(`/database/Post/${id}`, { title: 'c' });
    await waitFor(() => listOf(record.events, 'getDatabasePostId').join() === 'c');
    await waitFor(() => listOf(filtered.events, 'postDatabasePostQuery').join() === 'b,c');
    await waitFor(() => listOf(listed.events, 'getDatabaseFunctionPostsIn').length === 2);
    await waitFor(() => counted.events.at(-1).data.getDatabaseFunctionCountIn.value[0].posts === 2);
    for (const one of [record, filtered, listed, counted]) expect(one.errors).toEqual([]);
  });

  it('populates the relations that are selected', async () => {
    await platform.createSchema({
      name: 'Note',
      fields: { text: { type: 'String' }, post: { type: 'Relation', model: 'Post' } },
    });
    const post = await create(owner, 'Post', { title: 'related' });
    const { subscribe } = as(reader);
    const list = subscribe(
      'subscription { getDatabaseNote { records { text post { title } } changes { record { text post { title } } } } }',
    );
    await waitFor(() => list.events.length === 1);
    await create(owner, 'Note', { text: 'n', post });
    await waitFor(() => list.events.length === 2);
    expect(list.events[1].data.getDatabaseNote.changes).toEqual([
      { record: { text: 'n', post: { title: 'related' } } },
    ]);
  });

  it('goes on from a position, and says where it cannot', async () => {
    const { subscribe } = as(reader);
    const first = subscribe(tasks);
    const witness = as(reader).subscribe(tasks);
    await waitFor(() => first.events.length === 1 && witness.events.length === 1);
    first.stop();
    const since = first.events[0].data.getDatabaseTask.position;
    const own = await create(reader, 'Task', { title: 'meanwhile' });
    await waitFor(() => witness.events.length === 2);
    const again = subscribe(tasks, { since });
    await waitFor(() => again.events.length === 1);
    expect(again.events[0].data.getDatabaseTask).toMatchObject({
      gap: null,
      records: null,
      changes: [{ kind: 'added', record: { title: 'meanwhile' } }],
    });
    const lost = subscribe(tasks, { since: 'unknown.1' });
    await waitFor(() => lost.events.length === 1);
    expect(lost.events[0].data.getDatabaseTask).toMatchObject({ gap: 'lost', records: [{}] });
    await reader.api.delete(`/database/Task/${own}`);
  });

  it('tells a `gap` and completes when the schema is not offered any more', async () => {
    const fields = { title: { type: 'String' } } as const;
    const { _id } = await platform.createSchema({ name: 'Fleeting', fields });
    const { subscribe } = as(reader);
    const list = subscribe('subscription { getDatabaseFleeting { gap records { title } } }');
    await waitFor(() => list.events.length === 1);
    await platform.admin.patch(`/database/schemas/${_id}`, {
      conduitOptions: { realtime: { enabled: false } },
    });
    await waitFor(list.ended);
    expect(list.events.at(-1).data.getDatabaseFleeting).toEqual({ gap: 'changed', records: null });
  });

  const makeRoom = async (users: readonly string[]): Promise<string> =>
    expectStatus(await owner.api.post('/chat/rooms', { roomName: 'graph', users }), 200, 'room')
      .body.roomId;
  const inRoom = (room: string) =>
    `subscription { chatEvents(room: "${room}") { event message { content } } }`;

  it('refuses a room that is not yours, as a socket is refused, and goes on', async () => {
    const room = await makeRoom([reader.userId]);
    const [{ subscribe }, { ask }] = [
      as(await platform.registerUser()),
      await connectSocket(platform, await platform.registerUser(), { namespace: '/chat/' }),
    ];
    for (const [chosen, status] of [
      [room, 404],
      [postId, 404],
      ['graph', 400],
    ] as const) {
      const refused = subscribe(inRoom(chosen));
      await waitFor(() => refused.errors.length === 1);
      expect(refused.errors[0]).toMatchObject([{ extensions: { status } }]);
      expect(await ask('connectToRoom', chosen)).toMatchObject({ ok: false, error: { status } });
    }
    const own = as(reader).subscribe(inRoom(room.toUpperCase()));
    const { ask: say } = await connectSocket(platform, owner, { namespace: '/chat/' });
    await waitFor(async () => {
      await say('message', room, 'hello');
      return own.events.length > 0;
    });
    expect(own.errors).toEqual([]);
  });

  it('tells what is said in chat, of the events that are selected', async () => {
    const [roomId, quiet] = [await makeRoom([reader.userId]), await makeRoom([reader.userId])];
    const { subscribe } = as(reader);
    const all = subscribe(
      'subscription { chatEvents { event message { content sender room } messageEdited { message } } }',
    );
    const other = subscribe(inRoom(quiet));
    const stranger = as(await platform.registerUser()).subscribe(
      'subscription { chatEvents { event } }',
    );
    const { ask } = await connectSocket(platform, owner, { namespace: '/chat/' });
    const say = (text: string) => ask('message', roomId, text);
    // The first message that arrives says that the subscription is there.
    await waitFor(async () => {
      await say('hello');
      return all.events.length > 0;
    });
    expect(all.events[0].data.chatEvents).toEqual({
      event: 'message',
      message: { content: 'hello', sender: owner.userId, room: roomId },
      messageEdited: null,
    });
    const [{ _id }] = (await owner.api.get(`/chat/messages?roomId=${roomId}`)).body.messages;
    await owner.api.patch(`/chat/messages/${_id}`, { newMessage: 'changed' });
    await waitFor(() =>
      all.events.some(({ data }) => data.chatEvents.messageEdited?.message === 'changed'),
    );
    await reader.api.put(`/chat/leave/${roomId}`);
    const before = all.events.length;
    await say('unheard');
    const probe = as(owner).subscribe('subscription { chatEvents { message { content } } }');
    await waitFor(async () => {
      await say('probe');
      return probe.events.length > 0;
    });
    expect(all.events).toHaveLength(before);
    expect([...other.events, ...stranger.events]).toEqual([]);
  });

  it('closes with 4403 when the session ends, and goes on with a token that is sent by ping', async () => {
    const user = await platform.registerUser();
    const ended = as(user);
    const list = ended.subscribe(tasks);
    await waitFor(() => list.events.length === 1);
    const other = await platform.login(user.email, user.password);
    ended.socket()?.send(JSON.stringify({ type: 'ping', payload: { token: other.accessToken } }));
    await waitFor(() => ended.pongs.length === 1);
    expect(ended.pongs).toEqual([{ ok: true }]);
    ended.socket()?.send(JSON.stringify({ type: 'ping', payload: { token: owner.accessToken } }));
    await waitFor(() => ended.pongs.length === 2);
    expect(ended.pongs[1]).toMatchObject({ ok: false, error: { code: 'USER_MISMATCH' } });
    expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
    await create(other, 'Task', { title: 'still heard' });
    await waitFor(() => list.events.length === 2);
    expectStatus(await other.api.post('/authentication/logout'), 200, 'logout');
    await waitFor(() => ended.closes.length === 1);
    expect(ended.closes[0]?.code).toBe(4403);
  });

  it.each([
    ['no document', { query: '' }, 'GRAPHQL_PARSE_FAILED'],
    ['a query', { query: '{ getDatabasePost { count } }' }, 400],
    [
      'no such field',
      { query: 'subscription { getNothing { gap } }' },
      'GRAPHQL_VALIDATION_FAILED',
    ],
    [
      'two fields',
      { query: 'subscription { a: getDatabasePost { gap } b: getDatabasePost { gap } }' },
      'GRAPHQL_VALIDATION_FAILED',
    ],
    [
      'too long a list',
      { query: 'subscription { getDatabasePost(limit: 900) { records { _id } changes { id } } }' },
      'GRAPHQL_LIMIT_EXCEEDED',
    ],
    ['a wrong sort', { query: 'subscription { getDatabasePost(sort: ["no"]) { gap } }' }, 400],
    ['a later page', { query: 'subscription { getDatabasePost(skip: 5) { gap } }' }, 400],
    ['no record id', { query: 'subscription { getDatabasePostId(id: "x") { gap } }' }, 400],
    ['a scope', { query: 'subscription { getDatabaseTask(scope: "Team:1") { gap } }' }, 403],
  ])('answers %s with an error, and the connection goes on', async (_name, payload, code) => {
    const { subscribe, closes } = as(reader);
    const refused = subscribe(payload.query);
    await waitFor(() => refused.errors.length === 1);
    expect(refused.errors[0][0].extensions).toMatchObject({ code });
    const fine = subscribe(tasks);
    await waitFor(() => fine.events.length === 1);
    expect(closes).toEqual([]);
  });

  it('lets visitors listen to what everybody reads, and to nothing else', async () => {
    const operation = { enabled: true, authenticated: false };
    await platform.createSchema({
      name: 'Open',
      fields: { title: { type: 'String' } },
      conduitOptions: { cms: { enabled: true, crudOperations: { read: operation } } },
    });
    const { subscribe } = connect(undefined);
    const open = subscribe('subscription { getDatabaseOpen { records { title } } }');
    const closed = subscribe(tasks);
    const chat = subscribe('subscription { chatEvents { event } }');
    await waitFor(() => open.events.length === 1);
    await waitFor(() => closed.errors.length === 1 && chat.errors.length === 1);
    expect(closed.errors[0][0].extensions).toMatchObject({ status: 401 });
    expect(chat.errors[0][0].extensions).toMatchObject({ status: 401 });
  });

  it('asks visitors for a captcha where that is set, and nobody who is signed in', async () => {
    const visit = (params: object) =>
      connect(params, { lazy: false, onNonLazyError: () => undefined });
    const { asked, end } = await askForCaptchas(platform);
    try {
      const [none, wrong, solved] = [
        visit({ a: 1 }),
        visit({ captchaToken: 'wrong' }),
        visit({ captchaToken: 'solved' }),
      ];
      await waitFor(() => none.closes.length === 1 && wrong.closes.length === 1);
      expect([none, wrong].map(({ closes }) => closes[0]?.reason.split(':')[0])).toEqual([
        'SOCKET_CAPTCHA_REQUIRED',
        'SOCKET_CAPTCHA_FAILED',
      ]);
      await waitFor(() => solved.socket() !== undefined);
      expect(solved.closes).toEqual([]);
      const signedIn = as(reader);
      await waitFor(() => signedIn.socket() !== undefined);
      expect(asked.toSorted()).toEqual(['solved', 'wrong']);
    } finally {
      await end();
    }
  });

  it('refuses a wrong token, other protocols, other origins and bad frames with their codes', async () => {
    const wrong = connect({ authorization: 'Bearer wrong' });
    const refused = wrong.subscribe(tasks);
    await waitFor(() => wrong.closes.length === 1 && refused.errors.length === 1);
    expect(wrong.closes[0]?.code).toBe(4403);
    const open = (protocol: string, headers: Record<string, string> = {}) => {
      const socket = new WebSocket(url(), protocol, { headers });
      raw.push(socket);
      return new Promise<string | number>((resolve) => {
        socket.on('unexpected-response', (_request, { statusCode }) => resolve(statusCode ?? 0));
        socket.on('error', () => resolve('error'));
        socket.on('open', () => resolve('open'));
      });
    };
    expect(await open('graphql-transport-ws', { origin: 'https://elsewhere.example' })).toBe(
      'open',
    );
    expect(await open('graphql-ws')).toBe('error');
    const closeAfter = async (...frames: readonly string[]) => {
      const socket = new WebSocket(url(), 'graphql-transport-ws');
      raw.push(socket);
      const closed = new Promise<number>((resolve) => socket.on('close', resolve));
      socket.on('open', () => {
        for (const frame of frames) socket.send(frame);
      });
      return closed;
    };
    const init = JSON.stringify({ type: 'connection_init' });
    expect(await closeAfter('not json')).toBe(4400);
    expect(await closeAfter(JSON.stringify({ type: 'connection_ack' }))).toBe(4400);
    expect(await closeAfter(init, init)).toBe(4429);
    const subscribe = (id: string) =>
      JSON.stringify({ type: 'subscribe', id, payload: { query: tasks } });
    expect(await closeAfter(subscribe('1'))).toBe(4401);
    expect(await closeAfter(`"${'x'.repeat(1_100_000)}"`)).toBe(1009);
    expect(await closeAfter(init, ...Array.from({ length: 200 }, () => '{"type":"ping"}'))).toBe(
      4429,
    );
    expect((await platform.client.get('/graphql?query=subscription%7Bx%7D')).status).toBe(400);
  });

  it('refuses the 101st subscription of a connection, and gives places free', async () => {
    // A fast machine sends more than the 50 messages a second that one connection may send.
    await sendAtMost(1_000);
    const { subscribe } = as(reader);
    const query = 'subscription { getDatabasePost(limit: 1) { gap position } }';
    const many: ReturnType<typeof subscribe>[] = [];
    for (let at = 0; at < 100; at += 1) {
      const one = subscribe(query);
      many.push(one);
      await waitFor(() => one.events.length === 1 || one.errors.length === 1);
    }
    expect(many.flatMap(({ errors }) => errors)).toEqual([]);
    const over = subscribe(query);
    await waitFor(() => over.errors.length === 1);
    expect(over.errors[0][0].extensions).toMatchObject({
      conduitCode: 'SUBSCRIPTION_LIMIT_EXCEEDED',
      status: 409,
    });
    many[0]?.stop();
    await waitFor(async () => {
      const next = subscribe(query);
      await waitFor(() => next.events.length + next.errors.length > 0);
      return next.events.length === 1;
    });
    await sendAtMost(50);
  });
});
