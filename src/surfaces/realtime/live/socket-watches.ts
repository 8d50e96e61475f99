/** What one socket listens to, and how it is told. What many sockets listen to is encoded once for all of them. */
import type { Server, Socket } from 'socket.io';
import type { Static } from 'typebox';
import Type from 'typebox';
import type { LimitBucket, Limits } from '../../../kernel/limits/limits.ts';
import { realtimeErrors, tooMany } from '../errors.ts';
import type { Session } from '../session.ts';
import { isTooSlow } from '../subscriptions.ts';
import type { LiveEngine, WatchRequest } from './live-engine.ts';
import type { LiveBeginning, LiveMessage } from './live-messages.ts';
import type { LiveListener, LiveQuery } from './live-query.ts';
import type { LiveChannel } from './live-telling.ts';

export const Unwatch = Type.Object({ watch: Type.String({ minLength: 1, maxLength: 64 }) });

/** Lists of one socket, and of all sockets of a user on one node. */
const MAX_OF_SOCKET = 100;
const MAX_OF_USER = 1_000;
/** Each begins with a reading of the whole list. */
export const watchBudget: LimitBucket = { name: 'realtime.watch', requests: 600, seconds: 60 };

const roomOf = (watch: string): string => `watch:${watch}`;

/** Channels of the sockets of one node, one for each question. */
export interface SocketChannels {
  of(query: LiveQuery): LiveChannel;
}

export function createSocketChannels(
  io: Server,
  {
    namespaces,
    onDelivered,
  }: {
    readonly namespaces: readonly string[];
    readonly onDelivered: (count: number) => void;
  },
): SocketChannels {
  const channels = new WeakMap<LiveQuery, LiveChannel>();
  const broadcast = (room: string, { event, data }: LiveMessage): void => {
    for (const name of namespaces) {
      const members = io.of(name).adapter.rooms.get(room);
      if (!members) continue;
      io.of(name).to(room).emit(event, data);
      onDelivered(members.size);
    }
  };
  return {
    of(query) {
      const room = roomOf(query.id);
      const channel = channels.get(query) ?? {
        broadcast: (message: LiveMessage) => broadcast(room, message),
      };
      channels.set(query, channel);
      return channel;
    },
  };
}

export interface SocketWatchParts {
  readonly socket: Socket;
  readonly session: Session;
  readonly engine: LiveEngine;
  readonly channels: SocketChannels;
  readonly limits: Limits;
  /** Lists that each user listens to on this node. */
  readonly ofUsers: Map<string, number>;
}

export interface SocketWatches {
  watch(request: WatchRequest): Promise<Readonly<Record<string, unknown>>>;
  unwatch(target: Static<typeof Unwatch>): Promise<Record<never, never>>;
  clear(): void;
}

/** `end` closes the socket with an error, as when its session is over. */
export function createSocketWatches(
  parts: SocketWatchParts,
  end: (error: unknown) => void,
): SocketWatches {
  const { socket, session, limits, engine } = parts;
  const held = new Map<string, { readonly query: LiveQuery; readonly listener: LiveListener }>();
  const places = placesOf(session.userId, parts.ofUsers);

  const leave = (id: string): void => {
    const one = held.get(id);
    if (!one) return;
    held.delete(id);
    places.free();
    one.query.leave(one.listener);
    void socket.leave(roomOf(id));
  };
  const create = (): LiveListener => listenerOf(parts, { leave, end });

  return {
    async watch(request) {
      const state = await limits.consume(watchBudget, session.userId);
      if (!state.allowed) throw tooMany(state.resetMs);
      places.take();
      let kept = false;
      try {
        const listener = create();
        const { query, beginning } = await engine.watch(await session.caller(), request, listener);
        // It holds this question already, or has gone meanwhile.
        const known = held.get(query.id);
        const isHere = query.listeners.has(listener);
        if (known || !socket.connected || !isHere) query.leave(listener);
        if (!known && !isHere) void socket.leave(roomOf(query.id));
        if (!known && socket.connected && isHere) {
          held.set(query.id, { query, listener });
          kept = true;
        }
        return acknowledged(query, beginning, request.since !== undefined);
      } finally {
        if (!kept) places.free();
      }
    },
    async unwatch({ watch }) {
      leave(watch);
      return {};
    },
    clear() {
      for (const id of [...held.keys()]) leave(id);
    },
  };
}

export interface ListenerPlaces {
  /** Throws SUBSCRIPTION_LIMIT_EXCEEDED. */
  take(): void;
  free(): void;
}

/** Counts what a connection, and its user, hold or are about to hold. */
export function placesOf(userId: string, ofUsers: Map<string, number>): ListenerPlaces {
  let own = 0;
  return {
    take() {
      const all = ofUsers.get(userId) ?? 0;
      if (own >= MAX_OF_SOCKET || all >= MAX_OF_USER)
        throw realtimeErrors.SUBSCRIPTION_LIMIT_EXCEEDED();
      own += 1;
      ofUsers.set(userId, all + 1);
    },
    free() {
      own -= 1;
      const left = (ofUsers.get(userId) ?? 1) - 1;
      if (left === 0) ofUsers.delete(userId);
      else ofUsers.set(userId, left);
    },
  };
}

interface Held {
  leave(id: string): void;
  end(error: unknown): void;
}

function listenerOf(
  { socket, session, channels, engine }: SocketWatchParts,
  { leave, end }: Held,
): LiveListener {
  let query: LiveQuery | undefined;
  let channel: LiveChannel | undefined;
  const refuse = (error: unknown): false => {
    end(error);
    return false;
  };
  return {
    get channel() {
      return channel;
    },
    entered(entered) {
      query = entered;
      channel = channels.of(entered);
      if (socket.connected) void socket.join(roomOf(entered.id));
    },
    admits() {
      if (!socket.connected) return false;
      if (query && isTooSlow(socket)) {
        // Nothing is kept for a slow reader but this.
        socket.emit('gap', { watch: query.id, reason: 'slow' });
        engine.slow();
        leave(query.id);
        return false;
      }
      try {
        const caller = session.caller();
        return caller instanceof Promise ? caller.then(() => true, refuse) : true;
      } catch (error) {
        return refuse(error);
      }
    },
    tell({ event, data }) {
      if (socket.connected) socket.emit(event, data);
    },
    ended() {
      if (query) leave(query.id);
    },
  };
}

/** `gap` where what was missed cannot be told: then it has the whole answer. */
function acknowledged(
  query: LiveQuery,
  beginning: LiveBeginning,
  resumes: boolean,
): Readonly<Record<string, unknown>> {
  const place = { watch: query.id, position: beginning.position };
  const gap = resumes && { gap: true };
  switch (beginning.kind) {
    case 'missed':
      return { ...place, missed: beginning.messages };
    case 'value':
      return { ...place, ...gap, value: JSON.parse(beginning.json) as unknown };
    case 'records':
      return {
        ...place,
        ...gap,
        records: beginning.rows.map(({ json }) => JSON.parse(json) as unknown),
      };
  }
}
