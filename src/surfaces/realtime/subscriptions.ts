/** What one socket is subscribed to. */
import type { Socket } from 'socket.io';
import type { Static } from 'typebox';
import Type from 'typebox';
import { canonicalId, isRecordId, platformKey } from '../../data/schema/language/record-key.ts';
import type { Kernel } from '../../host/kernel.ts';
import type { UserCaller } from '../../kernel/caller.ts';
import { errors, invalid } from '../../kernel/errors.ts';
import type { Events } from '../../kernel/events/events.ts';
import type { LimitBucket, Limits } from '../../kernel/limits/limits.ts';
import type { GoneRecord } from '../../kernel/permissions.ts';
import type { Accounts } from '../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import type { Change, ChangeHub, Subscription } from './changes.ts';
import { asKnown, describeError, realtimeErrors, tooMany } from './errors.ts';
import type { FindGone } from './gone-records.ts';
import type { Session } from './session.ts';

/* Which changes a user may hear of: those of records that they may read. Who may read is asked of the record engine alone. */

type AccessKernel = Pick<Kernel, 'bus' | 'schemas' | 'records'>;

interface SubscriptionRights {
  readonly schema: string;
  readonly documentId?: string | undefined;
  /** The record that changed, where all of the schema are listened to. */
  readonly changed?: string | undefined;
  /** The record is gone: finds what is known of it, so that only those hear of it who could read it until then. */
  readonly gone?: (() => Promise<GoneRecord>) | undefined;
}

/**
 * Throws unless the user may hear of changes of this record, or of the schema without `documentId`: 404 for a schema
 * that is not served or not offered to subscribers, 403 without permission, 503 while nobody can tell. Answers whether
 * they hear of this change: those who listen to a schema hear of the records that they may read.
 */
async function maySubscribe(
  { schemas, records }: AccessKernel,
  caller: UserCaller,
  rights: SubscriptionRights,
): Promise<boolean> {
  const { schema: name, documentId, changed, gone } = rights;
  const schema = schemas.get(name);
  if (!schema || schema.modelOptions.conduit.realtime?.enabled === false)
    throw errors.NOT_FOUND({
      message: `There is no schema "${name}" whose changes you could hear`,
    });
  const readable = await records.readable(caller, name);
  if (documentId !== undefined && !isRecordId(schema.key, documentId))
    throw invalid('documentId', 'format', 'is not the id of a record');
  const id = documentId ?? changed;
  if (readable === 'all' || id === undefined) return true;
  const allowed = await (gone
    ? records.couldRead(caller, name, id, await gone())
    : records.mayRead(caller, name, id));
  if (!allowed && documentId !== undefined)
    throw errors.FORBIDDEN({ message: 'You may not read this record' });
  return allowed;
}

export interface SubscriptionParts {
  readonly socket: Socket;
  readonly session: Session;
  readonly kernel: AccessKernel;
  readonly events: Pick<Events, 'position'>;
  readonly hub: ChangeHub;
  readonly gone: FindGone;
  readonly limits: Limits;
  readonly accounts: Accounts;
  readonly onDelivered: () => void;
}

export const Target = Type.Object({
  schema: Type.String({ minLength: 1, maxLength: 128 }),
  /** Without it: all records of the schema. */
  documentId: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 })),
});
export const Subscribe = Type.Object({
  ...Target.properties,
  since: Type.Optional(Type.Integer({ minimum: 0 })),
});

/** What is listened to, or is about to be. */
interface Slot {
  leave?: () => void;
}

export interface Subscriptions {
  /**
   * Answers the sequence from which on everything is delivered; `resync` when what `since` asked for
   * is no longer kept, so that the client must load its records anew.
   */
  subscribe(
    input: Static<typeof Subscribe>,
  ): Promise<{ readonly sequence: number; readonly resync?: true }>;
  unsubscribe(target: Static<typeof Target>): Promise<Record<never, never>>;
  clear(): void;
}

/** Resumptions of one user, each of which may read thousands of past events. */
const resumeBudget: LimitBucket = { name: 'realtime.resume', requests: 300, seconds: 60 };
const maxSubscriptions = 100;
/** Packets that may wait for a socket that reads slowly, and characters in them. */
const maxWaitingPackets = 2_000;
/** The same of answers, which are small and come in bursts as the questions do. */
export const maxWaitingAnswers = 20_000;
const maxWaitingCharacters = 4_000_000;

