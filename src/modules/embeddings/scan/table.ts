/** The vectors of one generation in memory, and the search through them: all of them, or those that an index names. */
import type { Similarity } from '../model.ts';
import { createPassageGraph, loadLibrary, type PassageGraph } from './graph.ts';
import { createPassageSearch } from './passage-search.ts';
import { createPassageStore, type PassageStore } from './passage-store.ts';
import { createTop, type Top } from './top-k.ts';

/** Passages of records in their order; with the first of a record, those that it had before are forgotten. */
export interface TableChange {
  /** Of each passage. A record without passages is listed with ordinal -1 and has no vector. */
  readonly ids: readonly string[];
  readonly ordinals: readonly number[];
  /** Where they stand in the texts of their records. */
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  /** Vectors behind each other, of those with an ordinal of 0 or more. */
  readonly vectors: Float32Array;
}

/** The best records, nearest first. */
export interface Nearest {
  readonly ids: readonly string[];
  /** Where the passage of each that is nearest stands in its text. */
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly distances: readonly number[];
  /** About how many passages there are in all. */
  readonly passages: number;
}

export interface SearchOptions {
  /** Records that are asked for. */
  readonly k: number;
  /** Only these records. */
  readonly within?: readonly string[];
  /** Every vector is looked at, whatever index there is. */
  readonly exact?: boolean;
}

export interface TableFacts {
  readonly passages: number;
  /** Passages that the index finds; the others are looked at one by one. */
  readonly indexed: number;
  /** The machine has no index: everything is looked at. */
  readonly unavailable: boolean;
}

export interface VectorTable {
  apply(change: TableChange): void;
  /** Equal distances go by id. */
  nearest(query: Float32Array, options: SearchOptions): Nearest;
  /** Works on the index for so many milliseconds. */
  grow(milliseconds: number): Promise<TableFacts>;
  /** Of the ten nearest to a passage, how many the index finds: 0 to 1. `at`, 0 to 1, says which passage. */
  recall(at: number): number | undefined;
  facts(): TableFacts;
}

/** Changes beyond which looking at them one by one takes longer than it should. */
const MAX_WAITING = 2_000;
/** Beyond a tenth of all, looking at all of them is faster. */
const DEEPEST = 10;
/** Candidates of a search at least. */
const MIN_CANDIDATES = 128;
const RECALL_AT = 10;

export function createVectorTable(dimensions: number, similarity: Similarity): VectorTable {
  const store = createPassageStore(dimensions);
  const { bestOf } = createPassageSearch(store, dimensions, similarity);
  let graph: PassageGraph | undefined;
  let unavailable = false;

  const { search, everything } = createTableSearch(store, dimensions, similarity);

  const facts = (): TableFacts => ({
    passages: store.passages(),
    indexed: graph?.size ?? 0,
    unavailable,
  });

  return {
    apply({ ids: given, ordinals: places, starts, ends, vectors: values }) {
      let at = 0;
      given.forEach((id, i) => {
        const ordinal = places[i] ?? -1;
        if (ordinal <= 0) for (const slot of store.forget(id)) graph?.forget(slot);
        if (ordinal < 0) return;
        const vector = values.subarray(at * dimensions, (at + 1) * dimensions);
        const span = { starts: starts[i] ?? 0, ends: ends[i] ?? 0 };
        const slot = store.put({ id, ...span }, vector);
        graph?.put(slot);
        at++;
      });
    },
    nearest(query, options) {
      // Which passage it was is found out for the few that are answered.
      const found = search(graph, query, options)
        .sorted()
        .map(({ id }) => bestOf(id, store.numberOf(id) ?? -1, query));
      return {
        ids: found.map(({ id }) => id),
        starts: found.map(({ slot }) => store.starts[slot] ?? 0),
        ends: found.map(({ slot }) => store.ends[slot] ?? 0),
        distances: found.map((one) => one.distance),
        passages: store.passages(),
      };
    },
    async grow(milliseconds) {
      const library = graph ? undefined : await loadLibrary();
      if (library) graph = createPassageGraph(library, store, { dimensions, similarity });
      unavailable = !graph;
      graph?.grow(milliseconds);
      return facts();
    },
    recall(at) {
      const slot = Math.min(Math.floor(at * store.owners.length), store.owners.length - 1);
      if (!graph || (store.owners[slot] ?? -1) < 0) return undefined;
      const query = store.vectors().slice(slot * dimensions, (slot + 1) * dimensions);
      const exact = everything(query, RECALL_AT).sorted();
      // As a search for ten asks.
      const found = search(graph, query, { k: 10 * RECALL_AT })
        .sorted()
        .slice(0, RECALL_AT);
      const right = new Set(exact.map(({ id }) => id));
      return found.filter(({ id }) => right.has(id)).length / Math.max(1, exact.length);
    },
    facts,
  };
}

interface TableSearch {
  everything(query: Float32Array, k: number): Top;
  search(graph: PassageGraph | undefined, query: Float32Array, options: SearchOptions): Top;
}

function createTableSearch(
  store: PassageStore,
  dimensions: number,
  similarity: Similarity,
): TableSearch {
  const { bestOf, offerAll } = createPassageSearch(store, dimensions, similarity);
  const everything = (query: Float32Array, k: number): Top => {
    const top = createTop(k);
    offerAll(top, query);
    return top;
  };
  return {
    everything,
    search(graph, query, { k, within, exact = false }) {
      const records = within
        ? new Set(within.map((id) => store.numberOf(id) ?? -1))
        : graph && !exact && candidates(store, graph, { query, k });
      if (!records) return everything(query, k);
      const top = createTop(k);
      for (const number of records) {
        const id = store.ids[number];
        if (id !== undefined) top.offer(bestOf(id, number, query));
      }
      return top;
    },
  };
}

/**
 * Numbers of the records that an index names, and of those that have no place in it yet. Nothing when looking at all is
 * better.
 */
function candidates(
  store: PassageStore,
  graph: PassageGraph,
  { query, k }: { readonly query: Float32Array; readonly k: number },
): ReadonlySet<number> | undefined {
  if (graph.waiting.size > MAX_WAITING) return undefined;
  const ownersOf = (slots: Iterable<number>): Set<number> =>
    new Set(Array.from(slots, (slot) => store.owners[slot] ?? -1));
  // Several passages of a record are one hit.
  for (let max = Math.max(k, MIN_CANDIDATES); max * DEEPEST <= graph.size; max *= 2) {
    const found = ownersOf(graph.near(query, max));
    if (found.size >= k) return found.union(ownersOf(graph.waiting));
  }
  return undefined;
}
