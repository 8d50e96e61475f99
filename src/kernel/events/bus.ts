import type { Freshness } from '../freshness/freshness.ts';
import { offAccount } from '../request-account/request-account.ts';

/**
 * Messages between nodes that may be lost with a node: invalidations, "load the
 * new configuration", "the schemas changed". In one process they are delivered
 * directly; between processes by Redis when it is given, else by PostgreSQL NOTIFY.
 */
export interface Bus {
  /** Id of this node, unique per process start. */
  readonly nodeId: string;
  /** Delivers to every other node without waiting. The local node is not called. */
  publish(topic: string, payload: unknown): Promise<void>;
  /**
   * Delivers to every other live node and waits until each has run its handlers. Of a node that has
   * not after `timeoutMs` (250) it waits until that node trusts its memory no longer, about a second
   * at most. This is how "holds for the very next request on every node" is kept.
   */
  announce(topic: string, payload: unknown, timeoutMs?: number): Promise<Announcement>;
  /** Answers how to stop listening. */
  subscribe(topic: string, handler: (payload: unknown) => void | Promise<void>): () => void;
  /** False while this node may have missed a message: caches must then be bypassed. Ask it for each use. */
  connected(): boolean;
  /** What has a version in the database, and whether it is current here. */
  readonly freshness: Freshness;
  /** Runs when messages were missed: whatever is cached without a version may be stale. */
  onReconnect(listener: () => void): void;
}

export interface Announcement {
  /** Nodes that applied it, this one included. */
  readonly replicas: number;
  /** Ids of nodes that did not confirm it; they read from the database before they answer. */
  readonly failed: readonly string[];
}

/*
 * What sockets of a user are told at once: that something is there to be read. Signals may be lost with a node; whoever
 * needs to know reads what they are about, which is stored.
 */

interface UserSignal {
  /** Realtime namespace whose sockets hear it, such as `/communications/`. */
  readonly namespace: string;
  readonly userIds: readonly string[];
  readonly event: string;
  readonly data: unknown;
}

export interface UserSignals {
  /** To the sockets of these users on every node. Call it after the commit. */
  send(signal: UserSignal): void;
  /**
   * Each node that has sockets of a user finds out itself what they are told of this event, after the signal has come: of
   * several that come at once in any order, from any node, the last word is right. `data` of signals counts no more.
   */
  find(kind: Pick<UserSignal, 'namespace' | 'event'>, find: FindData): void;
  /** Signals of all nodes. Answers how to stop listening. */
  subscribe(listener: SignalListener): () => void;
}

type FindData = (userId: string) => Promise<unknown>;

interface SignalListener {
  /** Whether there are sockets of the user. */
  hears(namespace: string, userId: string): boolean;
  tell(signal: UserSignal): void;
}

const topic = 'user-signals';

export function createUserSignals(bus: Pick<Bus, 'publish' | 'subscribe'>): UserSignals {
  const listeners = new Set<SignalListener>();
  const finders = new Map<string, FindData>();
  const once = createRepeating();
  const tell = (signal: UserSignal): void => {
    for (const listener of listeners) listener.tell(signal);
  };
  const deliver = (signal: UserSignal): void => {
    const { namespace, event, userIds } = signal;
    const kind = `${namespace} ${event}`;
    const find = finders.get(kind);
    if (!find) {
      tell(signal);
      return;
    }
    for (const userId of userIds)
      if ([...listeners].some((one) => one.hears(namespace, userId)))
        once(`${kind} ${userId}`, async () =>
          tell({ ...signal, userIds: [userId], data: await find(userId) }),
        );
  };
  bus.subscribe(topic, (payload) => deliver(payload as UserSignal));
  return {
    send(signal) {
      deliver(signal);
      // A node that misses it reads the same from the database.
      void bus.publish(topic, signal).catch(() => undefined);
    },
    find: ({ namespace, event }, find) => void finders.set(`${namespace} ${event}`, find),
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** Runs work of a name one at a time: what is asked for meanwhile is done once more, by one run for all of it. */
function createRepeating(): (name: string, work: () => Promise<void>) => void {
  /** Names under way, and whether they are asked for again. */
  const running = new Map<string, boolean>();
  return (name, work) => {
    if (running.has(name)) return void running.set(name, true);
    void offAccount(async () => {
      do {
        running.set(name, false);
        // Whoever is not told reads it.
        await work().catch(() => undefined);
      } while (running.get(name));
      running.delete(name);
    });
  };
}