/** `end` closes the socket with an error, as when its session is over. */
export function createSubscriptions(
  parts: SubscriptionParts,
  end: (error: unknown) => void,
): Subscriptions {
  const { socket, session, events, hub } = parts;
  /** By target; while a slot is being filled it holds nothing yet. */
  const held = new Map<string, Slot>();

  const drop = (key: string): void => {
    held.get(key)?.leave?.();
    held.delete(key);
  };
  /**
   * No permission (403, 404) and permissions that cannot be decided for this record (400) end one subscription; anything
   * else is about the session, and nothing may be left out silently.
   */
  const refuse = (target: Static<typeof Target>, error: unknown): false => {
    if (![400, 403, 404].includes(asKnown(error).status)) end(error);
    else if (held.has(keyOf(target))) {
      drop(keyOf(target));
      socket.emit('conduit_error', { ...describeError(error), ...target });
    }
    return false;
  };
  /** Keeps a subscription, or gives it up at once when the socket went away, or the target was left or asked for anew. */
  const keep = (key: string, slot: Slot, leave: () => void): void => {
    if (socket.connected && held.get(key) === slot) slot.leave = leave;
    else leave();
  };

  return {
    async subscribe({ since, ...given }) {
      const target = canonical(parts, given);
      await maySubscribe(parts.kernel, await session.caller(), target);
      const key = keyOf(target);
      drop(key);
      if (held.size >= maxSubscriptions) throw realtimeErrors.SUBSCRIPTION_LIMIT_EXCEEDED();
      const slot: Slot = {};
      held.set(key, slot);
      const subscription = subscriptionTo(parts, target, (error) => refuse(target, error), end);
      try {
        const resumed = since === undefined ? undefined : await resume(parts, subscription, since);
        keep(key, slot, resumed ?? hub.add(subscription));
        // Read after the subscription is live: what came between is delivered, not lost.
        return {
          sequence: await events.position(),
          ...(since !== undefined && !resumed && { resync: true as const }),
        };
      } catch (error) {
        if (held.get(key) === slot) drop(key);
        throw error;
      }
    },
    async unsubscribe(target) {
      drop(keyOf(canonical(parts, target)));
      return {};
    },
    clear() {
      for (const key of [...held.keys()]) drop(key);
    },
  };
}

/** What the hub of changes asks: whether the caller may see a change now, and to send it. */
function subscriptionTo(
  parts: SubscriptionParts,
  target: Static<typeof Target>,
  refuse: (error: unknown) => false,
  end: (error: unknown) => void,
): Subscription {
  const onOwnAccount = <T>(work: () => T): T => onAccount(parts.accounts.openFor('client'), work);
  return {
    ...target,
    documentId: target.documentId,
    admit: (change) =>
      onOwnAccount(() =>
        admits(
          parts,
          {
            ...target,
            changed: change.documentId,
            ...(change.operation === 'delete' && { gone: () => parts.gone(change) }),
          },
          refuse,
        ),
      ),
    async recheck() {
      await onOwnAccount(async () => admits(parts, target, refuse));
    },
    send: (change) => send(parts, change, end),
    // Clients come back by themselves, and are told to load their records anew.
    lost: () => end(errors.UNAVAILABLE({ message: 'Changes were missed: connect again' })),
  };
}

async function resume(
  { limits, session, hub }: SubscriptionParts,
  subscription: Subscription,
  since: number,
): Promise<(() => void) | undefined> {
  const state = await limits.consume(resumeBudget, session.userId);
  if (!state.allowed) throw tooMany(state.resetMs);
  return hub.resume(subscription, since);
}

/** UUIDs may be written in either case; changes name them in small letters. */
const canonical = (
  { kernel }: SubscriptionParts,
  { schema, documentId }: Static<typeof Target>,
): Static<typeof Target> => ({
  schema,
  ...(documentId !== undefined && {
    documentId: canonicalId(kernel.schemas.get(schema)?.key ?? platformKey, documentId),
  }),
});

const keyOf = ({ schema, documentId }: Static<typeof Target>): string =>
  `${documentId ?? '*'} ${schema}`;

/** Whether the user may hear of this now; without a promise when all is cached. */
function admits(
  parts: SubscriptionParts,
  rights: SubscriptionRights,
  refuse: (error: unknown) => false,
): boolean | Promise<boolean> {
  const caughtUp = parts.kernel.bus.freshness.catchUp();
  return caughtUp
    ? caughtUp.then(() => admitsNow(parts, rights, refuse), refuse)
    : admitsNow(parts, rights, refuse);
}

/** With what this node has in memory. */
function admitsNow(
  { session, kernel }: SubscriptionParts,
  rights: SubscriptionRights,
  refuse: (error: unknown) => false,
): boolean | Promise<boolean> {
  try {
    const caller = session.caller();
    const checked =
      caller instanceof Promise
        ? caller.then((user) => maySubscribe(kernel, user, rights))
        : maySubscribe(kernel, caller, rights);
    return checked.catch(refuse);
  } catch (error) {
    return refuse(error);
  }
}

function send(
  { socket, onDelivered }: SubscriptionParts,
  change: Change,
  end: (error: unknown) => void,
): void {
  if (!socket.connected) return;
  if (isTooSlow(socket)) {
    end(realtimeErrors.CONSUMER_TOO_SLOW());
    return;
  }
  socket.emit('change', change);
  onDelivered();
}

/** What waits in Socket.IO until the network has taken what went before. */
interface WaitingPackets {
  readonly writeBuffer?: readonly { readonly data?: unknown }[];
  readonly transport?: { readonly writable: boolean };
}

/**
 * So much waits for this socket that nothing more may be kept for it. What waits for the end of this turn alone says
 * nothing about its reader.
 */
export function isTooSlow({ conn }: Pick<Socket, 'conn'>, maxPackets = maxWaitingPackets): boolean {
  const { writeBuffer = [], transport } = conn as unknown as WaitingPackets;
  if (transport?.writable) return false;
  if (writeBuffer.length > maxPackets) return true;
  let characters = 0;
  for (const { data } of writeBuffer) if (typeof data === 'string') characters += data.length;
  return characters > maxWaitingCharacters;
}
