/** The namespace `/events/`: who hears what of the events that relays pass on. */
import Type from 'typebox';
import { canonicalId } from '../../../data/schema/language/record-key.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { isId } from '../../../kernel/ids.ts';
import type { LimitBucket } from '../../../kernel/limits/limits.ts';
import {
  defineSocketEvent,
  type SocketConnection,
  type SocketNamespace,
} from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { routerErrors } from '../errors.ts';
import { createRechecks } from '../rechecks.ts';
import type { Relays } from './relays.ts';
import type { RelayRow } from './store.ts';
import { factsOf, renderMessage, resourcesOf } from './template.ts';

export interface RelayParts
  extends Pick<
    Kernel,
    'bus' | 'events' | 'limits' | 'metrics' | 'permissions' | 'schemas' | 'sockets'
  > {
  readonly relays: Relays;
  readonly log: Logger;
}

const name = '/events';
/** Subscriptions of one socket. */
const MAX_OF_SOCKET = 100;
/** Each asks whether the user may. */
const askBudget: LimitBucket = { name: 'realtime.relays', requests: 600, seconds: 60 };
/** Milliseconds between looks at rights that end by themselves. */
const SWEEP_MS = 10_000;

interface Subscription {
  readonly connection: SocketConnection;
  readonly relayId: string;
  readonly resourceId: string;
  readonly room: string;
}

const Place = Type.Object({
  relayId: Type.String({ format: 'uuid', description: 'Id of a relay' }),
  resourceId: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: 'Of what; left out: of everything' }),
  ),
});

const roomOf = (relayId: string, resourceId = ''): string =>
  `${relayId.toLowerCase()}:${resourceId}`;

/** A resource in one spelling, whatever clients and events write: ids of records in small letters. */
function canonicalResource(
  { schemas }: Pick<RelayParts, 'schemas'>,
  { permission, resourceType }: RelayRow,
  id: string,
): string {
  if (permission === null || resourceType === null) return isId(id) ? id.toLowerCase() : id;
  const schema = schemas.get(resourceType);
  return schema ? canonicalId(schema.key, id) : id;
}

/** Answers how to stop. */
export function startRelays(parts: RelayParts): () => void {
  const { sockets, events } = parts;
  const bySocket = new Map<SocketConnection, Map<string, Subscription>>();
  const rooms = new Map<string, number>();
  const all = (): readonly Subscription[] =>
    [...bySocket.values()].flatMap((own) => [...own.values()]);
  const leave = ({ connection, room }: Subscription): boolean => {
    const own = bySocket.get(connection);
    if (!own?.delete(room)) return false;
    if (own.size === 0) bySocket.delete(connection);
    const left = (rooms.get(room) ?? 1) - 1;
    if (left === 0) rooms.delete(room);
    else rooms.set(room, left);
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
    rooms.set(room, (rooms.get(room) ?? 0) + 1);
    connection.join(room);
  };
  const places: Places = { enter, leave, all, of: (one) => bySocket.get(one), rooms };
  const rechecks = createRechecks(lookAt(parts, places));
  const sweep = setInterval(() => rechecks.touch(all()), SWEEP_MS);
  sweep.unref();
  const unserve = sockets.register(relayNamespace(parts, places));
  const unfollow = events.subscribe('*', (event) => {
    if (rooms.size === 0) return undefined;
    if (/^(?:authorization:|router:[a-z]+:relay$)/.test(event.topic)) rechecks.touch(all());
    return passOn(parts, places, event).then(async () => {
      const about = new Set(await roomsAbout(parts, places, event));
      if (about.size > 0) rechecks.touch(all().filter(({ room }) => about.has(room)));
    });
  });
  return () => {
    unfollow();
    clearInterval(sweep);
    rechecks.stop();
    unserve();
  };
}

