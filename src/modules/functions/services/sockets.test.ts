/** What socket functions hand to the other nodes while the bus does not keep up, and the bound of rooms. */
import { expect, it } from 'vitest';
import type {
  SocketConnection,
  SocketNamespace,
  SocketNamespaces,
} from '../../../kernel/sockets/socket-namespace.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { RunRequest } from './run-request.ts';
import { createFunctionSockets } from './sockets.ts';

/** One socket function whose runs answer `text` once `running` has resolved; its event, and what came of it. */
function createServed(text: () => string, running: Promise<void> = Promise.resolve()) {
  const [served, told, published]: [SocketNamespace[], string[], unknown[]] = [[], [], []];
  const one = { _id: 'f', name: 'say', functionType: 'socket', enabled: true, inputs: {} };
  const definition = { ...one, returns: null } as unknown as StoredFunction;
  const sockets = createFunctionSockets({
    runner: {
      active: () => 0,
      async run({ accept }: RunRequest) {
        const answer = text();
        await running;
        accept?.({ text: answer, reply: undefined });
        return {} as never;
      },
    },
    store: { byId: () => definition },
    maxRooms: () => 10,
    sockets: {
      all: () => served,
      register: (namespace: SocketNamespace) => {
        served.push(namespace);
        return () => undefined;
      },
      broadcast: (name: string) => void told.push(name),
    } as unknown as SocketNamespaces,
    bus: {
      subscribe: () => () => undefined,
      publish(_topic, payload) {
        published.push(payload);
        return new Promise(() => undefined);
      },
    },
  });
  sockets.publish([definition], () => undefined);
  const [event] = served[0]?.events ?? [];
  const ask = async (connection: object): Promise<unknown> =>
    event?.handler(connection as SocketConnection, { params: [] } as never);
  return { ask, told, published };
}

const visitor = { id: 'c', anyCaller: async () => ({ kind: 'anonymous' }) };

it('keeps a bounded amount for a bus that hangs, and goes on with the sockets of this node', async () => {
  const text = JSON.stringify({ event: 'said', data: 'x'.repeat(1_000_000), rooms: ['kitchen'] });
  const { ask, told, published } = createServed(() => text);
  for (let i = 0; i < 10; i += 1) await ask(visitor);
  expect(published).toHaveLength(3);
  expect(told.filter((name) => name === '/functions/say')).toHaveLength(10);
});

it('lets a socket into no more rooms when answers come side by side, and counts a room once', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let made = 0;
  const three = (): string => {
    made += 1;
    return JSON.stringify({ event: 'join-room', rooms: ['all', `a${made}`, `b${made}`] });
  };
  const { ask } = createServed(three, promise);
  const joined = new Set<string>();
  const connection = { ...visitor, join: (room: string) => void joined.add(room) };
  const asked = Array.from({ length: 8 }, () => ask(connection));
  resolve();
  const refused = (await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(4);
  expect(joined.size).toBe(9);
});
