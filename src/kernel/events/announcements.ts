/** Announcements that wait for their acknowledgements. */

export interface Announcements {
  /** Starts to wait, at most `timeoutMs`; `send` puts the message with this id on its way. Answers who did not confirm it. */
  wait(nodes: readonly string[], timeoutMs: number, send: (id: string) => void): Promise<readonly string[]>;
  /** A node has run its handlers. */
  settle(id: string, node: string, ok: boolean): void;
}

interface Waiting {
  readonly missing: Set<string>;
  readonly failed: string[];
  readonly done: () => void;
}

export function createAnnouncements(): Announcements {
  const waiting = new Map<string, Waiting>();
  let count = 0;

  return {
    async wait(nodes, timeoutMs, send) {
      const id = String(++count);
      const { promise, resolve } = Promise.withResolvers<void>();
      const entry: Waiting = { missing: new Set(nodes), failed: [], done: resolve };
      waiting.set(id, entry);
      const timer = setTimeout(resolve, timeoutMs);
      send(id);
      if (entry.missing.size > 0) await promise;
      clearTimeout(timer);
      waiting.delete(id);
      return [...entry.failed, ...entry.missing];
    },
    settle(id, node, ok) {
      const entry = waiting.get(id);
      if (!entry?.missing.delete(node)) return;
      if (!ok) entry.failed.push(node);
      if (entry.missing.size === 0) entry.done();
    },
  };
}
