import type { Freshness } from '../freshness/freshness.ts';

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
  /** Signals of all nodes. Answers how to stop listening. */
  subscribe(handler: (signal: UserSignal) => void): () => void;
}

const topic = 'user-signals';

export function createUserSignals(bus: Pick<Bus, 'publish' | 'subscribe'>): UserSignals {
  const handlers = new Set<(signal: UserSignal) => void>();
  const deliver = (signal: UserSignal): void => {
    for (const handler of handlers) handler(signal);
  };
  bus.subscribe(topic, (payload) => deliver(payload as UserSignal));
  return {
    send(signal) {
      deliver(signal);
      // A node that misses it reads the same from the database.
      void bus.publish(topic, signal).catch(() => undefined);
    },
    subscribe(handler) {
      handlers.add(handler);
      return () => void handlers.delete(handler);
    },
  };
}
