/** A model of vectors whose distances can be told by hand: how often a text has each of a few words. */
import { expect } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

type Similarity = 'cosine' | 'euclidean' | 'dotProduct';

export interface Meaning {
  /** How far texts are from each other, smaller is nearer. */
  distance(similarity: Similarity, one: string, other: string): number;
  close(): Promise<void>;
}

/** Vectors are made by it from now on. */
export async function createMeaning(admin: Api, vocabulary: readonly string[]): Promise<Meaning> {
  const vectorOf = (text: string): number[] =>
    vocabulary.map((word) => text.split(/\s+/).filter((one) => one === word).length);
  const service = await startFakeService();
  service.answer = (request) => ({
    body: {
      data: request
        .json()
        .input.map((text: string, index: number) => ({ index, embedding: vectorOf(text) })),
    },
  });
  const models = [{ name: 'words', dimensions: vocabulary.length }];
  const endpoint = `${service.url}/v1/embeddings`;
  const config = {
    providers: { 'openai-compatible': { endpoint, models, allowInternal: true } },
    defaultProvider: 'openai-compatible',
  };
  expectStatus(await admin.patch('/config/embeddings', { config }), 200, 'a model');
  return {
    distance(similarity, one, other) {
      const [a, b] = [vectorOf(one), vectorOf(other)];
      if (similarity === 'euclidean') return Math.hypot(...a.map((x, i) => x - (b[i] ?? 0)));
      const dot = a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
      const lengths = Math.hypot(...a) * Math.hypot(...b);
      return similarity === 'cosine' ? 1 - dot / lengths : -dot;
    },
    close: () => service.close(),
  };
}

/** Nothing waits for vectors, of which so many were made at least. */
export const settled = (admin: Api, completed = 0): Promise<unknown> =>
  waitFor(async () => {
    const { generationQueue: queue, backfillQueue: runs } = (await admin.get('/embeddings/status'))
      .body;
    const waiting = queue.waiting + queue.active + queue.delayed + runs.waiting + runs.active;
    return queue.completed >= completed && waiting === 0;
  });

interface Compared {
  /** A search as the user, for some text within some filter, with up to 50 hits. */
  readonly search: (more: Json) => Promise<Json>;
  /** What their list has of the filter. */
  readonly fitting: readonly Json[];
  /** Of a record. */
  readonly distance: (record: Json) => number;
}

const idsOf = (hits: readonly Json[]): string[] => hits.map(({ document }) => document._id);
const firstOfKinds = (hits: readonly Json[]): string[] =>
  idsOf([...new Map(hits.toReversed().map((hit) => [hit.document.kind, hit])).values()]).sort();

/** By meaning all are found, each as the list shows it, in the order of their distances; by both, by their places in both orders. */
export async function compareMeaning({ search, fitting, distance }: Compared): Promise<void> {
  const { hits, facets } = await search({ mode: 'vector', facets: ['kind'] });
  expect(idsOf(hits).sort()).toEqual(fitting.map(({ _id }) => _id).sort());
  const shown = new Map(fitting.map((record) => [record._id, record]));
  for (const { document, distance: told } of hits) {
    expect(document).toEqual(shown.get(document._id));
    expect(told).toBeCloseTo(distance(document), 5);
  }
  const inOrder = hits.toSorted(
    (a: Json, b: Json) => a.distance - b.distance || (a.document._id < b.document._id ? -1 : 1),
  );
  expect(idsOf(hits)).toEqual(idsOf(inOrder));
  const counted = facets.kind.flatMap(({ value, count }: Json) => Array(count).fill(value));
  expect(counted.sort()).toEqual(fitting.map(({ kind }) => kind).sort());
  const minScore = Math.min(1, hits[Math.floor(hits.length / 2)]?.score ?? 1);
  const near = hits.filter(({ score }: Json) => score >= minScore);
  expect((await search({ mode: 'vector', minScore })).hits).toEqual(near);

  const words = idsOf((await search({ mode: 'keyword' })).hits);
  const fused = new Map<string, number>();
  for (const list of [idsOf(hits), words])
    for (const [place, id] of list.entries())
      fused.set(id, (fused.get(id) ?? 0) + 61 / (2 * (61 + place)));
  const best = [...fused].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  const both = await search({ mode: 'hybrid' });
  expect(both.hits.map(({ document, score }: Json) => [document._id, score])).toEqual(best);

  for (const [mode, whole] of [
    ['vector', hits],
    ['hybrid', both.hits],
  ] as const) {
    const pages: Json[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await search({ mode, limit: 5, ...(cursor && { cursor }) });
      pages.push(...page.hits);
      cursor = page.nextCursor;
    }
    expect(idsOf(pages)).toEqual(idsOf(whole));
    const groups = (await search({ mode, groupBy: 'kind' })).hits;
    expect(idsOf(groups).sort()).toEqual(firstOfKinds(whole));
  }
}
