/** What socket functions hand to the other nodes while the bus does not keep up. */
import { expect, it } from 'vitest';
import type {
  SocketConnection,
  SocketNamespace,
  SocketNamespaces,
} from '../../../kernel/sockets/socket-namespace.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { RunRequest } from './run-request.ts';
import { createFunctionSockets } from './sockets.ts';

it('keeps a bounded amount for a bus that hangs, and goes on with the sockets of this node', async () => {
  const text = JSON.stringify({ event: 'said', data: 'x'.repeat(1_000_000), rooms: ['kitchen'] });
  const [served, told, published]: [SocketNamespace[], string[], unknown[]] = [[], [], []];
  const one = { _id: 'f', name: 'say', functionType: 'socket', enabled: true, inputs: {} };
  const definition = { ...one, returns: null } as unknown as StoredFunction;
  const sockets = createFunctionSockets({
    runner: {
      active: () => 0,
      async run({ accept }: RunRequest) {
        accept?.({ text, reply: undefined });
        return {} as never;
      },
    },
    store: { byId: () => definition },
    mostRooms: () => 10,
    sockets: {
      all: () => served,
      register: (namespace: SocketNamespace) => {
        served.push(namespace);
        return () => undefined;
      },
      broadcast: (name: string) => void told.push(name),
    } as unknown as SocketNamespaces,
    bus: {
      subscribe: () => undefined,
      publish(_topic, payload) {
        published.push(payload);
        return new Promise(() => undefined);
      },
    },
  });
  sockets.publish([definition], () => undefined);
  const connection = { id: 'c', anyCaller: async () => ({ kind: 'anonymous' }) };
  const [event] = served[0]?.events ?? [];
  for (let i = 0; i < 10; i += 1)
    await event?.handler(connection as unknown as SocketConnection, { params: [] } as never);
  expect(published).toHaveLength(3);
  expect(told.filter((name) => name === '/functions/say')).toHaveLength(10);
});
