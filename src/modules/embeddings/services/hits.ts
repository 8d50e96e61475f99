/** From found records to what is answered. */

import { cutText } from '../../../kernel/text.ts';
import type { Similarity } from '../model.ts';
import type { GenerationRow } from '../queries/configs.ts';
import { contentParts, type Part } from '../queries/contents.ts';
import { rowsOf, type SearchParts, type SearchRequest, viewOf } from './search-request.ts';
import { fileSchemaName, plainFieldsOf, textOf } from './texts.ts';

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
  readonly id: string;
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
  if (near.length === 0) return [];
  const records = await documentsOf(parts, request, near);
  const found = near.flatMap((one) => {
    const json = records.get(one.id);
    if (json === undefined) return [];
    return { one, document: JSON.parse(json) as Hit['document'] };
  });
  const previews = await previewsOf(parts, request, found);
  // With all of its fields a file is shown as everywhere else.
  const isFile = schemaName === fileSchemaName && input.select === undefined;
  return found.map(({ one, document }) => ({
    id: one.id,
    document: isFile ? parts.files.view(document) : document,
    ...factsOf(one, generation),
    ...(groups && { group: groups.get(one.id) ?? null }),
    ...matched(one, previews),
  }));
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
  { similarity, provider }: GenerationRow,
): Omit<Hit, 'id' | 'document'> {
  const score = scoreOf(one, similarity);
  const { distance } = one;
  if (distance === undefined) return { score };
  const raw = similarity === 'dotProduct' ? { raw: -distance } : {};
  return { score, distance, metric: similarity, provider, ...raw };
}

/** Hits of which texts of files are shown. */
const MAX_PREVIEWS = 50;

interface FoundRecord {
  readonly one: Found;
  readonly document: Hit['document'];
}

/** The parts of the texts that were nearest, as far as the records still have them: first their fields, then their files. */
async function previewsOf(
  { database, schemas }: SearchParts,
  { input, generation }: SearchRequest,
  found: readonly FoundRecord[],
): Promise<ReadonlyMap<string, string>> {
  const fields = plainFieldsOf(schemas.get(input.schemaName), generation.sourceFields);
  const previews = new Map<string, string>();
  const parts: Part[] = [];
  for (const { one, document } of found) {
    const text = textOf(document, fields);
    if (one.span && text !== '') previews.set(one.id, text.slice(one.span.starts, one.span.ends));
    // Without a field that is searched it is not known where the others begin.
    if (hasAll(document, fields)) parts.push(...behind(one, text === '' ? 0 : text.length + 1));
  }
  if (parts.length === 0 || fields.length === generation.sourceFields.length) return previews;
  const contents = await contentParts(database, generation.id, parts.slice(0, MAX_PREVIEWS));
  for (const [id, content] of contents) {
    const own = previews.get(id) ?? '';
    previews.set(id, own === '' ? content : `${own}\n${content}`);
  }
  return previews;
}

const hasAll = (document: Hit['document'], fields: readonly string[]): boolean =>
  fields.every((field) => Object.hasOwn(document, field.split('.', 1)[0] ?? ''));

/** What of a span stands behind the fields of a record, which take so much. */
function behind({ id, span }: Found, taken: number): readonly Part[] {
  if (!span) return [];
  const { starts, ends } = span;
  const length = Math.min(ends - Math.max(starts, taken), PREVIEW);
  return length > 0 ? [{ id, starts: Math.max(0, starts - taken), length }] : [];
}

function matched(
  { id, span }: Found,
  previews: ReadonlyMap<string, string>,
): Pick<Hit, 'matchedChunk'> {
  const text = previews.get(id);
  if (!span || text === undefined) return {};
  const preview = cutText(text, PREVIEW).toWellFormed();
  return { matchedChunk: { start: span.starts, end: span.ends, preview } };
}
