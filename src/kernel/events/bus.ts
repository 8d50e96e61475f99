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
   * Delivers to every other live node and waits until each has run its handlers, at most
   * `timeoutMs` (2000). This is how "holds for the very next request on every node" is kept.
   */
  announce(topic: string, payload: unknown, timeoutMs?: number): Promise<Announcement>;
  subscribe(topic: string, handler: (payload: unknown) => void | Promise<void>): void;
  /** False while this node may miss messages: caches must then be bypassed. */
  connected(): boolean;
  /** Runs when the connection is back after a loss: whatever was cached may be stale. */
  onReconnect(listener: () => void): void;
}

export interface Announcement {
  /** Nodes that applied it, this one included. */
  readonly replicas: number;
  /** Ids of nodes that did not answer in time or failed. */
  readonly failed: readonly string[];
}
