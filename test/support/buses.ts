/** Buses for tests that play several nodes in one process. */
import type { Bus } from '../../src/kernel/events/bus.ts';

export interface TestBus extends Bus {
  /** A lost connection: nothing arrives until `reconnect`. */
  disconnect(): void;
  reconnect(): void;
}

/** `count` buses that reach each other. */
export function createTestBuses(count: number): readonly TestBus[] {
  const nodes = Array.from({ length: count }, (_, index) => createNode(`node-${index + 1}`));
  return nodes.map((node) => node.connectTo(nodes.filter((other) => other !== node)));
}

interface Node {
  readonly nodeId: string;
  deliver(topic: string, payload: unknown): Promise<boolean>;
  isConnected(): boolean;
  connectTo(others: readonly Node[]): TestBus;
}

function createNode(nodeId: string): Node {
  const handlers = new Map<string, ((payload: unknown) => void | Promise<void>)[]>();
  const reconnects = new Set<() => void>();
  let connected = true;

  const deliver = async (topic: string, payload: unknown): Promise<boolean> => {
    if (!connected) return false;
    try {
      await Promise.all(
        (handlers.get(topic) ?? []).map((handler) => handler(structuredClone(payload))),
      );
      return true;
    } catch {
      return false;
    }
  };
  return {
    nodeId,
    deliver,
    isConnected: () => connected,
    connectTo: (others) => ({
      nodeId,
      publish: async (topic, payload) =>
        void (await Promise.all(others.map((other) => other.deliver(topic, payload)))),
      async announce(topic, payload) {
        const live = others.filter((other) => other.isConnected());
        const done = await Promise.all(
          live.map(async (other) =>
            (await other.deliver(topic, payload)) ? undefined : other.nodeId,
          ),
        );
        const failed = done.filter((id) => id !== undefined);
        return { replicas: 1 + live.length - failed.length, failed };
      },
      subscribe(topic, handler) {
        handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
        return () => {
          const left = handlers.get(topic)?.filter((one) => one !== handler) ?? [];
          handlers.set(topic, left);
        };
      },
      connected: () => connected,
      freshness: {
        watch(_topic, refresh) {
          const listener = (): void => void refresh();
          reconnects.add(listener);
          return () => void reconnects.delete(listener);
        },
        catchUp: () => undefined,
      },
      onReconnect: (listener) => void reconnects.add(listener),
      disconnect() {
        connected = false;
      },
      reconnect() {
        connected = true;
        for (const listener of reconnects) listener();
      },
    }),
  };
}
