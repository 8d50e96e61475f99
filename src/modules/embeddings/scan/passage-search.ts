/** The search through the memory of a table. */
import type { Similarity } from '../model.ts';
import { distances } from './distances.ts';
import type { PassageStore } from './passage-store.ts';
import type { Found, Top } from './top-k.ts';

interface PassageSearch {
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
  const { ids, owners, ordinals, slotsOf } = store;
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
      let best: Found = { id, ordinal: 0, distance: Number.POSITIVE_INFINITY };
      for (const at of slotsOf[number] ?? []) {
        const found = distance(vectors, at * dimensions, query);
        if (found < best.distance) best = { id, ordinal: ordinals[at] ?? 0, distance: found };
      }
      return best;
    },
    offerAll(top, query) {
      const best = distancesOfAll(query);
      for (let number = 0; number < ids.length; number++) {
        const id = ids[number];
        if (id !== undefined && (best[number] as number) <= top.worst())
          top.offer({ id, ordinal: 0, distance: best[number] as number });
      }
    },
  };
}
