/** From found records to what is answered. */

import { cutText } from '../../../kernel/text.ts';
import type { Similarity } from '../model.ts';
import { placesOf } from '../queries/vectors.ts';
import type { SearchParts, SearchRequest } from './search-request.ts';
import { fileFieldsOf, textOf } from './texts.ts';

/** A record that was found, and by what. */
export interface Found {
  readonly id: string;
  /** The passage that is nearest, and how far it is. */
  readonly ordinal?: number;
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
  { input: { minScore = 0 }, generation: { similarity } }: SearchRequest,
  found: readonly Found[],
): readonly Found[] => found.filter((one) => scoreOf(one, similarity) >= minScore);

/** The records as the caller may see them now, in their order. */
export async function hitsOf(
  parts: SearchParts,
  request: SearchRequest,
  near: readonly Found[],
  groups?: ReadonlyMap<string, unknown>,
): Promise<readonly Hit[]> {
  const { caller, input, generation, filter } = request;
  const { schemaName, scope, select, populate } = input;
  const { sourceFields } = generation;
  if (near.length === 0) return [];
  const records = await parts.records.ranked(caller, schemaName, {
    filter,
    looksInto: sourceFields,
    ids: near.map(({ id }) => id),
    limit: near.length,
    ...(scope !== undefined && { scope }),
    ...(select && { select }),
    ...(populate && { populate }),
  });
  // Texts of files are not in the record.
  const files = fileFieldsOf(parts.schemas.get(schemaName), sourceFields);
  const plainFields = sourceFields.filter((field) => !files.includes(field));
  const places = await placesBy(parts, generation.id, near);
  return records.flatMap(({ place, json }) => {
    const one = near[place];
    if (!one) return [];
    const document = JSON.parse(json) as Hit['document'];
    return {
      document,
      ...factsOf(one, request),
      ...(groups && { group: groups.get(one.id) ?? null }),
      ...matched(document, plainFields, places.get(one.id)),
    };
  });
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

type Span = { readonly starts: number; readonly ends: number };

async function placesBy(
  { database }: SearchParts,
  generationId: string,
  found: readonly Found[],
): Promise<ReadonlyMap<string, Span>> {
  const passages = found.flatMap(({ id, ordinal }) =>
    ordinal === undefined ? [] : [{ id, ordinal }],
  );
  if (passages.length === 0) return new Map();
  const rows = await placesOf(database, generationId, passages);
  return new Map(rows.map(({ recordId, starts, ends }) => [recordId, { starts, ends }]));
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
