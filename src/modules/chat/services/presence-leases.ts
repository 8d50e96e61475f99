/** What this node writes of its own users: that they are there, for a while, and that they went. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { dropPresence, putPresence } from '../queries/presence.ts';
import type { Hub } from './hub.ts';

const LEASE_SECONDS = 60;
const RENEW_MS = 20_000;
/** A user who comes back within that was never gone; ms. */
const GRACE_MS = 10_000;
/** Changes of many users are written together; ms. */
const GATHER_MS = 100;

interface Leases {
  /** Writes that they are there, or still there. */
  put(users: readonly string[]): Promise<unknown>;
  drop(users: readonly string[]): Promise<unknown>;
  /** Written with the next lease. False where it was so already. */
  setStatus(user: string, status: string): boolean;
  forgetStatus(user: string): void;
}

export function createLeases({ database, bus }: Pick<Kernel, 'database' | 'bus'>): Leases {
  const statuses = new Map<string, string>();
  const statusOf = (user: string) => ({ user, status: statuses.get(user) ?? 'online' });
  return {
    put: (users) => putPresence(database, bus.nodeId, users.map(statusOf), LEASE_SECONDS),
    drop: (users) => dropPresence(database, bus.nodeId, users),
    setStatus(user, status) {
      const isNew = statusOf(user).status !== status;
      statuses.set(user, status);
      return isNew;
    },
    forgetStatus: (user) => void statuses.delete(user),
  };
}

interface Dependencies {
  readonly hub: Hub;
  readonly log: Logger;
  readonly leases: Leases;
  /** Tells those who watch them. */
  readonly changed: (users: readonly string[]) => Promise<void>;
}

interface Arrivals {
  start(): void;
  stop(): Promise<void>;
}

/** Follows the sockets of this node: writes who comes, who stays, and who is gone for longer than a moment. */
export function createArrivals({ hub, log, leases, changed }: Dependencies): Arrivals {
  const arrived = new Set<string>();
  const leaving = new Map<string, NodeJS.Timeout>();
  let gathering: NodeJS.Timeout | undefined;
  let renewing: NodeJS.Timeout | undefined;
  let running = false;

  const failed = (error: unknown): void =>
    log.warn({ err: error }, 'Who is there could not be written');
  const flush = (): void => {
    gathering = undefined;
    const users = [...arrived].filter((user) => hub.hasUser(user));
    arrived.clear();
    if (users.length === 0) return;
    leases
      .put(users)
      .then(() => changed(users))
      .catch(failed);
  };
  const depart = (user: string): void => {
    leaving.delete(user);
    if (hub.hasUser(user)) return;
    leases.forgetStatus(user);
    leases
      .drop([user])
      .then(() => changed([user]))
      .catch(failed);
  };
  const renew = (): void => {
    const users = hub.users();
    if (users.length > 0) leases.put(users).catch(failed);
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

  return {
    start() {
      running = true;
      renewing = setInterval(renew, RENEW_MS).unref();
    },
    async stop() {
      running = false;
      clearInterval(renewing);
      clearTimeout(gathering);
      gathering = undefined;
      arrived.clear();
      for (const timer of leaving.values()) clearTimeout(timer);
      const users = [...hub.users(), ...leaving.keys()];
      leaving.clear();
      if (users.length > 0) await leases.drop(users).catch(failed);
    },
  };
}