interface Places {
  enter(subscription: Subscription): void;
  /** False where it had ended before. */
  leave(subscription: Subscription): boolean;
  all(): readonly Subscription[];
  of(connection: SocketConnection): ReadonlyMap<string, Subscription> | undefined;
  /** Subscriptions of this node by what they hear. */
  readonly rooms: ReadonlyMap<string, number>;
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
          const asked = { connection, relayId, resourceId: resourceId ?? '' };
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

const activeRelay = async (
  { relays }: Pick<RelayParts, 'relays'>,
  id: string,
): Promise<RelayRow | undefined> =>
  (await relays.active()).find(({ _id }) => _id === id.toLowerCase());

const roomFor = (
  parts: RelayParts,
  relay: RelayRow,
  { resourceId }: Pick<Subscription, 'resourceId'>,
): string => roomOf(relay._id, canonicalResource(parts, relay, resourceId));

/** Throws 404, 403, 400, and 503 while permissions cannot be asked. */
async function requireSubscriber(
  parts: RelayParts,
  { connection, relayId, resourceId }: Omit<Subscription, 'room'>,
): Promise<RelayRow> {
  const caller = await connection.caller();
  const { permissions } = parts;
  const relay = await activeRelay(parts, relayId);
  if (!relay) throw routerErrors.EVENT_RELAY_NOT_FOUND();
  const { permission, resourceType } = relay;
  if (permission === null || resourceType === null) return relay;
  // Nobody may do something with everything of a type.
  if (resourceId === '') throw routerErrors.EVENT_RESOURCE_REQUIRED();
  if (!permissions.engine) throw errors.UNAVAILABLE();
  const resource = `${resourceType}:${canonicalResource(parts, relay, resourceId)}`;
  const mayHear = await permissions.engine
    .check(caller, permission, resource)
    .catch((error: unknown) => {
      // An action or a type that there is not: nobody may.
      if (error instanceof PenstockError && error.status < 500) return false;
      throw error;
    });
  if (!mayHear) throw routerErrors.EVENT_RELAY_FORBIDDEN();
  return relay;
}

const matches = (pattern: string, topic: string): boolean =>
  pattern.endsWith('*') ? topic.startsWith(pattern.slice(0, -1)) : pattern === topic;

/** To the sockets of this node: the other nodes see the event too. */
async function passOn(
  parts: RelayParts,
  { rooms }: Pick<Places, 'rooms'>,
  event: PublishedEvent,
): Promise<void> {
  const { relays, sockets, log } = parts;
  for (const relay of await relays.active()) {
    if (!matches(relay.busEvent, event.topic)) continue;
    const facts = factsOf(event);
    for (const { room, id } of audiencesOf(
      parts,
      relay,
      resourcesOf(facts, relay.resourceIdPath),
    )) {
      if (!rooms.has(room)) continue;
      const text = renderMessage(relay.messageTemplate, facts, id);
      if (text === undefined)
        log.warn({ relay: relay.name, topic: event.topic }, 'A relayed event is too large');
      else sockets.broadcast(name, room, relay.socketEvent, JSON.parse(text));
    }
  }
}

/** Who is to hear of these resources: those who named one, and those who hear everything. */
function audiencesOf(parts: RelayParts, relay: RelayRow, ids: readonly string[]) {
  const { _id, permission } = relay;
  const named = ids.map((id) => ({ room: roomFor(parts, relay, { resourceId: id }), id }));
  if (permission !== null) return named;
  const room = roomOf(_id);
  return ids.length === 0
    ? [{ room, id: undefined }]
    : [...ids.map((id) => ({ room, id })), ...named];
}

/** Subscriptions whose rights are about what has just changed: rules read fields of the record itself. */
async function roomsAbout(
  parts: RelayParts,
  { rooms }: Pick<Places, 'rooms'>,
  { schema, ids = [] }: PublishedEvent,
): Promise<readonly string[]> {
  if (schema === undefined) return [];
  const relays = (await parts.relays.active()).filter(
    ({ permission, resourceType }) => permission !== null && resourceType === schema,
  );
  return relays
    .flatMap((relay) => ids.map((resourceId) => roomFor(parts, relay, { resourceId })))
    .filter((room) => rooms.has(room));
}

/** Asks again whether a subscriber may hear what they hear, and ends what they may not. */
const lookAt =
  (parts: RelayParts, places: Places) =>
  async (subscription: Subscription): Promise<boolean> => {
    const { connection, relayId, resourceId, room } = subscription;
    if (places.of(connection)?.get(room) !== subscription) return true;
    try {
      await parts.bus.freshness.catchUp();
      await requireSubscriber(parts, subscription);
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) {
        parts.log.warn({ err: error }, 'The rights of a subscriber to events could not be asked');
        return false;
      }
      if (places.leave(subscription))
        connection.emit('ended', { relayId, ...(resourceId !== '' && { resourceId }) });
    }
    return true;
  };

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
