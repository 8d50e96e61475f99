/** The vectors of one generation in memory, and the search through all of them. */
import type { Similarity } from '../model.ts';
import { createPassageSearch } from './passage-search.ts';
import { createPassageStore } from './passage-store.ts';
import { createTop } from './top-k.ts';

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

export function createVectorTable(dimensions: number, similarity: Similarity): VectorTable {
  const store = createPassageStore(dimensions);
  const { bestOf, offerAll } = createPassageSearch(store, dimensions, similarity);

  return {
    apply({ ids: given, ordinals: places, vectors: values }) {
      let at = 0;
      given.forEach((id, i) => {
        const ordinal = places[i] ?? -1;
        if (ordinal <= 0) store.forget(id);
        if (ordinal < 0) return;
        store.put(id, ordinal, values.subarray(at * dimensions, (at + 1) * dimensions));
        at++;
      });
    },
    nearest(query, k, within) {
      const top = createTop(k);
      if (within)
        for (const id of new Set(within)) {
          const number = store.numberOf(id);
          if (number !== undefined) top.offer(bestOf(id, number, query));
        }
      else offerAll(top, query);
      // Which passage it was is found out for the few that are answered.
      const found = top.sorted().map(({ id }) => bestOf(id, store.numberOf(id) ?? -1, query));
      return {
        ids: found.map(({ id }) => id),
        ordinals: found.map(({ ordinal }) => ordinal),
        distances: found.map((one) => one.distance),
      };
    },
    get passages() {
      return store.passages();
    },
  };
}
