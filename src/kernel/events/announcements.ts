/** Announcements that wait for their acknowledgements. */
import type { Announcement } from './bus.ts';
import type { LiveNode } from './nodes.ts';

export interface Announcements {
  /**
   * Who is worth waiting for: a node that says it does not listen, or that let an announcement pass
   * and has given no sign of life since, is not.
   */
  reachable(nodes: readonly LiveNode[]): readonly string[];
  /** Starts to wait. `send` puts the message with this id on its way. */
  wait(nodes: readonly LiveNode[], timeoutMs: number, send: (id: string) => Promise<void>): Promise<Announcement>;
  /** A node has run its handlers. */
  settle(id: string, node: string, ok: boolean): void;
  /** A node gave a sign of life. */
  alive(node: string): void;
}

interface Waiting {
  readonly missing: Set<string>;
  readonly failed: string[];
  readonly done: () => void;
}

export function createAnnouncements(): Announcements {
  const waiting = new Map<string, Waiting>();
  /** Node id to the heartbeat at which it stayed silent. */
  const suspects = new Map<string, string>();
  let count = 0;

  const reachable = (nodes: readonly LiveNode[]): readonly string[] =>
    nodes.filter((node) => node.listening && suspects.get(node.id) !== node.seenAt).map((node) => node.id);

  return {
    reachable,
    async wait(nodes, timeoutMs, send) {
      const id = String(++count);
      const expected = reachable(nodes);
      const { promise, resolve } = Promise.withResolvers<void>();
      const entry: Waiting = { missing: new Set(expected), failed: [], done: resolve };
      waiting.set(id, entry);
      const timer = setTimeout(resolve, timeoutMs);
      try {
        await send(id);
        if (entry.missing.size > 0) await promise;
      } finally {
        clearTimeout(timer);
        waiting.delete(id);
      }
      for (const node of nodes) if (entry.missing.has(node.id)) suspects.set(node.id, node.seenAt);
      const skipped = nodes.filter((node) => !expected.includes(node.id)).map((node) => node.id);
      const failed = [...entry.failed, ...entry.missing, ...skipped];
      return { replicas: 1 + nodes.length - failed.length, failed };
    },
    settle(id, node, ok) {
      const entry = waiting.get(id);
      if (!entry?.missing.delete(node)) return;
      if (!ok) entry.failed.push(node);
      if (entry.missing.size === 0) entry.done();
    },
    alive: (node) => void suspects.delete(node),
  };
}
