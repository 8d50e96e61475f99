/** The orders in which records are found: by meaning, by words, by both. */
import { callerKey } from '../../../kernel/caller.ts';
import { embeddingErrors } from '../errors.ts';
import { noProvider } from '../model.ts';
import { type RankedWord, rankedWords } from '../queries/words.ts';
import type { Found } from './hits.ts';
import { bestReadable, type Ranking } from './permitted.ts';
import type { SearchParts, SearchRequest } from './search-request.ts';
import { keywordQuery, parseWords, weightsOf, withSpellings } from './words.ts';

/** Records whose passages are nearest to the text. Throws `ModelError`. */
export async function byMeaning(
  { index, models }: SearchParts,
  { caller, generation, text, readable, hint, usage }: SearchRequest,
  limit: number,
): Promise<readonly Found[]> {
  if (generation.provider === noProvider) throw embeddingErrors.VECTOR_SEARCH_UNAVAILABLE();
  const { vector, cached, tokens } = await models.query(generation, text, callerKey(caller));
  Object.assign(usage, { cachedQuery: cached, tokens });
  let size = 0;
  const ranking: Ranking<Found> = {
    size: () => size,
    async best(k, within) {
      const options = { k, ...(within && { within }) };
      const near = await index.nearest(generation, vector, options);
      size = near.passages;
      return near.ids.map((id, i) => ({
        id,
        distance: near.distances[i] ?? 0,
        span: { starts: near.starts[i] ?? 0, ends: near.ends[i] ?? 0 },
      }));
    },
  };
  return bestReadable(ranking, readable, { limit, hint });
}

/**
 * Records in which the words of the text weigh most. When there are too few of them, those follow that have words written
 * nearly so.
 */
export async function byWords(
  parts: SearchParts,
  request: SearchRequest,
  size: number,
): Promise<readonly Found[]> {
  const { database } = parts;
  const { generation, readable, input } = request;
  const parsed = parseWords(request.text);
  const query = await keywordQuery(database, generation, parsed);
  const exact = await bestReadable(wordRanking(parts, request, query), readable, { limit: size });
  if (exact.length >= size || input.typos === false) return exact;
  const spelled = await withSpellings(database, request, parsed);
  if (!spelled) return exact;
  const wider = await keywordQuery(database, generation, spelled);
  const found = await bestReadable(wordRanking(parts, request, wider), readable, { limit: size });
  const known = new Set(exact.map(({ id }) => id));
  const min = exact.at(-1)?.words ?? 1;
  const further = found.filter(({ id }) => !known.has(id));
  // What is written as it was asked for comes first.
  const lowered = further.map((one) => ({ ...one, words: ((one.words ?? 0) * min) / 2 }));
  return [...exact, ...lowered].slice(0, size);
}

const wordRanking = (
  parts: SearchParts,
  request: SearchRequest,
  query: string,
): Ranking<Found> => ({
  async best(k, within) {
    const rows = await rankedFor(parts, request, { query, k, within });
    return rows.map(({ id, score }) => ({ id, words: score }));
  },
});

interface WordsAsked {
  readonly query: string;
  readonly k: number;
  readonly within?: readonly string[] | undefined;
}

/**
 * The first `k` records by their words. Of very many that have them not all are looked at: then only those of the caller are,
 * where these are no more than can be.
 */
export async function rankedFor(
  { database }: Pick<SearchParts, 'database'>,
  { generation, own }: SearchRequest,
  { query, k, within }: WordsAsked,
): Promise<readonly RankedWord[]> {
  const options = { generation, query, weights: weightsOf(generation), k };
  const found = await rankedWords(database, { ...options, ...(within && { within }) });
  const only = found.more && !within ? await own() : undefined;
  if (!only) return found.ranked;
  return (await rankedWords(database, { ...options, within: only })).ranked;
}

/** Of each order, so many are put together. */
const POOL = 5;
/** How much less a place counts than the one before it; the higher, the less. */
const RANK_CONSTANT = 60;

export const poolFor = (limit: number): number => Math.max(limit * POOL, 50);

/** Both orders, so much of each, put together by their places (reciprocal rank fusion). */
export async function byBoth(
  parts: SearchParts,
  request: SearchRequest,
  size: number,
): Promise<readonly Found[]> {
  const [meaning, words] = await Promise.all([
    byMeaning(parts, request, size),
    byWords(parts, request, size),
  ]);
  const fused = new Map<string, Found>();
  for (const list of [meaning, words])
    list.forEach((one, place) => {
      const before = fused.get(one.id);
      const score = (before?.fused ?? 0) + (RANK_CONSTANT + 1) / (2 * (RANK_CONSTANT + 1 + place));
      fused.set(one.id, { ...before, ...one, fused: score });
    });
  return [...fused.values()].sort(
    (a, b) => (b.fused ?? 0) - (a.fused ?? 0) || (a.id < b.id ? -1 : 1),
  );
}
