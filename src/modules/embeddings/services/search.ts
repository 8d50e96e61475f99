/** Searching by meaning, by words, or by both, in what the caller may read. */
import type { Caller } from '../../../kernel/caller.ts';
import { invalid, PenstockError } from '../../../kernel/errors.ts';
import { embeddingErrors } from '../errors.ts';
import { ModelError } from '../model.ts';
import { facetsOf, highlightsOf } from './beside-hits.ts';
import { type Hit, hitsOf, nearEnough } from './hits.ts';
import { continuesWords, pageOf } from './pages.ts';
import { createDepthHints } from './permitted.ts';
import {
  type IndexParts,
  requestOf,
  type SearchInput,
  type SearchMode,
  type SearchParts,
  type SearchRequest,
  type SearchUsage,
} from './search-request.ts';

export interface SearchResult {
  readonly hits: readonly Hit[];
  /** Where the next page begins. */
  readonly nextCursor: string | null;
  /** The model could not be asked, and words were searched for instead. */
  readonly degraded?: true;
  /** Records that were there before are still looked at: some may be missing. */
  readonly incomplete?: true;
  readonly facets?: Awaited<ReturnType<typeof facetsOf>>;
}

export interface TimedResult extends SearchResult {
  /** Milliseconds. */
  readonly took: number;
  readonly usage: Readonly<SearchUsage>;
}

export type Search = (caller: Caller, input: SearchInput) => Promise<TimedResult>;

export function createSearch(given: IndexParts): Search {
  const parts: SearchParts = { ...given, hints: createDepthHints() };
  return async (caller, input) => {
    const started = performance.now();
    const { mode = 'vector' } = input;
    const request = await requestOf(parts, caller, input);
    const found = await answer(parts, request, mode);
    const result = await withMore(parts, request, found, mode === 'keyword');
    const took = performance.now() - started;
    parts.measures.searches.observe({ mode }, took / 1000);
    return {
      ...result,
      ...(request.generation.filling && { incomplete: true as const }),
      took: Math.round(took),
      usage: request.usage,
    };
  };
}

async function answer(
  parts: SearchParts,
  request: SearchRequest,
  mode: SearchMode,
): Promise<SearchResult> {
  if (mode === 'keyword') return hitsBy(parts, request, mode);
  if (continuesWords(parts, request, mode))
    return { ...(await hitsBy(parts, request, 'keyword')), degraded: true };
  try {
    return await hitsBy(parts, request, mode);
  } catch (error) {
    const isModel = error instanceof ModelError;
    if (!isModel && !isLoading(error)) throw error;
    // A page of another order does not go on in that of words.
    if (request.input.fallback !== 'keyword' || request.input.cursor !== undefined)
      throw isModel ? publicError(error) : error;
    return { ...(await hitsBy(parts, request, 'keyword')), degraded: true };
  }
}

const isLoading = (error: unknown): boolean =>
  error instanceof PenstockError && error.code === embeddingErrors.INDEX_PENDING.code;

async function hitsBy(
  parts: SearchParts,
  request: SearchRequest,
  mode: SearchMode,
): Promise<SearchResult> {
  const { found, groups, nextCursor } = await pageOf(parts, request, mode);
  const near = nearEnough(request, found);
  const hits = await hitsOf(parts, request, near, groups);
  // Behind one that is too far away are none that are nearer.
  return { hits, nextCursor: near.length < found.length ? null : nextCursor };
}

/** Marks and counts, when they are asked for. */
async function withMore(
  parts: SearchParts,
  request: SearchRequest,
  result: SearchResult,
  byWords: boolean,
): Promise<SearchResult> {
  const { highlight = false, facets = [] } = request.input;
  const counted =
    facets.length > 0
      ? { facets: await facetsOf(parts, request, byWords || result.degraded === true) }
      : {};
  if (!highlight) return { ...result, ...counted };
  const marked = await highlightsOf(parts, request, result.hits);
  const hits = result.hits.map((hit, at) => ({ ...hit, highlights: marked[at] ?? {} }));
  return { ...result, hits, ...counted };
}

/** A failure of a model as callers hear of it. */
function publicError({ failure, retryAfter = 5, message }: ModelError): Error {
  const details = { retryAfter, detail: message };
  if (failure === 'timeout') return embeddingErrors.PROVIDER_TIMEOUT(details);
  if (failure === 'budget') return embeddingErrors.PROVIDER_BUDGET_EXCEEDED(details);
  if (failure === 'wrong') return embeddingErrors.DIMENSION_MISMATCH({ detail: message });
  if (failure === 'refused') return invalid('text', 'refused', 'is not taken by the provider');
  return embeddingErrors.PROVIDER_UNAVAILABLE(details);
}
