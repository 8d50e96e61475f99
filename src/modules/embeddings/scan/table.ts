/** The vectors of one generation in memory, and the search through all of them. */
import type { Similarity } from '../model.ts';

/** Passages of records in their order; with the first of a record, those that it had before are forgotten. */
export interface TableChange {
  /** Of each passage. A record without passages is listed with ordinal -1 and has no vector. */
  readonly ids: readonly string[];
  readonly ordinals: readonly number[];
  /** Vectors behind each other, of those with an ordinal of 0 or more. */
  readonly vectors: Float32Array;
}

/** The best records, nearest first. */
export interface Nearest {
  readonly ids: readonly string[];
  /** The passage of each that is nearest. */
  readonly ordinals: readonly number[];
  readonly distances: readonly number[];
}

export interface VectorTable {
  apply(change: TableChange): void;
  /** `within`: only these records. Equal distances go by id. */
  nearest(query: Float32Array, k: number, within?: readonly string[]): Nearest;
  readonly passages: number;
}

const FIRST_CAPACITY = 256;

export function createVectorTable(dimensions: number, similarity: Similarity): VectorTable {
  let vectors = new Float32Array(FIRST_CAPACITY * dimensions);
  /** Records by number; none: the number is free. */
  const ids: (string | undefined)[] = [];
  const freeNumbers: number[] = [];
  const numbers = new Map<string, number>();
  const slotsOf: number[][] = [];
  /** The record whose passage stands in a slot; -1: the slot is free. */
  const owners: number[] = [];
  const ordinals: number[] = [];
  const freeSlots: number[] = [];
  const distance = distances[similarity];

  const forget = (id: string): void => {
    const number = numbers.get(id);
    if (number === undefined) return;
    for (const slot of slotsOf[number] ?? []) {
      owners[slot] = -1;
      freeSlots.push(slot);
    }
    ids[number] = undefined;
    slotsOf[number] = [];
    freeNumbers.push(number);
    numbers.delete(id);
  };

  const numberOf = (id: string): number => {
    const known = numbers.get(id);
    if (known !== undefined) return known;
    const number = freeNumbers.pop() ?? ids.length;
    ids[number] = id;
    slotsOf[number] = [];
    numbers.set(id, number);
    return number;
  };

  const slot = (): number => {
    const reused = freeSlots.pop();
    if (reused !== undefined) return reused;
    const next = owners.length;
    if ((next + 1) * dimensions > vectors.length) {
      const larger = new Float32Array(vectors.length * 2);
      larger.set(vectors);
      vectors = larger;
    }
    return next;
  };

  const put = (id: string, ordinal: number, vector: Float32Array): void => {
    const [at, number] = [slot(), numberOf(id)];
    owners[at] = number;
    ordinals[at] = ordinal;
    vectors.set(vector, at * dimensions);
    slotsOf[number]?.push(at);
  };

  /** The best passage of a record. */
  const bestOf = (id: string, number: number, query: Float32Array): Found => {
    let best: Found = { id, ordinal: 0, distance: Number.POSITIVE_INFINITY };
    for (const at of slotsOf[number] ?? []) {
      const found = distance(vectors, at * dimensions, query);
      if (found < best.distance) best = { id, ordinal: ordinals[at] ?? 0, distance: found };
    }
    return best;
  };

  /** How far the nearest passage of each record is, in one pass through the memory. */
  const distancesOfAll = (query: Float32Array): Float64Array => {
    const best = new Float64Array(ids.length).fill(Number.POSITIVE_INFINITY);
    for (let at = 0; at < owners.length; at++) {
      const owner = owners[at] as number;
      if (owner < 0) continue;
      const found = distance(vectors, at * dimensions, query);
      if (found < (best[owner] as number)) best[owner] = found;
    }
    return best;
  };

  const offerAll = (top: Top, query: Float32Array): void => {
    const best = distancesOfAll(query);
    for (let number = 0; number < ids.length; number++) {
      const id = ids[number];
      if (id !== undefined && (best[number] as number) <= top.worst())
        top.offer({ id, ordinal: 0, distance: best[number] as number });
    }
  };

  return {
    apply({ ids: given, ordinals: places, vectors: values }) {
      let at = 0;
      given.forEach((id, i) => {
        const ordinal = places[i] ?? -1;
        if (ordinal <= 0) forget(id);
        if (ordinal < 0) return;
        put(id, ordinal, values.subarray(at * dimensions, (at + 1) * dimensions));
        at++;
      });
    },
    nearest(query, k, within) {
      const top = createTop(k);
      if (within)
        for (const id of new Set(within)) {
          const number = numbers.get(id);
          if (number !== undefined) top.offer(bestOf(id, number, query));
        }
      else offerAll(top, query);
      // Which passage it was is found out for the few that are answered.
      const found = top.sorted().map(({ id }) => bestOf(id, numbers.get(id) ?? -1, query));
      return {
        ids: found.map(({ id }) => id),
        ordinals: found.map(({ ordinal }) => ordinal),
        distances: found.map((one) => one.distance),
      };
    },
    get passages() {
      return owners.length - freeSlots.length;
    },
  };
}

interface Found {
  readonly id: string;
  readonly ordinal: number;
  readonly distance: number;
}

const isBefore = (a: Found, b: Found): boolean =>
  a.distance < b.distance || (a.distance === b.distance && a.id < b.id);

interface Top {
  /** What is farther away has no place. */
  worst(): number;
  offer(found: Found): void;
  sorted(): readonly Found[];
}

/** Keeps the `k` best of what it is offered: a heap with the worst of them on top. */
function createTop(k: number): Top {
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

type Distance = (vectors: Float32Array, at: number, query: Float32Array) => number;

/** Four sums at a time, so that the processor does not wait for one. */
const dot: Distance = (vectors, at, query) => {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const length = query.length;
  let i = 0;
  for (; i + 3 < length; i += 4) {
    a += (vectors[at + i] as number) * (query[i] as number);
    b += (vectors[at + i + 1] as number) * (query[i + 1] as number);
    c += (vectors[at + i + 2] as number) * (query[i + 2] as number);
    d += (vectors[at + i + 3] as number) * (query[i + 3] as number);
  }
  for (; i < length; i++) a += (vectors[at + i] as number) * (query[i] as number);
  return a + b + c + d;
};

const squares: Distance = (vectors, at, query) => {
  let sum = 0;
  for (let i = 0; i < query.length; i++) {
    const difference = (vectors[at + i] as number) - (query[i] as number);
    sum += difference * difference;
  }
  return sum;
};

/** Smaller is nearer. Vectors that are compared by cosine have length 1. */
const distances: Readonly<Record<Similarity, Distance>> = {
  cosine: (vectors, at, query) => 1 - dot(vectors, at, query),
  euclidean: (vectors, at, query) => Math.sqrt(squares(vectors, at, query)),
  dotProduct: (vectors, at, query) => -dot(vectors, at, query),
};
