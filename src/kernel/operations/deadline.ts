/**
 * Deadlines for work in flight. All have the same length, so they expire in the
 * order in which they began: one slow timer looks at the oldest, instead of one
 * timer per request. They stand in a linked list and not in a `Set`, whose
 * rehashing under constant adding and deleting costs a tenth of a read in garbage
 * collection.
 */
export interface Deadlines {
  /** The promise, or the error of `onExpire` when it takes too long. `onExpire` runs once, at the deadline. */
  guard<T>(work: Promise<T>, onExpire: () => Error): Promise<T>;
  close(): void;
}

interface Entry {
  readonly expiresAt: number;
  expire: (() => void) | undefined;
  older: Entry | undefined;
  newer: Entry | undefined;
}

/** `milliseconds` is kept to within a quarter of it, at most 250 ms. */
export function createDeadlines(milliseconds: number): Deadlines {
  let oldest: Entry | undefined;
  let newest: Entry | undefined;
  const timer = setInterval(expireOldest, Math.min(250, Math.ceil(milliseconds / 4)));
  timer.unref();

  function add(expire: () => void): Entry {
    const entry: Entry = { expiresAt: performance.now() + milliseconds, expire, older: newest, newer: undefined };
    if (newest) newest.newer = entry;
    else oldest = entry;
    newest = entry;
    return entry;
  }

  /** Clears the links of the entry too: an old one must not keep younger ones from being collected. */
  function remove(entry: Entry): void {
    if (entry.expire === undefined) return;
    if (entry.older) entry.older.newer = entry.newer;
    else oldest = entry.newer;
    if (entry.newer) entry.newer.older = entry.older;
    else newest = entry.older;
    entry.expire = undefined;
    entry.older = undefined;
    entry.newer = undefined;
  }

  function expireOldest(): void {
    const now = performance.now();
    while (oldest && oldest.expiresAt <= now) {
      const { expire } = oldest;
      remove(oldest);
      expire?.();
    }
  }

  return {
    guard: (work, onExpire) =>
      new Promise((resolve, reject) => {
        const entry = add(() => reject(onExpire()));
        work.then(
          (value) => {
            remove(entry);
            resolve(value);
          },
          (error: unknown) => {
            remove(entry);
            reject(error);
          },
        );
      }),
    close: () => clearInterval(timer),
  };
}
