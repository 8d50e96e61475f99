/** The search through the memory of a table. */
import type { Similarity } from '../model.ts';
import type { PassageStore } from './passage-store.ts';
import type { Found, Top } from './top-k.ts';

/** From a vector that begins at a place of the memory to the one that is searched for. */
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

export interface PassageSearch {
  /** The best passage of a record. */
  bestOf(id: string, number: number, query: Float32Array): Found;
  /** Offers every record, without telling which of its passages is the nearest. */
  offerAll(top: Top, query: Float32Array): void;
}

export function createPassageSearch(
  store: PassageStore,
  dimensions: number,
  similarity: Similarity,
): PassageSearch {
  const { ids, owners, slotsOf } = store;
  const distance = distances[similarity];

  /** How far the nearest passage of each record is, in one pass through the memory. */
  const distancesOfAll = (query: Float32Array): Float64Array => {
    const vectors = store.vectors();
    const best = new Float64Array(ids.length).fill(Number.POSITIVE_INFINITY);
    for (let at = 0; at < owners.length; at++) {
      const owner = owners[at] as number;
      if (owner < 0) continue;
      const found = distance(vectors, at * dimensions, query);
      if (found < (best[owner] as number)) best[owner] = found;
    }
    return best;
  };

  return {
    bestOf(id, number, query) {
      const vectors = store.vectors();
      let best: Found = { id, slot: -1, distance: Number.POSITIVE_INFINITY };
      for (const at of slotsOf[number] ?? []) {
        const found = distance(vectors, at * dimensions, query);
        if (found < best.distance) best = { id, slot: at, distance: found };
      }
      return best;
    },
    offerAll(top, query) {
      const best = distancesOfAll(query);
      for (let number = 0; number < ids.length; number++) {
        const id = ids[number];
        if (id !== undefined && (best[number] as number) <= top.worst())
          top.offer({ id, slot: -1, distance: best[number] as number });
      }
    },
  };
}
