/**
 * An index that finds near passages without looking at all of them: a graph of neighbours (HNSW, by usearch). It names
 * candidates; how far they are is computed from the vectors themselves. What has not got a place in it yet is looked at
 * one by one, so that a change is found at once.
 */
import type { Index } from 'usearch';
import type { Similarity } from '../model.ts';
import type { PassageStore } from './passage-store.ts';

export interface PassageGraph {
  /** Slots that have no place in it yet. */
  readonly waiting: ReadonlySet<number>;
  readonly size: number;
  put(slot: number): void;
  forget(slot: number): void;
  /** Gives places to what waits, for so many milliseconds. */
  grow(milliseconds: number): void;
  /** Slots that are near, at most `k`, in no order that counts. */
  near(query: Float32Array, k: number): readonly number[];
}

type Usearch = typeof import('usearch');

let library: Promise<Usearch | undefined> | undefined;

/** The library, where it has a binary for this machine. */
export function loadLibrary(): Promise<Usearch | undefined> {
  library ??= import('usearch').catch(() => undefined);
  return library;
}

/** Neighbours of a passage; and how many are looked at to find them, and to find those of a query. */
const CONNECTIVITY = 16;
const EXPANSION_ADD = 128;
const EXPANSION_SEARCH = 128;
/** Passages that get their places at once: a few milliseconds. */
const CHUNK = 16;
/** Bytes of a passage in the graph beside its vector. */
export const LINK_BYTES = 250;

/** Unit vectors lose nothing that counts with half the bits; others may be of any size. */
const kinds = {
  cosine: { metric: 'ip', quantization: 'f16' },
  euclidean: { metric: 'l2sq', quantization: 'f32' },
  dotProduct: { metric: 'ip', quantization: 'f32' },
} as const satisfies Record<Similarity, object>;

export function createPassageGraph(
  { default: { Index: UsearchIndex } }: Usearch,
  store: PassageStore,
  { dimensions, similarity }: { readonly dimensions: number; readonly similarity: Similarity },
): PassageGraph {
  const make = (): Index =>
    new UsearchIndex({
      dimensions,
      ...kinds[similarity],
      connectivity: CONNECTIVITY,
      expansion_add: EXPANSION_ADD,
      expansion_search: EXPANSION_SEARCH,
      multi: false,
    } as ConstructorParameters<typeof UsearchIndex>[0]);
  let index = make();
  let removed = 0;
  const placed = new Set<number>();
  const waiting = new Set<number>();
  for (const [slot, owner] of store.owners.entries()) if (owner >= 0) waiting.add(slot);

  const addChunk = (): void => {
    const slots = [...waiting.values().take(CHUNK)];
    const vectors = store.vectors();
    const values = new Float32Array(slots.length * dimensions);
    for (const [at, slot] of slots.entries())
      values.set(vectors.subarray(slot * dimensions, (slot + 1) * dimensions), at * dimensions);
    index.add(BigUint64Array.from(slots, BigInt), values as never, 1);
    for (const slot of slots) {
      waiting.delete(slot);
      placed.add(slot);
    }
  };

  /** Places that were left make ways longer: after as many as there are passages all are given anew. */
  const startOver = (): void => {
    for (const slot of placed) waiting.add(slot);
    placed.clear();
    index = make();
    removed = 0;
  };

  return {
    waiting,
    get size() {
      return placed.size;
    },
    put: (slot) => void waiting.add(slot),
    forget(slot) {
      waiting.delete(slot);
      if (!placed.delete(slot)) return;
      index.remove(BigInt(slot));
      removed += 1;
    },
    grow(milliseconds) {
      if (removed > Math.max(placed.size, 1_000)) startOver();
      const end = performance.now() + milliseconds;
      while (waiting.size > 0 && performance.now() < end) addChunk();
    },
    near(query, k) {
      if (placed.size === 0) return [];
      return Array.from(index.search(query, Math.min(k, placed.size), 1).keys, Number);
    },
  };
}
