/**
 * Who is there. Each node keeps the users of its sockets in a table, under a lease that it renews: a node that dies is
 * forgotten by itself. Those who asked about a user, and share a room with them, are told of changes.
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { sharingRoom } from '../queries/members.ts';
import { dropPresence, type PresenceRow, presenceOf, putPresence } from '../queries/presence.ts';
import { distinct } from './chat-parts.ts';
import type { Hub } from './hub.ts';

export interface Presence {
  set(caller: UserCaller, status: 'online' | 'away' | 'busy'): Promise<void>;
  /** What is known of those who share a room with the caller; from now on the socket hears of changes. */
  watch(connection: SocketConnection, users: readonly string[]): Promise<readonly PresenceRow[]>;
  /** The same without listening. */
  read(userId: string, users: readonly string[]): Promise<readonly PresenceRow[]>;
  forget(connection: SocketConnection): void;
  start(): void;
  stop(): Promise<void>;
}

const LEASE_SECONDS = 60;
const RENEW_MS = 20_000;
/** A user who comes back within that was never gone; ms. */
const GRACE_MS = 10_000;
/** Changes of many users are written together; ms. */
const GATHER_MS = 100;

const topic = 'chat.presence';

interface Dependencies extends Pick<Kernel, 'database' | 'bus'> {
  readonly hub: Hub;
  readonly log: Logger;
}

/** Listens to the bus for as long as the process lives. */
export function createPresence({ database, bus, hub, log }: Dependencies): Presence {
  const statuses = new Map<string, string>();
  const watchers = createWatchers();
  const arrived = new Set<string>();
  const leaving = new Map<string, NodeJS.Timeout>();
  let gathering: NodeJS.Timeout | undefined;
  let renewing: NodeJS.Timeout | undefined;
  let running = false;

  const statusOf = (user: string) => ({ user, status: statuses.get(user) ?? 'online' });
  const failed = (error: unknown): void =>
    log.warn({ err: error }, 'Who is there could not be written');
  const tell = async (users: readonly string[]): Promise<void> => {
    const heard = users.filter((user) => watchers.of(user).size > 0);
    for (const row of heard.length === 0 ? [] : await presenceOf(database, heard))
      for (const connection of watchers.of(row.userId))
        connection.emit('presence-changed', onWire(row));
  };
  const changed = async (users: readonly string[]): Promise<void> => {
    await tell(users);
    await bus.publish(topic, { users });
  };
  const flush = (): void => {
    gathering = undefined;
    const users = [...arrived].filter((user) => hub.hasUser(user));
    arrived.clear();
    if (users.length === 0) return;
    putPresence(database, bus.nodeId, users.map(statusOf), LEASE_SECONDS)
      .then(() => changed(users))
      .catch(failed);
  };
  const depart = (user: string): void => {
    leaving.delete(user);
    if (hub.hasUser(user)) return;
    statuses.delete(user);
    dropPresence(database, bus.nodeId, [user])
      .then(() => changed([user]))
      .catch(failed);
  };
  const renew = (): void => {
    const users = hub.users();
    if (users.length > 0)
      putPresence(database, bus.nodeId, users.map(statusOf), LEASE_SECONDS).catch(failed);
  };
  hub.onUser((user, online) => {
    if (!running) return;
    clearTimeout(leaving.get(user));
    if (!online) {
      leaving.set(user, setTimeout(() => depart(user), GRACE_MS).unref());
    } else if (!leaving.delete(user)) {
      arrived.add(user);
      gathering ??= setTimeout(flush, GATHER_MS).unref();
    }
  });
  bus.subscribe(topic, (payload) => tell((payload as { users: readonly string[] }).users));
  const read = async (userId: string, users: readonly string[]): Promise<readonly PresenceRow[]> =>
    presenceOf(database, await sharingRoom(database, userId, distinct(users)));

  return {
    read,
    async set({ userId }, status) {
      statuses.set(userId, status);
      await putPresence(database, bus.nodeId, [statusOf(userId)], LEASE_SECONDS);
      await changed([userId]);
    },
    async watch(connection, users) {
      const rows = await read(connection.userId, users);
      watchers.add(
        connection,
        rows.map(({ userId }) => userId),
      );
      return rows;
    },
    forget: watchers.forget,
    start() {
      running = true;
      renewing = setInterval(renew, RENEW_MS).unref();
    },
    async stop() {
      running = false;
      clearInterval(renewing);
      clearTimeout(gathering);
      for (const timer of leaving.values()) clearTimeout(timer);
      const users = [...hub.users(), ...leaving.keys()];
      leaving.clear();
      if (users.length > 0) await dropPresence(database, bus.nodeId, users).catch(failed);
    },
  };
}

/** Users that one socket watches. */
const MOST_WATCHED = 1_000;

function createWatchers() {
  const byUser = new Map<string, Set<SocketConnection>>();
  const watched = new Map<SocketConnection, Set<string>>();
  const none: ReadonlySet<SocketConnection> = new Set();
  return {
    of: (user: string): ReadonlySet<SocketConnection> => byUser.get(user) ?? none,
    add(connection: SocketConnection, users: readonly string[]): void {
      const own = watched.get(connection) ?? new Set();
      watched.set(connection, own);
      for (const user of users) {
        if (own.size >= MOST_WATCHED) return;
        own.add(user);
        byUser.set(user, (byUser.get(user) ?? new Set()).add(connection));
      }
    },
    forget(connection: SocketConnection): void {
      for (const user of watched.get(connection) ?? []) {
        const connections = byUser.get(user);
        connections?.delete(connection);
        if (connections?.size === 0) byUser.delete(user);
      }
      watched.delete(connection);
    },
  };
}

export const onWire = ({ userId, status, lastSeen }: PresenceRow) => ({
  userId,
  status,
  lastSeen: lastSeen?.toISOString() ?? null,
});
