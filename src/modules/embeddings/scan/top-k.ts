/** The best of what a search finds, kept while it goes on. */

/** A record with the slot of the passage of it that is nearest. */
export interface Found {
  readonly id: string;
  readonly slot: number;
  readonly distance: number;
}

const isBefore = (a: Found, b: Found): boolean =>
  a.distance < b.distance || (a.distance === b.distance && a.id < b.id);

export interface Top {
  /** What is farther away has no place. */
  worst(): number;
  offer(found: Found): void;
  sorted(): readonly Found[];
}

/** Keeps the `k` best of what it is offered: a heap with the worst of them on top. */
export function createTop(k: number): Top {
  const heap: Found[] = [];

  const sink = (start: number): void => {
    for (let at = start; ; ) {
      let worst = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        const [one, other] = [heap[child], heap[worst]];
        if (one && other && isBefore(other, one)) worst = child;
      }
      if (worst === at) return;
      swap(at, worst);
      at = worst;
    }
  };
  const rise = (start: number): void => {
    for (let at = start; at > 0; ) {
      const parent = (at - 1) >> 1;
      const [one, other] = [heap[at], heap[parent]];
      if (!one || !other || !isBefore(other, one)) return;
      swap(at, parent);
      at = parent;
    }
  };
  const swap = (a: number, b: number): void => {
    const [one, other] = [heap[a], heap[b]];
    if (!one || !other) return;
    heap[a] = other;
    heap[b] = one;
  };

  return {
    worst: () => (heap.length < k ? Number.POSITIVE_INFINITY : (heap[0]?.distance ?? -1)),
    offer(found) {
      const worst = heap[0];
      if (heap.length < k) rise(heap.push(found) - 1);
      else if (worst && isBefore(found, worst)) {
        heap[0] = found;
        sink(0);
      }
    },
    sorted: () => heap.toSorted((a, b) => (isBefore(a, b) ? -1 : isBefore(b, a) ? 1 : 0)),
  };
}
