/**
 * Who is there. Each node keeps the users of its sockets in a table, under a lease that it renews: a node that dies is
 * forgotten by itself. Those who asked about a user, and share a room with them, are told of changes.
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { pairsSharingRoom, sharingRoom } from '../queries/members.ts';
import { type PresenceRow, presenceOf } from '../queries/presence.ts';
import { distinct } from './chat-parts.ts';
import type { Hub } from './hub.ts';
import { createArrivals, createLeases } from './presence-leases.ts';

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

const topic = 'chat.presence';

interface Dependencies extends Pick<Kernel, 'database' | 'bus'> {
  readonly hub: Hub;
  readonly log: Logger;
}

/** Listens to the bus for as long as the process lives. */
export function createPresence({ database, bus, hub, log }: Dependencies): Presence {
  const watchers = createWatchers();
  const leases = createLeases({ database, bus });
  const tell = async (users: readonly string[]): Promise<void> => {
    const heard = users.filter((user) => watchers.of(user).size > 0);
    if (heard.length === 0) return;
    const pairs = heard.flatMap((user) =>
      [...new Set([...watchers.of(user)].map(({ userId }) => userId))].map(
        (watcher) => [watcher, user] as const,
      ),
    );
    // Who shared a room when they asked may not any more.
    const sharing = await pairsSharingRoom(database, pairs);
    for (const row of await presenceOf(database, heard))
      for (const connection of watchers.of(row.userId))
        if (sharing.has(`${connection.userId} ${row.userId}`))
          connection.emit('presence-changed', onWire(row));
  };
  const changed = async (users: readonly string[]): Promise<void> => {
    await tell(users);
    await bus.publish(topic, { users });
  };
  const arrivals = createArrivals({ hub, log, leases, changed });
  bus.subscribe(topic, (payload) => tell((payload as { users: readonly string[] }).users));
  const read = async (userId: string, users: readonly string[]): Promise<readonly PresenceRow[]> =>
    presenceOf(database, await sharingRoom(database, userId, distinct(users)));

  return {
    read,
    async set({ userId }, status) {
      if (!leases.setStatus(userId, status)) return;
      await leases.put([userId]);
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
    start: () => arrivals.start(),
    stop: () => arrivals.stop(),
  };
}

/** Users that one socket watches. */
const MAX_WATCHED = 1_000;

function createWatchers() {
  const byUser = new Map<string, Set<SocketConnection>>();
  const watched = new Map<SocketConnection, Set<string>>();
  const none: ReadonlySet<SocketConnection> = new Set();
  return {
    of: (user: string): ReadonlySet<SocketConnection> => byUser.get(user) ?? none,
    add(connection: SocketConnection, users: readonly string[]): void {
      // It may have gone while the question was answered.
      if (!connection.isOpen()) return;
      const own = watched.get(connection) ?? new Set();
      watched.set(connection, own);
      for (const user of users) {
        if (own.size >= MAX_WATCHED) return;
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
