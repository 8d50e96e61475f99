/**
 * What sockets of a user are told at once: that something is there to be read. Signals may be lost with a node; whoever
 * needs to know reads what they are about, which is stored.
 */
import type { Bus } from './bus.ts';

export interface UserSignal {
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
