/** From found records to what is answered. */

import { cutText } from '../../../kernel/text.ts';
import type { Similarity } from '../model.ts';
import { rowsOf, type SearchParts, type SearchRequest, viewOf } from './search-request.ts';
import { fileFieldsOf, textOf } from './texts.ts';

interface Span {
  readonly starts: number;
  readonly ends: number;
}

/** A record that was found, and by what. */
export interface Found {
  readonly id: string;
  /** Where the passage that is nearest stands in the text, and how far it is. */
  readonly span?: Span;
  readonly distance?: number;
  /** How much the words weigh, 0 to 1. */
  readonly words?: number;
  /** What both orders together say, 0 to 1. */
  readonly fused?: number;
}

export interface Hit {
  readonly document: Readonly<Record<string, unknown>>;
  readonly score: number;
  /** By field, HTML. */
  readonly highlights?: Readonly<Record<string, string>>;
  /** The value of the field by which is grouped. */
  readonly group?: unknown;
  readonly distance?: number;
  readonly metric?: Similarity;
  readonly provider?: string;
  readonly raw?: number;
  readonly matchedChunk?: {
    readonly start: number;
    readonly end: number;
    readonly preview: string;
  };
}

const PREVIEW = 300;

/** From distances to scores from 0 to 1, higher is nearer (specification embeddings.md 5.7). */
const scores: Readonly<Record<Similarity, (distance: number) => number>> = {
  cosine: (distance) => (2 - distance) / 2,
  euclidean: (distance) => 1 / (1 + distance),
  dotProduct: (distance) => 1 / (1 + Math.exp(distance)),
};

/** Those with the score that is asked for. */
export const nearEnough = (
  { minScore, generation: { similarity } }: SearchRequest,
  found: readonly Found[],
): readonly Found[] => found.filter((one) => scoreOf(one, similarity) >= minScore);

/** The records as the caller may see them now, in their order. */
export async function hitsOf(
  parts: SearchParts,
  request: SearchRequest,
  near: readonly Found[],
  groups?: ReadonlyMap<string, unknown>,
): Promise<readonly Hit[]> {
  const { input, generation } = request;
  const { schemaName } = input;
  const { sourceFields } = generation;
  if (near.length === 0) return [];
  const records = await documentsOf(parts, request, near);
  // Texts of files are not in the record.
  const files = fileFieldsOf(parts.schemas.get(schemaName), sourceFields);
  const plainFields = sourceFields.filter((field) => !files.includes(field));
  return near.flatMap((one) => {
    const json = records.get(one.id);
    if (json === undefined) return [];
    const document = JSON.parse(json) as Hit['document'];
    return {
      document,
      ...factsOf(one, request),
      ...(groups && { group: groups.get(one.id) ?? null }),
      ...matched(document, plainFields, one.span),
    };
  });
}

/** As the caller sees them: those of the look that found them, or read now. */
async function documentsOf(
  { records }: SearchParts,
  { caller, input, filter, generation, documents }: SearchRequest,
  near: readonly Found[],
): Promise<ReadonlyMap<string, string>> {
  if (near.every(({ id }) => documents.has(id))) return documents;
  const ids = near.map(({ id }) => id);
  const read = await records.ranked(caller, input.schemaName, {
    ...rowsOf(input, filter, generation),
    ...viewOf(input),
    ids,
    limit: ids.length,
  });
  return new Map(read.map(({ id, json }) => [id, json]));
}

function scoreOf({ fused, distance, words }: Found, similarity: Similarity): number {
  if (fused !== undefined) return fused;
  return distance === undefined ? (words ?? 0) : scores[similarity](distance);
}

function factsOf(
  one: Found,
  { generation: { similarity, provider } }: SearchRequest,
): Omit<Hit, 'document'> {
  const score = scoreOf(one, similarity);
  const { distance } = one;
  if (distance === undefined) return { score };
  const raw = similarity === 'dotProduct' ? { raw: -distance } : {};
  return { score, distance, metric: similarity, provider, ...raw };
}

/** The part of the text that was nearest, as far as the record still has it. */
function matched(
  document: Hit['document'],
  fields: readonly string[],
  span: Span | undefined,
): Pick<Hit, 'matchedChunk'> {
  if (!span) return {};
  const text = textOf(document, fields);
  if (text === '') return {};
  const preview = cutText(text.slice(span.starts, span.ends), PREVIEW).toWellFormed();
  return { matchedChunk: { start: span.starts, end: span.ends, preview } };
}
