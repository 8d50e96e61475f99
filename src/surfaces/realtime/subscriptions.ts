/** What one socket is subscribed to. */
import type { Socket } from 'socket.io';
import Type, { type Static } from 'typebox';
import { canonicalId, platformKey } from '../../data/schema/language/record-key.ts';
import type { Accounts } from '../../kernel/account/account-settings.ts';
import { onAccount } from '../../kernel/account/request-account.ts';
import type { Events } from '../../kernel/events/events.ts';
import type { LimitBucket, Limits } from '../../kernel/limits/limits.ts';
import { type AccessKernel, assertMayHear, type Hearing } from './access.ts';
import type { Change, ChangeHub, Subscription } from './changes.ts';
import { asKnown, describeError, realtimeErrors, tooMany } from './errors.ts';
import type { FindLost } from './lost-relations.ts';
import type { Session } from './session.ts';

export interface SubscriptionParts {
  readonly socket: Socket;
  readonly session: Session;
  readonly kernel: AccessKernel;
  readonly events: Pick<Events, 'position'>;
  readonly hub: ChangeHub;
  readonly lost: FindLost;
  readonly limits: Limits;
  readonly accounts: Accounts;
  readonly onDelivered: () => void;
}

export const Target = Type.Object({
  schema: Type.String({ minLength: 1, maxLength: 128 }),
  /** Without it: all records of the schema. */
  documentId: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 })),
});
export const Subscribe = Type.Object({ ...Target.properties, since: Type.Optional(Type.Integer({ minimum: 0 })) });

export interface Subscriptions {
  /**
   * Answers the sequence from which on everything is delivered; `resync` when what `since` asked for
   * is no longer kept, so that the client must load its records anew.
   */
  subscribe(input: Static<typeof Subscribe>): Promise<{ readonly sequence: number; readonly resync?: true }>;
  unsubscribe(target: Static<typeof Target>): Promise<Record<never, never>>;
  clear(): void;
}

/** Resumptions of one user, each of which may read thousands of past events. */
const resumeBudget: LimitBucket = { name: 'realtime.resume', requests: 300, seconds: 60 };
const maxSubscriptions = 100;
/** Packets that may wait for a socket that reads slowly. */
const maxWaitingPackets = 2_000;

/** `end` closes the socket with an error, as when its session is over. */
export function createSubscriptions(parts: SubscriptionParts, end: (error: unknown) => void): Subscriptions {
  const { socket, session, events, hub, limits } = parts;
  /** By target; while a slot is being filled it holds nothing yet. */
  const held = new Map<string, (() => void) | undefined>();

  const drop = (key: string): void => {
    held.get(key)?.();
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
  const subscriptionTo = (target: Static<typeof Target>): Subscription => ({
    ...target,
    documentId: target.documentId,
    admit: (change) =>
      onAccount(parts.accounts.openFor('client'), () =>
        admits(parts, { ...target, ...(change.operation === 'delete' && { lost: () => parts.lost(change) }) }, (error) =>
          refuse(target, error),
        ),
      ),
    async recheck() {
      await onAccount(parts.accounts.openFor('client'), async () => admits(parts, target, (error) => refuse(target, error)));
    },
    send: (change) => send(parts, change, end),
  });
  const resume = async (subscription: Subscription, since: number): Promise<(() => void) | undefined> => {
    const state = await limits.consume(resumeBudget, session.userId);
    if (!state.allowed) throw tooMany(state.resetMs);
    return hub.resume(subscription, since);
  };
  /** Keeps a subscription, or gives it up at once when the socket went away or the target was left meanwhile. */
  const keep = (key: string, leave: () => void): void => {
    if (socket.connected && held.has(key)) held.set(key, leave);
    else leave();
  };

  return {
    async subscribe({ since, ...given }) {
      const target = canonical(parts, given);
      await assertMayHear(parts.kernel, await session.caller(), target);
      const key = keyOf(target);
      drop(key);
      if (held.size >= maxSubscriptions) throw realtimeErrors.TOO_MANY_SUBSCRIPTIONS();
      held.set(key, undefined);
      const subscription = subscriptionTo(target);
      try {
        const resumed = since === undefined ? undefined : await resume(subscription, since);
        keep(key, resumed ?? hub.add(subscription));
        // Read after the subscription is live: what came between is delivered, not lost.
        return { sequence: await events.position(), ...(since !== undefined && !resumed && { resync: true as const }) };
      } catch (error) {
        drop(key);
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

/** UUIDs may be written in either case; changes name them in small letters. */
const canonical = ({ kernel }: SubscriptionParts, { schema, documentId }: Static<typeof Target>): Static<typeof Target> => ({
  schema,
  ...(documentId !== undefined && { documentId: canonicalId(kernel.schemas.get(schema)?.key ?? platformKey, documentId) }),
});

const keyOf = ({ schema, documentId }: Static<typeof Target>): string => `${documentId ?? '*'} ${schema}`;

/** Whether the user may hear of this now; without a promise when all is cached. */
function admits(parts: SubscriptionParts, hearing: Hearing, refuse: (error: unknown) => false): boolean | Promise<boolean> {
  const settled = parts.kernel.bus.freshness.settle();
  return settled ? settled.then(() => admitsNow(parts, hearing, refuse), refuse) : admitsNow(parts, hearing, refuse);
}

/** With what this node has in memory. */
function admitsNow(
  { session, kernel }: SubscriptionParts,
  hearing: Hearing,
  refuse: (error: unknown) => false,
): boolean | Promise<boolean> {
  try {
    const caller = session.caller();
    const checked =
      caller instanceof Promise ? caller.then((user) => assertMayHear(kernel, user, hearing)) : assertMayHear(kernel, caller, hearing);
    return checked ? checked.then(() => true, refuse) : true;
  } catch (error) {
    return refuse(error);
  }
}

function send({ socket, onDelivered }: SubscriptionParts, change: Change, end: (error: unknown) => void): void {
  if (!socket.connected) return;
  if (waitingPackets(socket) > maxWaitingPackets) {
    end(realtimeErrors.SLOW_CONSUMER());
    return;
  }
  socket.emit('change', change);
  onDelivered();
}

/** What Socket.IO has not handed to the network yet. */
const waitingPackets = (socket: Socket): number =>
  (socket.conn as unknown as { writeBuffer?: readonly unknown[] }).writeBuffer?.length ?? 0;
