/** Who may hear what of the events that relays pass on: asked when somebody subscribes, and again before they are told. */
import { canonicalId } from '../../../data/schema/language/record-key.ts';
import type { Kernel } from '../../../host/kernel.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { isId } from '../../../kernel/ids.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { routerErrors } from '../errors.ts';
import { hangsOn } from '../rechecks.ts';
import type { Relays } from './relays.ts';
import type { RelayRow } from './store.ts';
import { factsOf, renderMessage, resourcesOf } from './template.ts';
export interface RelayParts
  extends Pick<
    Kernel,
    'bus' | 'events' | 'limits' | 'metrics' | 'permissions' | 'records' | 'schemas' | 'sockets'
  > {
  readonly relays: Relays;
  readonly log: Logger;
}

/** Of the namespace. */
export const name = '/events';
/** Subscribers whose rights are asked for at once before they are told. */
const ASKED_AT_ONCE = 16;
export interface Subscription {
  readonly connection: SocketConnection;
  readonly relayId: string;
  readonly resourceId: string;
  readonly room: string;
  /** Changes of rights that this node had heard of when it was last asked. */
  askedAt: number;
}

export interface Places {
  enter(subscription: Subscription): void;
  /** False where it had ended before. */
  leave(subscription: Subscription): boolean;
  all(): readonly Subscription[];
  of(connection: SocketConnection): ReadonlyMap<string, Subscription> | undefined;
  /** Subscriptions of this node by what they hear. */
  readonly rooms: ReadonlyMap<string, ReadonlySet<Subscription>>;
  /** How often rights may have changed, as far as this node has heard. */
  readonly changes: { heard: number };
}

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

export const activeRelay = async (
  { relays }: Pick<RelayParts, 'relays'>,
  id: string,
): Promise<RelayRow | undefined> =>
  (await relays.active()).find(({ _id }) => _id === id.toLowerCase());

export const roomFor = (
  parts: RelayParts,
  relay: RelayRow,
  { resourceId }: Pick<Subscription, 'resourceId'>,
): string => roomOf(relay._id, canonicalResource(parts, relay, resourceId));

/** Throws 404, 403, 400, and 503 while permissions cannot be asked. */
export async function requireSubscriber(
  parts: RelayParts,
  { connection, relayId, resourceId }: Omit<Subscription, 'room' | 'askedAt'>,
): Promise<RelayRow> {
  const caller = await connection.caller();
  const relay = await activeRelay(parts, relayId);
  if (!relay) throw routerErrors.EVENT_RELAY_NOT_FOUND();
  const { permission, resourceType } = relay;
  if (permission === null || resourceType === null) return relay;
  // Nobody may do something with everything of a type.
  if (resourceId === '') throw routerErrors.EVENT_RESOURCE_REQUIRED();
  const id = canonicalResource(parts, relay, resourceId);
  const mayHear = await mayDo(parts, caller, permission, { type: resourceType, id }).catch(
    (error: unknown) => {
      // An action or a type that there is not: nobody may.
      if (error instanceof PenstockError && error.status < 500) return false;
      throw error;
    },
  );
  if (!mayHear) throw routerErrors.EVENT_RELAY_FORBIDDEN();
  return relay;
}

/** Records are asked about where they are: permissions know of those in the trash too, and nothing of owner fields. */
async function mayDo(
  { permissions, records, schemas }: RelayParts,
  caller: UserCaller,
  permission: string,
  { type, id }: { readonly type: string; readonly id: string },
): Promise<boolean> {
  if (!permissions.engine) throw errors.UNAVAILABLE();
  if (schemas.get(type)?.modelOptions.conduit.authorization.enabled)
    return records.mayAct(caller, type, permission, id);
  return permissions.engine.check(caller, permission, `${type}:${id}`);
}

const matches = (pattern: string, topic: string): boolean =>
  pattern.endsWith('*') ? topic.startsWith(pattern.slice(0, -1)) : pattern === topic;

/** To the sockets of this node: the other nodes see the event too. */
export async function passOn(
  parts: RelayParts,
  places: Places,
  event: PublishedEvent,
): Promise<void> {
  for (const relay of await parts.relays.active()) {
    if (!matches(relay.busEvent, event.topic)) continue;
    const facts = factsOf(event);
    const resources = resourcesOf(facts, relay.resourceIdPath);
    for (const { room, id } of audiencesOf(parts, relay, resources))
      if (await mayStillHear(parts, places, { relay, event, room }))
        tell(parts, { relay, facts, room, id });
  }
}

interface Told {
  readonly relay: RelayRow;
  readonly facts: ReturnType<typeof factsOf>;
  readonly room: string;
  readonly id: string | undefined;
}

function tell({ sockets, log }: RelayParts, { relay, facts, room, id }: Told): void {
  const text = renderMessage(relay.messageTemplate, facts, id);
  if (text === undefined)
    log.warn({ relay: relay.name, topic: facts.topic }, 'A relayed event is too large');
  else sockets.broadcast(name, room, relay.socketEvent, JSON.parse(text));
}

interface Audible {
  readonly relay: RelayRow;
  readonly event: PublishedEvent;
  readonly room: string;
}

/**
 * False where nobody hears it. What happened before may have taken the right to hear it from some, who are asked first:
 * where nobody can tell now, nothing is told. Who hears of a record hears of its end.
 */
async function mayStillHear(
  parts: RelayParts,
  places: Places,
  { relay, event, room }: Audible,
): Promise<boolean> {
  const those = places.rooms.get(room);
  if (!those) return false;
  const isEnd = event.operation === 'delete' && event.schema === relay.resourceType;
  if (relay.permission === null || isEnd) return true;
  const due = [...those].filter(({ askedAt }) => askedAt < places.changes.heard);
  const look = lookAt(parts, places);
  let isKnown = true;
  for (let from = 0; from < due.length; from += ASKED_AT_ONCE) {
    const looked = await Promise.all(due.slice(from, from + ASKED_AT_ONCE).map(look));
    isKnown &&= looked.every(Boolean);
  }
  return isKnown;
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

/** Subscriptions whose rights are about what has just changed, the record itself or what these hang on: they are to be asked again. */
export async function concerned(
  parts: RelayParts,
  { all, rooms }: Pick<Places, 'all' | 'rooms'>,
  event: PublishedEvent,
): Promise<readonly Subscription[]> {
  const { schema, ids = [] } = event;
  if (schema === undefined) return [];
  const found: Subscription[] = [];
  for (const relay of await parts.relays.active()) {
    const { _id, permission, resourceType } = relay;
    if (permission === null || resourceType === null) continue;
    if (await hangsOn(parts.permissions, resourceType, event))
      found.push(...all().filter(({ relayId }) => relayId.toLowerCase() === _id));
    else if (resourceType === schema)
      for (const resourceId of ids)
        found.push(...(rooms.get(roomFor(parts, relay, { resourceId })) ?? []));
  }
  for (const one of found) one.askedAt = -1;
  return found;
}

/** Asks again whether a subscriber may hear what they hear, and ends what they may not. */
export const lookAt =
  (parts: RelayParts, places: Places) =>
  async (subscription: Subscription): Promise<boolean> => {
    const { connection, relayId, resourceId, room } = subscription;
    if (places.of(connection)?.get(room) !== subscription) return true;
    const { heard } = places.changes;
    try {
      await parts.bus.freshness.catchUp();
      await requireSubscriber(parts, subscription);
      subscription.askedAt = heard;
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
