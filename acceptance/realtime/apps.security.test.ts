/**
 * What an app has open ends with the app, on every node: sockets, event streams and subscriptions of its users and of its
 * visitors (CWE-613, https://cwe.mitre.org/data/definitions/613.html).
 */
import { createClient } from 'graphql-ws';
import { io } from 'socket.io-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { readEvents } from './streams.ts';

type App = Readonly<Record<'clientid' | 'clientsecret', string>> & { readonly id: string };
/** While apps are not told apart. */
const noApp = {} as App;

/** Something that is open: how it ended, once it has. */
type End = () => string | number | undefined;

let nodes: readonly [TestPlatform, TestPlatform];
const cleanUps: (() => unknown)[] = [];

beforeAll(async () => {
  const first = await createTestPlatform();
  nodes = [first, await createTestPlatform({ databaseUrl: first.databaseUrl ?? '' })];
  await liftLimits(first.admin);
  const read = { enabled: true, authenticated: false };
  await first.createSchema({
    name: 'News',
    fields: { title: { type: 'String' } },
    conduitOptions: { cms: { enabled: true, crudOperations: { read } } },
  });
  await tellApart(true);
}, 120_000);
afterAll(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  for (const node of [...nodes].reverse()) await node.close();
});

/** Whether apps are told apart. */
async function tellApart(clientValidation: boolean): Promise<void> {
  const config = { security: { clientValidation } };
  const [first] = nodes;
  expectStatus(await first.admin.patch('/config/router', { config }), 200, 'apps told apart');
}

async function register(): Promise<App> {
  const { body } = expectStatus(
    await nodes[0].admin.post('/router/security/client', { platform: 'CLI' }),
    200,
    'an app',
  );
  return { clientid: body.clientId, clientsecret: body.clientSecret, id: body._id };
}

const headersOf = ({ id: _id, ...headers }: App) => headers;

/** A user who came with this app. */
async function tokenOf(app: App): Promise<string> {
  const client = nodes[0].client.with(headersOf(app));
  const account = {
    email: `${app.clientid ?? 'nobody'}@example.com`,
    password: 'Battery-Staple-17',
  };
  expectStatus(await client.post('/authentication/local/new', account), 200, 'registration');
  return expectStatus(await client.post('/authentication/local', account), 200, 'login').body
    .accessToken;
}

async function socket(node: TestPlatform, app: App, token: string, name: string): Promise<End> {
  const one = io(`${node.addresses.realtime}${name}`, {
    ...{ path: '/realtime', transports: ['websocket'], reconnection: false, forceNew: true },
    auth: { token, ...headersOf(app) },
  });
  cleanUps.push(() => one.disconnect());
  let code: string | undefined;
  for (const event of ['conduit_error', 'chat_error'])
    one.on(event, (error: Json) => {
      code = error.code;
    });
  await waitFor(() => one.connected, { what: 'the connection' });
  return () => (one.connected ? undefined : code);
}

/** Of a visitor without a token. */
async function stream(node: TestPlatform, app: App, token?: string): Promise<End> {
  const abort = new AbortController();
  cleanUps.push(() => abort.abort());
  const answer = await fetch(`${node.addresses.client}/listen?schema=News`, {
    signal: abort.signal,
    headers: {
      ...headersOf(app),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
  });
  expect(answer.status).toBe(200);
  let end: string | undefined;
  void readEvents(answer, ({ event, data }) => {
    if (event === 'error') end = data.code;
  });
  return () => end;
}

async function subscription(node: TestPlatform, app: App, token?: string): Promise<End> {
  let [begun, end]: [boolean, number | undefined] = [false, undefined];
  const client = createClient({
    url: `${node.addresses.client.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    retryAttempts: 0,
    connectionParams: { ...headersOf(app), ...(token !== undefined && { token }) },
    on: {
      closed(event) {
        end = (event as { readonly code: number }).code;
      },
    },
  });
  cleanUps.push(() => client.dispose());
  const next = (): void => {
    begun = true;
  };
  client.subscribe(
    { query: 'subscription { getDatabaseNews { records { _id } } }' },
    { next, error: () => undefined, complete: () => undefined },
  );
  await waitFor(() => begun || end !== undefined, { what: 'the first list' });
  return () => end;
}

async function openAll(app: App): Promise<readonly End[]> {
  const token = await tokenOf(app);
  const ofNodes = nodes.map((node) =>
    Promise.all([
      socket(node, app, token, '/database/'),
      socket(node, app, token, '/chat/'),
      stream(node, app, token),
      stream(node, app),
      subscription(node, app, token),
      subscription(node, app),
    ]),
  );
  return (await Promise.all(ofNodes)).flat();
}

it('ends what an app has open when it is taken away, and nothing of another app', async () => {
  const [app, other] = [await register(), await register()];
  const [gone, stays] = [await openAll(app), await openAll(other)];
  expect([...gone, ...stays].map((end) => end())).toEqual([...gone, ...stays].map(() => undefined));
  const path = `/router/security/client/${app.id}`;
  expectStatus(await nodes[1].admin.delete(path), 200, 'the end of the app');
  await waitFor(() => gone.every((end) => end() !== undefined), { what: 'the end of all' });
  for (const end of gone) expect([4403, 'CLIENT_REFUSED']).toContain(end());
  expect(stays.map((end) => end())).toEqual(stays.map(() => undefined));
});

it('ends what was opened with a secret that is good no more', async () => {
  const app = await register();
  const open = await openAll(app);
  const path = `/router/security/client/${app.id}/secret`;
  const renewed = await nodes[1].admin.post(path, { keepPreviousMs: 0 });
  expectStatus(renewed, 200, 'another secret');
  await waitFor(() => open.every((end) => end() !== undefined), { what: 'the end of all' });
});

it('ends what came without an app when apps are told apart', async () => {
  await tellApart(false);
  const open = await openAll(noApp);
  await tellApart(true);
  // Well before the next look at all sockets.
  const inTime = { timeoutMs: 10_000, what: 'the end of all' };
  await waitFor(() => open.every((end) => end() !== undefined), inTime);
  for (const end of open) expect([4403, 'CLIENT_REFUSED']).toContain(end());
});
