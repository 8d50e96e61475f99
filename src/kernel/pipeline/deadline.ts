/**
 * Deadlines for work in flight. Nearly all have the same length and so expire in
 * the order in which they began: one slow timer looks at the oldest, instead of
 * one timer per request. They stand in a linked list and not in a `Set`, whose
 * rehashing under constant adding and deleting costs a tenth of a read in garbage
 * collection.
 */
export interface Deadlines {
  /**
   * The promise, or the error of `onExpire` when it is not settled at `deadlineAt` (on the clock of
   * `performance.now()`). `onExpire` runs once, at the deadline, or earlier
   * with the error of `expireAll`.
   */
  guard<T>(work: Promise<T>, deadlineAt: number, onExpire: (early?: Error) => Error): Promise<T>;
  /** Ends everything that is guarded now with that error. */
  expireAll(error: Error): void;
  close(): void;
}

interface Entry {
  readonly expiresAt: number;
  expire: ((early?: Error) => void) | undefined;
  older: Entry | undefined;
  newer: Entry | undefined;
}

/** Deadlines are kept to within a quarter of `usualMs`, at most 250 ms. */
export function createDeadlines(usualMs: number): Deadlines {
  let oldest: Entry | undefined;
  let newest: Entry | undefined;
  const timer = setInterval(expireOldest, Math.min(250, Math.ceil(usualMs / 4)));
  timer.unref();

  /** In the order of their ends; what has the usual length belongs to the end, or close to it. */
  function add(expiresAt: number, expire: (early?: Error) => void): Entry {
    let older = newest;
    while (older && older.expiresAt > expiresAt) older = older.older;
    const newer = older ? older.newer : oldest;
    const entry: Entry = { expiresAt, expire, older, newer };
    if (older) older.newer = entry;
    else oldest = entry;
    if (newer) newer.older = entry;
    else newest = entry;
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

  function expireAll(error: Error): void {
    while (oldest) {
      const { expire } = oldest;
      remove(oldest);
      expire?.(error);
    }
  }

  return {
    expireAll,
    guard: (work, deadlineAt, onExpire) =>
      new Promise((resolve, reject) => {
        const entry = add(deadlineAt, (early) => reject(onExpire(early)));
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
