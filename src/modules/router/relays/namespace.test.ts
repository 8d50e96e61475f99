/** Who hears relayed events, where their socket goes while they ask, and where rights change all the time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { noMetrics, silentLog } from '../../../../test/support/quiet.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { EventHandler, PublishedEvent } from '../../../kernel/events/events.ts';
import type {
  SocketConnection,
  SocketNamespace,
} from '../../../kernel/sockets/socket-namespace.ts';
import { startRelays } from './namespace.ts';
import type { RelayRow } from './store.ts';
import type { RelayParts } from './subscribers.ts';

const relayId = '00000000-0000-7000-8000-000000000001';
const relay = {
  ...{ _id: relayId, name: 'posts', busEvent: 'posts:*', socketEvent: 'post' },
  ...{ permission: 'read', resourceType: 'Post', resourceIdPath: null, messageTemplate: null },
} as unknown as RelayRow;

function started(check: () => Promise<boolean>) {
  let namespace: SocketNamespace | undefined;
  let heard: EventHandler = () => undefined;
  const stop = startRelays({
    relays: { active: async () => [relay] },
    sockets: {
      register(given: SocketNamespace) {
        namespace = given;
        return () => undefined;
      },
    },
    events: {
      subscribe(_pattern: string, handler: EventHandler) {
        heard = handler;
        return () => undefined;
      },
    },
    bus: { freshness: { catchUp: () => undefined } },
    limits: { consume: async () => ({ allowed: true, resetMs: 0 }) },
    permissions: { engine: { check } },
    schemas: { get: () => undefined },
    ...{ metrics: noMetrics, log: silentLog },
  } as unknown as RelayParts);
  const subscribe = namespace?.events.find(({ name }) => name === 'subscribe');
  return {
    stop,
    changeOfRights: () =>
      heard({ topic: 'authorization:delete:relation' } as unknown as PublishedEvent),
    subscribe: async (connection: SocketConnection) =>
      subscribe?.handler(connection, { relayId, resourceId: 'p1' } as never),
  };
}

const connectionOf = (isOpen: () => boolean) => {
  const emitted: string[] = [];
  const connection = {
    ...{ id: 's', userId: 'me', isOpen, join: () => undefined, leave: () => undefined },
    emit: (event: string) => void emitted.push(event),
    caller: async () => ({ kind: 'user', userId: 'me' }),
  } as unknown as SocketConnection;
  return { connection, emitted };
};

it('keeps nothing of a socket that has gone while it asked (CWE-401)', async () => {
  let checks = 0;
  const relays = started(async () => {
    checks += 1;
    return true;
  });
  const { connection } = connectionOf(() => false);
  await relays.subscribe(connection).catch(() => undefined);
  expect(checks).toBe(1);
  await relays.changeOfRights();
  await sleep(150);
  expect(checks).toBe(1);
  relays.stop();
});

it('asks for the rights of a subscriber once at a time, however often they change', async () => {
  const asked: PromiseWithResolvers<boolean>[] = [];
  const relays = started(() => {
    const one = Promise.withResolvers<boolean>();
    asked.push(one);
    return one.promise;
  });
  const { connection, emitted } = connectionOf(() => true);
  const subscribed = relays.subscribe(connection);
  await waitFor(() => asked.length === 1);
  asked[0]?.resolve(true);
  await subscribed;
  await relays.changeOfRights();
  await waitFor(() => asked.length === 2);
  for (let change = 0; change < 3; change += 1) {
    await relays.changeOfRights();
    await sleep(80);
  }
  expect(asked).toHaveLength(2);
  asked[1]?.resolve(true);
  // What changed while it was asked is asked about again, once.
  await waitFor(() => asked.length === 3);
  asked[2]?.resolve(false);
  await waitFor(() => emitted.includes('ended'));
  expect(asked).toHaveLength(3);
  relays.stop();
});
