/** Pages of an order, and its groups: what comes behind a place, and the best record of each value of a field. */
import type { Cursors } from '../../../data/records/page/keyset.ts';
import { callerKey } from '../../../kernel/caller.ts';
import type { Found } from './hits.ts';
import { byBoth, byMeaning, byWords, poolFor } from './rankings.ts';
import {
  offeredOf,
  type SearchMode,
  type SearchParts,
  type SearchRequest,
} from './search-request.ts';

/** Where a page ended. */
interface Place {
  /** Records before it. */
  readonly skip: number;
  /** By what the last record stands in the order, and its id. */
  readonly value: number;
  readonly id: string;
  /** Records of each order that are put together, in mode hybrid. */
  readonly pool: number;
}

export interface FoundPage {
  readonly found: readonly Found[];
  /** Of `groupBy`, by record. */
  readonly groups?: ReadonlyMap<string, unknown>;
  readonly nextCursor: string | null;
}

/** Records of an order that pages lead through, and that groups are looked for in. */
const MAX_DEPTH = 1_000;

/** An order in pieces of any size, each the beginning of the larger ones. */
interface Order {
  readonly mode: SearchMode;
  readonly pool: number;
  first(size: number): Promise<readonly Found[]>;
}

function orderOf(
  parts: SearchParts,
  request: SearchRequest,
  mode: SearchMode,
  pool: number,
): Order {
  if (mode === 'keyword') return { mode, pool, first: (size) => byWords(parts, request, size) };
  if (mode === 'vector') return { mode, pool, first: (size) => byMeaning(parts, request, size) };
  // The places in it depend on how much of both orders is put together.
  return { mode, pool, first: () => byBoth(parts, request, pool) };
}

/** Smaller comes first. */
const placeValue = ({ fused, distance, words = 0 }: Found): number =>
  fused !== undefined ? -fused : (distance ?? -words);

const isBehind = (one: Found, { value, id }: Pick<Place, 'value' | 'id'>): boolean =>
  placeValue(one) > value || (placeValue(one) === value && one.id > id);

/** The next records of the order of a mode. Throws `ModelError`, and 400 for a cursor of another search. */
export async function pageOf(
  parts: SearchParts,
  request: SearchRequest,
  mode: SearchMode,
): Promise<FoundPage> {
  const { input, limit } = request;
  const place = input.cursor === undefined ? undefined : placeOf(parts.cursors, request, mode);
  const order = orderOf(parts, request, mode, place?.pool ?? poolFor(limit));
  if (input.groupBy !== undefined) return groupsOf(parts, request, order, input.groupBy);
  const { page, more } = await behind(order, limit, place);
  const last = page.at(-1);
  const skip = (place?.skip ?? 0) + page.length;
  if (!more || !last || skip >= MAX_DEPTH) return { found: page, nextCursor: null };
  const values = [skip, placeValue(last), last.id, order.pool].map(String);
  return { found: page, nextCursor: parts.cursors.write(questionOf(request, mode), values) };
}

async function behind(
  order: Order,
  limit: number,
  place: Place | undefined,
): Promise<{ readonly page: readonly Found[]; readonly more: boolean }> {
  // What has come in before the place meanwhile makes another look necessary.
  for (let size = (place?.skip ?? 0) + limit + 1; ; size *= 2) {
    const all = await order.first(size);
    const own = place ? all.filter((one) => isBehind(one, place)) : all;
    const isWhole = order.mode === 'hybrid' || all.length < size || size > 2 * MAX_DEPTH;
    if (own.length > limit || isWhole)
      return { page: own.slice(0, limit), more: own.length > limit };
  }
}

/** What a cursor belongs to. */
function questionOf({ caller, input, generation, text }: SearchRequest, mode: SearchMode): string {
  const { scope = '', filter = {}, typos = true, documentId = '' } = input;
  return JSON.stringify([
    generation.id,
    callerKey(caller),
    scope,
    filter,
    typos,
    documentId,
    text,
    mode,
  ]);
}

/** Whether the cursor is of a page that was found by words, because the model could not be asked. */
export function continuesWords(
  { cursors }: SearchParts,
  request: SearchRequest,
  mode: SearchMode,
): boolean {
  const { cursor, fallback } = request.input;
  if (cursor === undefined || fallback !== 'keyword') return false;
  const fits = (one: SearchMode): boolean => {
    try {
      cursors.read(questionOf(request, one), cursor);
      return true;
    } catch {
      return false;
    }
  };
  return !fits(mode) && fits('keyword');
}

function placeOf(cursors: Cursors, request: SearchRequest, mode: SearchMode): Place {
  const values = cursors.read(questionOf(request, mode), request.input.cursor ?? '');
  const [skip, value, id, pool] = values;
  return { skip: Number(skip), value: Number(value), id: id ?? '', pool: Number(pool) };
}

/** The best record of each value; those without a value are a group. */
async function groupsOf(
  parts: SearchParts,
  request: SearchRequest,
  order: Order,
  field: string,
): Promise<FoundPage> {
  const { limit } = request;
  for (let size = 5 * limit; ; size *= 4) {
    const all = await order.first(Math.min(size, MAX_DEPTH));
    const values = await valuesOf(parts, request, all, field);
    const known = new Set<string>();
    const found = all.filter(({ id }) => {
      if (!values.has(id)) return false;
      const key = JSON.stringify(values.get(id) ?? null);
      return !known.has(key) && known.add(key);
    });
    const isWhole = order.mode === 'hybrid' || all.length < size || size >= MAX_DEPTH;
    if (found.length >= limit || isWhole)
      return { found: found.slice(0, limit), groups: values, nextCursor: null };
  }
}

/** Of the records that the caller may read, as they may see them. */
async function valuesOf(
  { records }: SearchParts,
  { caller, input, filter, generation }: SearchRequest,
  found: readonly Found[],
  field: string,
): Promise<ReadonlyMap<string, unknown>> {
  if (found.length === 0) return new Map();
  const ids = found.map(({ id }) => id);
  const rows = await records.ranked(caller, input.schemaName, {
    ...{ filter, ids, looksInto: [field], select: [field], limit: ids.length },
    ...offeredOf(generation),
    ...(input.scope !== undefined && { scope: input.scope }),
  });
  return new Map(rows.map(({ id, json }) => [id, JSON.parse(json)[field] ?? null]));
}
