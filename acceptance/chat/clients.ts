/** Clients of chat, as apps write them. */
import { io, type Socket } from 'socket.io-client';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';

export interface Heard {
  readonly event: string;
  readonly data: Json;
}

export interface ChatClient {
  readonly user: TestUser;
  readonly socket: Socket;
  readonly heard: Heard[];
  /** Payloads of one event. */
  of(event: string): Json[];
  /** The acknowledgement. */
  ask(event: string, ...args: unknown[]): Promise<Json>;
  close(): void;
}

const open: Socket[] = [];
/** To be called after each test. */
export const closeClients = (): void => {
  for (const socket of open.splice(0)) socket.disconnect();
};

export function openSocket(
  node: Pick<TestNode, 'addresses'>,
  options: Parameters<typeof io>[1],
  namespace = '/chat/',
): Socket {
  const socket = io(`${node.addresses.realtime}${namespace}`, {
    path: '/realtime',
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    ...options,
  });
  open.push(socket);
  return socket;
}

export async function connectChat(
  node: Pick<TestNode, 'addresses'>,
  user: TestUser,
  options: Parameters<typeof io>[1] = {},
): Promise<ChatClient> {
  const socket = openSocket(node, { auth: { token: user.accessToken }, ...options });
  const heard: Heard[] = [];
  socket.onAny((event: string, data: Json) => heard.push({ event, data }));
  await waitFor(() => socket.connected, { what: 'the connection' });
  return {
    user,
    socket,
    heard,
    of: (event) => heard.filter((one) => one.event === event).map(({ data }) => data),
    ask: (event, ...args) => socket.timeout(10_000).emitWithAck(event, ...args),
    close: () => void socket.disconnect(),
  };
}

/** Why a socket is not let in. */
export const refusalOf = (socket: Socket): Promise<{ message: string; data?: Json }> =>
  new Promise((resolve, reject) => {
    socket.on('connect_error', (error) => resolve(error as never));
    socket.on('connect', () => reject(new Error('It was let in')));
  });

export async function makeRoom(
  owner: TestUser,
  others: readonly TestUser[],
  roomName = 'A room',
): Promise<string> {
  const users = others.length > 0 ? others.map(({ userId }) => userId) : [owner.userId];
  const answer = await owner.api.post('/chat/rooms', { roomName, users });
  return expectStatus(answer, 200, 'a room').body.roomId;
}

export const configure = async (node: TestNode, config: Json): Promise<void> =>
  void expectStatus(await node.admin.patch('/config/chat', { config }), 200, 'configuration');
