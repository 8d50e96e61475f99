/** The code of the guide is run as it stands there. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EventSource } from 'eventsource';
import { createClient } from 'graphql-ws';
import { io } from 'socket.io-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { blocksOf, createGuideRunner } from '../guides/code.ts';
import { projectRoot } from '../routes.ts';
import { create, createSchemas } from './clients.ts';

let platform: TestPlatform;
let user: TestUser;
let blocks: readonly string[];
beforeAll(async () => {
  platform = await createTestPlatform();
  await createSchemas(platform);
  user = await platform.registerUser();
  const guide = await readFile(join(projectRoot, 'docs/guides/realtime.md'), 'utf8');
  blocks = [...guide.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code = '']) =>
    code.replace(/^import [^\n]+\n/, ''),
  );
});
afterAll(() => platform?.close());

const run = (code: string, given: Readonly<Record<string, unknown>>, answers: string): Json =>
  new Function(...Object.keys(given), `${code}; return ${answers};`)(...Object.values(given));

const titles = (records: readonly Json[]) => records.map(({ title }) => title);

it.each(['realtime', 'client'] as const)(
  'listens over a socket at the %s address, and after a loss',
  async (address) => {
    let shown: Json[] = [];
    const title = `over ${address}`;
    const request = { schema: 'Task', query: { state: address }, sort: ['-createdAt'] };
    const app = run(
      (blocks[0] ?? '').replace(/listen\(\{ schema[^\n]*\n/, 'listen(request, showTasks);\n'),
      {
        io,
        request,
        realtimeUrl: platform.addresses[address],
        accessToken: user.accessToken,
        showTasks: (records: Json[]) => {
          shown = records;
        },
      },
      '{ socket, stop, renewed }',
    );
    try {
      await waitFor(() => app.socket.connected);
      const id = await create(user, 'Task', { title, state: address });
      await waitFor(() => titles(shown).join() === title);
      const { accessToken } = await platform.login(user.email, user.password);
      expect(await app.renewed(accessToken)).toEqual({ ok: true });
      app.socket.disconnect();
      await user.api.patch(`/database/Task/${id}`, { title: 'meanwhile' });
      app.socket.connect();
      await waitFor(() => titles(shown).join() === 'meanwhile');
      await user.api.delete(`/database/Task/${id}`);
      await waitFor(() => shown.length === 0);
      app.stop();
    } finally {
      app.socket.disconnect();
    }
  },
);

it('begins with a subscription of a few lines', async () => {
  const shown: Json[] = [];
  const given = {
    io,
    accessToken: user.accessToken,
    show: (...said: Json[]) => void shown.push(said),
  };
  const code = (await blocksOf('realtime')).get('js first');
  const { socket } = await createGuideRunner(platform).run(code, given, 'socket');
  try {
    expect(shown).toEqual([['listed', expect.any(Array)]]);
    const id = await create(user, 'Task', { title: 'first', state: 'first' });
    await waitFor(() => shown.length > 1);
    expect(shown[1]).toEqual(['added', id, expect.objectContaining({ title: 'first' })]);
  } finally {
    socket.disconnect();
  }
});

it('sends to others in a channel, and sees who is there', async () => {
  const channels = [
    { pattern: 'lobby', join: 'users', send: 'users', presence: true, history: 50 },
  ];
  expectStatus(
    await platform.admin.patch('/config/router', { config: { channels } }),
    200,
    'definitions',
  );
  const heard: Json[] = [];
  let members: readonly Json[] = [];
  const given = {
    io,
    realtimeUrl: platform.addresses.realtime,
    channel: 'lobby',
    onMembers: (now: readonly Json[]) => {
      members = now;
    },
  };
  const app = (accessToken: string, onMessage: (message: Json) => void) =>
    run(blocks[5] ?? '', { ...given, accessToken, onMessage }, '{ socket, send }');
  const one = app(user.accessToken, (message) => heard.push(message));
  await waitFor(() => members.length === 1);
  const other = app((await platform.registerUser()).accessToken, () => undefined);
  try {
    await waitFor(() => members.length === 2);
    expect(await other.send('moved', { x: 1 })).toMatchObject({ ok: true });
    await waitFor(() => heard.length === 1);
    expect(heard[0]).toMatchObject({ channel: 'lobby', event: 'moved', data: { x: 1 } });
  } finally {
    one.socket.disconnect();
    other.socket.disconnect();
  }
});

it('listens to an event stream', async () => {
  let shown: Json[] | undefined;
  const app = run(
    blocks[2] ?? '',
    {
      EventSource,
      apiUrl: platform.addresses.client,
      token: () => user.accessToken,
      showTasks: (records: Json[]) => {
        shown = records;
      },
    },
    '{ source }',
  );
  try {
    await waitFor(() => shown !== undefined);
    await create(user, 'Task', { title: 'streamed', state: 'open' });
    await waitFor(() => titles(shown ?? []).join() === 'streamed');
  } finally {
    app.source.close();
  }
});

it('listens with a ticket', async () => {
  let shown: Json[] = [];
  const app = run(
    blocks[3] ?? '',
    { EventSource, apiUrl: platform.addresses.client, token: () => user.accessToken },
    '{ listenByTicket }',
  );
  const stop = app.listenByTicket((records: Json[]) => {
    shown = records;
  });
  try {
    await create(user, 'Task', { title: 'by ticket', state: 'done' });
    await waitFor(() => titles(shown).includes('by ticket'));
  } finally {
    stop();
  }
});

it('subscribes over GraphQL', async () => {
  let shown: Json[] | undefined;
  const { client } = platform.addresses;
  const app = run(
    blocks[4] ?? '',
    {
      createClient: (options: object) =>
        createClient({ ...options, webSocketImpl: WebSocket } as never),
      graphqlUrl: `${client.replace('http', 'ws')}/graphql`,
      freshToken: async () => user.accessToken,
      showTasks: (records: Json[]) => {
        shown = records;
      },
    },
    '{ client, stopTasks }',
  );
  try {
    await waitFor(() => shown !== undefined);
    const id = await create(user, 'Task', { title: 'subscribed' });
    await waitFor(() => titles(shown ?? []).includes('subscribed'));
    await user.api.delete(`/database/Task/${id}`);
    await waitFor(() => !titles(shown ?? []).includes('subscribed'));
    app.stopTasks();
  } finally {
    await app.client.dispose();
  }
});

it('comes back when a server that stops says', () => {
  const heard = new Map<string, (data: object) => void>();
  const done: unknown[] = [];
  const socket = {
    on: (event: string, handler: (data: object) => void) => heard.set(event, handler),
    disconnect: () => done.push('left'),
    connect: () => done.push('back'),
  };
  const after = (work: () => void, ms: number): void => {
    done.push(ms);
    work();
  };
  run(blocks[1] ?? '', { socket, setTimeout: after }, 'undefined');
  heard.get('server-stopping')?.({ reconnectInMs: 730 });
  expect(done).toEqual(['left', 730, 'back']);
});

it('tells operators', async () => {
  const config = { transports: { sockets: true } };
  expectStatus(await platform.admin.patch('/config/admin', { config }), 200, 'sockets');
  const reports: string[] = [];
  const app = await run(
    `return (async () => { ${blocks[6] ?? ''}; return { chat, answer }; })()`,
    {
      io,
      adminUrl: platform.addresses.admin,
      adminToken: await platform.adminLogin(),
      showReport: (_report: string, message: string) => reports.push(message),
    },
    'undefined',
  );
  try {
    expect(app.answer).toMatchObject({ ok: true });
    const body = { roomName: 'A room', users: [user.userId] };
    const { roomId } = expectStatus(await user.api.post('/chat/rooms', body), 200, 'room').body;
    const path = `/chat/rooms/${roomId}/messages`;
    const sent = await platform.admin.post(path, { content: 'words' });
    const { _id } = expectStatus(sent, 200, 'message').body;
    await user.api.post(`/chat/messages/${_id}/report`, { reason: 'rude' });
    await waitFor(() => reports.includes(_id));
  } finally {
    app.chat.disconnect();
  }
});
