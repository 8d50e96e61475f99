/** The namespace `/events/`: who hears what of the events that relays pass on. */
import Type from 'typebox';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import type { LimitBucket } from '../../../kernel/limits/limits.ts';
import {
  defineSocketEvent,
  type SocketConnection,
  type SocketNamespace,
} from '../../../kernel/sockets/socket-namespace.ts';
import { routerErrors } from '../errors.ts';
import { createRechecks } from '../rechecks.ts';
import {
  activeRelay,
  concerned,
  lookAt,
  name,
  type Places,
  passOn,
  type RelayParts,
  requireSubscriber,
  roomFor,
  type Subscription,
} from './subscribers.ts';

/** Subscriptions of one socket. */
const MAX_OF_SOCKET = 100;
/** Each asks whether the user may. */
const askBudget: LimitBucket = { name: 'realtime.relays', requests: 600, seconds: 60 };
/** Milliseconds between looks at rights that end by themselves. */
const SWEEP_MS = 10_000;
/** What happened to rights, and to relays. */
const changesRights = /^(?:authorization:|router:[a-z]+:relay$)/;

const Place = Type.Object({
  relayId: Type.String({ format: 'uuid', description: 'Id of a relay' }),
  resourceId: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: 'Of what; left out: of everything' }),
  ),
});

/** Answers how to stop. */
export function startRelays(parts: RelayParts): () => void {
  const { sockets, events } = parts;
  const bySocket = new Map<SocketConnection, Map<string, Subscription>>();
  const rooms = new Map<string, Set<Subscription>>();
  const all = (): readonly Subscription[] =>
    [...bySocket.values()].flatMap((own) => [...own.values()]);
  const leave = (subscription: Subscription): boolean => {
    const { connection, room } = subscription;
    const own = bySocket.get(connection);
    if (!own?.delete(room)) return false;
    if (own.size === 0) bySocket.delete(connection);
    const those = rooms.get(room);
    if (those?.delete(subscription) && those.size === 0) rooms.delete(room);
    connection.leave(room);
    return true;
  };
  const enter = (subscription: Subscription): void => {
    const { connection, room } = subscription;
    const own = bySocket.get(connection) ?? new Map<string, Subscription>();
    // It may have gone while it asked whether it may.
    if (own.has(room) || !connection.isOpen()) return;
    if (own.size >= MAX_OF_SOCKET) throw routerErrors.EVENT_SUBSCRIPTION_LIMIT_EXCEEDED();
    bySocket.set(connection, own.set(room, subscription));
    rooms.set(room, (rooms.get(room) ?? new Set()).add(subscription));
    connection.join(room);
  };
  const changes = { heard: 0 };
  const places: Places = { enter, leave, all, of: (one) => bySocket.get(one), rooms, changes };
  const rechecks = createRechecks(lookAt(parts, places));
  const sweep = setInterval(() => rechecks.touch(all()), SWEEP_MS);
  sweep.unref();
  const unserve = sockets.register(relayNamespace(parts, places));
  const unfollow = events.subscribe('*', (event) => {
    if (rooms.size === 0) return undefined;
    if (changesRights.test(event.topic)) {
      changes.heard += 1;
      rechecks.touch(all());
    }
    return passOn(parts, places, event).then(async () =>
      rechecks.touch(await concerned(parts, places, event)),
    );
  });
  return () => {
    unfollow();
    clearInterval(sweep);
    rechecks.stop();
    unserve();
  };
}

function relayNamespace(parts: RelayParts, places: Places): SocketNamespace {
  const denied = parts.metrics.counter(
    'event_relay_subscriptions_denied_total',
    'Subscriptions to relayed events that were refused',
  );
  return {
    name,
    summary: 'Events of the platform that operators pass on',
    errorEvent: 'event_error',
    events: [
      defineSocketEvent({
        name: 'subscribe',
        summary: 'Hear what a relay passes on about one resource, or about all of them.',
        input: Place,
        async handler(connection, { relayId, resourceId }) {
          const { allowed, resetMs } = await parts.limits.consume(askBudget, connection.userId);
          if (!allowed)
            throw errors.RATE_LIMIT({ retryAfter: Math.max(1, Math.ceil(resetMs / 1_000)) });
          const askedAt = places.changes.heard;
          const asked = { connection, relayId, resourceId: resourceId ?? '', askedAt };
          try {
            const relay = await requireSubscriber(parts, asked);
            places.enter({ ...asked, room: roomFor(parts, relay, asked) });
            return { event: relay.socketEvent };
          } catch (error) {
            if (error instanceof PenstockError && error.status < 500) denied.inc();
            throw error;
          }
        },
      }),
      defineSocketEvent({
        name: 'unsubscribe',
        summary: 'Hear it no more.',
        input: Place,
        async handler(connection, { relayId, resourceId }) {
          const relay = await activeRelay(parts, relayId);
          const asked = { relayId, resourceId: resourceId ?? '' };
          const known = relay && places.of(connection)?.get(roomFor(parts, relay, asked));
          if (known) places.leave(known);
          return {};
        },
      }),
    ],
    sends,
    admit: async (connection) => ({
      connected: () => undefined,
      closed() {
        for (const one of [...(places.of(connection)?.values() ?? [])]) places.leave(one);
      },
    }),
  };
}

const sends = [
  {
    name: 'ended',
    summary: 'You hear this no more: you may not now, or the relay is no more.',
    payload: Type.Object({ relayId: Type.String(), resourceId: Type.Optional(Type.String()) }),
  },
  {
    name: 'event_error',
    summary: 'Something was refused, or the session ends.',
    payload: Type.Object({
      ...{ status: Type.Integer(), code: Type.String(), message: Type.String() },
    }),
  },
];
