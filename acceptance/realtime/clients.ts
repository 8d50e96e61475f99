/** Clients of live lists, as apps write them: they apply what they are told, and ask anew after a gap. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { io, type Socket } from 'socket.io-client';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const open: Socket[] = [];
/** To be called after each test. */
export const closeClients = (): void => {
  for (const socket of open.splice(0)) socket.disconnect();
};

type Node = Pick<TestNode, 'addresses'>;

/** A connected socket, with what it was told. */
export async function connect(
  node: Node,
  user: Pick<TestUser, 'accessToken'>,
  options: Parameters<typeof io>[1] & { readonly at?: string; readonly namespace?: string } = {},
) {
  const { at = node.addresses.realtime, namespace = '/database/', ...others } = options;
  const socket = io(`${at}${namespace}`, {
    path: '/realtime',
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    auth: { token: user.accessToken },
    ...others,
  });
  open.push(socket);
  const heard: { event: string; data: Json }[] = [];
  socket.onAny((event: string, data: Json) => heard.push({ event, data }));
  await waitFor(() => socket.connected, { what: 'the connection' });
  return {
    socket,
    heard,
    ask: (event: string, ...input: readonly unknown[]): Promise<Json> =>
      socket.timeout(10_000).emitWithAck(event, ...input),
  };
}

export interface LiveList {
  readonly socket: Socket;
  /** The list as the client has it. */
  readonly records: Json[];
  readonly value: () => Json;
  /** `added`, `changed`, `removed` and `gap`, with the `title` or id of the record. */
  readonly told: string[];
  readonly position: () => string;
  readonly acknowledged: Json;
}

/** Does to a list what a message says. */
export function applyChanges(records: Json[], changes: readonly Json[]): void {
  for (const { kind, id, index, record } of changes) {
    const at = records.findIndex(({ _id }) => _id === id);
    if (at >= 0) records.splice(at, 1);
    if (kind !== 'removed') records.splice(index, 0, record);
  }
}

/** Listens, and keeps a list of its own. */
export async function listen(
  node: Node,
  user: Pick<TestUser, 'accessToken'>,
  request: object,
): Promise<LiveList> {
  const { socket, ask } = await connect(node, user);
  const records: Json[] = [];
  const told: string[] = [];
  let value: Json;
  let position = '';
  socket.on('records', (message: Json) => {
    position = message.position;
    for (const change of message.changes) {
      const shown = change.record ?? records.find(({ _id }) => _id === change.id);
      told.push(`${change.kind} ${shown?.title ?? change.id}`);
      applyChanges(records, [change]);
    }
  });
  socket.on('value', (message: Json) => {
    value = message.value;
  });
  socket.on('gap', ({ reason }: Json) => told.push(`gap ${reason}`));
  const acknowledged = await ask('watch', request);
  if (!acknowledged.ok) throw new Error(JSON.stringify(acknowledged.error));
  position = acknowledged.position;
  value = acknowledged.value;
  records.push(...(acknowledged.records ?? []));
  return { socket, records, value: () => value, told, position: () => position, acknowledged };
}

const offered = { enabled: true, authenticated: true };
export const allOperations = {
  enabled: true,
  crudOperations: { create: offered, read: offered, update: offered, delete: offered },
};

/** `Task`, whose records have permissions of their own, and `Post`, which everybody reads. Answers the id of the latter. */
export async function createSchemas(node: TestNode): Promise<string> {
  const fields = {
    title: { type: 'String' },
    rank: { type: 'Number', index: true },
    state: { type: 'String' },
  } as const;
  const query = { enabled: true, fields: ['state', 'rank', 'title'] };
  await node.createSchema({
    name: 'Task',
    fields,
    conduitOptions: { cms: { ...allOperations, query }, authorization: { enabled: true } },
  });
  const { _id } = await node.createSchema({
    name: 'Post',
    fields,
    conduitOptions: { cms: { ...allOperations, query } },
  });
  return _id;
}

/** Answers how to take the grant back. */
export async function grant(node: TestNode, user: TestUser, resource: string) {
  const relation = { subject: `User:${user.userId}`, relation: 'reader', resource };
  const made = expectStatus(
    await node.admin.post('/authorization/relations', relation),
    200,
    'grant',
  );
  return async (): Promise<void> =>
    void expectStatus(
      await node.admin.delete(`/authorization/relations/${made.body._id}`),
      200,
      'revocation',
    );
}

export const create = async (user: TestUser, schema: string, record: object): Promise<string> =>
  expectStatus(await user.api.post(`/database/${schema}`, record), 200, schema).body._id;

/** Asks visitors of sockets for a captcha, until it is ended. The answer `solved` is right. */
export async function askForCaptchas(node: TestNode) {
  const asked: string[] = [];
  const service = createServer(async (request, response) => {
    const answer = new URLSearchParams(await text(request)).get('response') ?? '';
    asked.push(answer);
    response.end(JSON.stringify({ success: answer === 'solved' }));
  }).listen(0, '127.0.0.1');
  await once(service, 'listening');
  const verifyUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}/`;
  const set = async (enabled: boolean) => {
    const captcha = { enabled, secretKey: 'a secret', verifyUrl };
    const config = { captcha, realtime: { visitorCaptcha: enabled } };
    expectStatus(await node.admin.patch('/config/router', { config }), 200, 'captchas');
  };
  await set(true);
  return {
    asked,
    async end() {
      await set(false);
      service.close();
    },
  };
}
