/** Runs subscriptions: what a field asks for is listened to through the engine of live lists, or as a socket would. */
import { randomUUID } from 'node:crypto';
import type { GraphQLResolveInfo } from 'graphql';
import { spelledUuid } from '../../kernel/operations/uuid-spelling.ts';
import { realtimeErrors } from '../realtime/errors.ts';
import type { LiveEngine } from '../realtime/live/live-engine.ts';
import type { LiveBeginning, LiveMessage } from '../realtime/live/live-messages.ts';
import { createStreamQueue, openLiveStream } from '../realtime/live-stream.ts';
import type { Session } from '../realtime/session.ts';
import { type Arguments, chargeInput, operationInput } from './field-input.ts';
import { type EventsField, eventField, type LiveField, type SubscribeWith } from './live-fields.ts';
import { readSelection, type Selection, standIds } from './selection.ts';
import type { GivenConnection, SocketAudience } from './socket-audience.ts';
import type { TypeBuilder } from './types.ts';

/** Every field of a subscription is subscribed to by the connection that is its context. */
export const subscribeToField: SubscribeWith = (field) => (_source, args, context, info) =>
  (context as Subscriber).subscribe(field, args as Arguments, info);

export interface Subscriber {
  /** Rejects as the operation does that answers the same. */
  subscribe(
    field: LiveField | EventsField,
    args: Arguments,
    info: GraphQLResolveInfo,
  ): Promise<AsyncIterableIterator<unknown>>;
}

interface SubscriberParts {
  readonly session: Session;
  readonly engine: LiveEngine;
  readonly audience: SocketAudience;
  readonly types: TypeBuilder;
  /** Something went to the client. */
  readonly onDelivered: () => void;
}

/** Milliseconds of silence after which the session is looked at. */
const LOOK_MS = 15_000;

export function createSubscriber(parts: SubscriberParts): Subscriber {
  return {
    async subscribe(field, args, info) {
      const selection = readSelection(info, parts.types);
      return field.kind === 'live'
        ? liveEvents(parts, field, { args, selection })
        : socketEvents(parts, field, { args, selection });
    },
  };
}

interface Asked {
  readonly args: Arguments;
  readonly selection: Selection;
}

async function liveEvents(
  { session, engine, onDelivered }: SubscriberParts,
  { field, since }: LiveField,
  { args, selection }: Asked,
): Promise<AsyncIterableIterator<unknown>> {
  const input = operationInput(field, args, selection.populate);
  chargeInput(input);
  const { operation } = field.compiled;
  const caller = await session.anyCaller();
  const from = typeof args[since] === 'string' ? args[since] : undefined;
  const stream = await openLiveStream(
    (listener) =>
      engine.watchOperation(
        caller,
        { operation, input, ...(from !== undefined && { since: from }) },
        listener,
      ),
    { callerNow: session.anyCaller, onSlow: engine.slow },
  );
  const waiting = beginningOf(stream.beginning, from !== undefined);
  const next = async (): Promise<unknown> => {
    while (true) {
      const first = waiting.shift();
      if (first !== undefined) return withIds(first, selection);
      const message = await stream.next(LOOK_MS);
      // The connection itself tells of a session that has ended.
      if (message === 'end') return undefined;
      if (message === 'silence') await stream.admits();
      else if (message.event !== 'error') return withIds(eventOf(message), selection);
      else return undefined;
    }
  };
  return iteratorOf({ next, leave: stream.leave, onDelivered });
}

/** What a subscriber is told first. */
function beginningOf(beginning: LiveBeginning, resumes: boolean): unknown[] {
  const { position } = beginning;
  const gap = resumes ? 'lost' : null;
  switch (beginning.kind) {
    case 'missed':
      return beginning.messages.length > 0
        ? beginning.messages.map(eventOf)
        : [{ position, changes: [] }];
    case 'value':
      return [{ position, gap, changed: false, value: JSON.parse(beginning.json) as unknown }];
    case 'records':
      return [
        { position, gap, records: beginning.rows.map(({ json }) => JSON.parse(json) as unknown) },
      ];
  }
}

const eventOf = ({ event, data }: LiveMessage): unknown =>
  event === 'gap' ? { gap: data.reason } : { changed: true, ...data };

/** What listeners share is not changed for one of them. */
function withIds(event: unknown, { links }: Selection): unknown {
  if (links.size === 0) return event;
  const own = structuredClone(event);
  standIds(own, links);
  return own;
}

/** Ends with CONSUMER_TOO_SLOW for who does not read. */
async function socketEvents(
  { session, audience, engine, onDelivered }: SubscriberParts,
  { namespace, by }: EventsField,
  { args, selection }: Asked,
): Promise<AsyncIterableIterator<unknown>> {
  const selected = [...selection.requested.keys()].filter((name) => name !== 'event');
  const chosen = by === undefined ? undefined : spelledUuid(args[by]);
  const only = typeof chosen === 'string' ? chosen : undefined;
  const queue = createStreamQueue<unknown>(() => {
    engine.slow();
    return realtimeErrors.CONSUMER_TOO_SLOW();
  });
  const connection: GivenConnection = {
    id: randomUUID(),
    userId: session.userId,
    caller: session.caller,
    anyCaller: session.anyCaller,
    emit(event, data) {
      const field = eventField(event);
      if (selected.length > 0 && !selected.includes(field)) return;
      if (by !== undefined && only !== undefined)
        if ((data as Readonly<Record<string, unknown>> | undefined)?.[by] !== only) return;
      queue.put({ event, [field]: data });
    },
  };
  if (session.userId === '') await session.caller();
  const leave = await audience.enter(namespace, connection, { only, ended: () => queue.end() });
  const next = async (): Promise<unknown> => {
    while (true) {
      const message = await queue.next(LOOK_MS);
      if (message === 'end') return undefined;
      if (message instanceof Error) throw message;
      // A session that has ended hears nothing, though the event about it may come later.
      await session.anyCaller();
      if (message !== 'silence') return message;
    }
  };
  return iteratorOf({
    next,
    leave() {
      leave();
      queue.end();
    },
    onDelivered,
  });
}

interface Source {
  /** Nothing more comes after `undefined`. */
  next(): Promise<unknown>;
  leave(): void;
  readonly onDelivered: () => void;
}

/** No generator: it leaves at once when it is ended, also while it waits for what comes next. */
function iteratorOf({ next, leave, onDelivered }: Source): AsyncIterableIterator<unknown> {
  const ended = { done: true, value: undefined } as const;
  const end = async (): Promise<IteratorReturnResult<undefined>> => {
    leave();
    return ended;
  };
  return {
    async next() {
      try {
        const value = await next();
        if (value === undefined) return await end();
        onDelivered();
        return { done: false, value };
      } catch (error) {
        leave();
        throw error;
      }
    },
    return: end,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
