/** Pages of candidates in the order of their ids, of which those are kept that hold. */

import { createHash } from 'node:crypto';
import { invalid } from '../../../kernel/errors.ts';
import { type CandidateBounds, isOpen } from './ask.ts';
import type { Page, PageOptions } from './engine.ts';
import { engineErrors, limits } from './limits.ts';

/* Cursors of lists: the last item of a page, bound to the question by a checksum so that it cannot be used for another. */

const CHECKSUM_LENGTH = 12;

const checksum = (question: string, last: string): string =>
  createHash('sha256').update(`${question}\n${last}`).digest('base64url').slice(0, CHECKSUM_LENGTH);

const writeCursor = (question: string, last: string): string =>
  Buffer.from(`${checksum(question, last)}${last}`).toString('base64url');

/** The item after which a page begins; empty for the first page. Throws `CURSOR_INVALID`. */
function readCursor(question: string, cursor: string | undefined): string {
  if (cursor === undefined) return '';
  const text = Buffer.from(cursor, 'base64url').toString();
  const last = text.slice(CHECKSUM_LENGTH);
  if (text.slice(0, CHECKSUM_LENGTH) !== checksum(question, last))
    throw engineErrors.CURSOR_INVALID();
  return last;
}

/** Where the items of a list come from. */
interface Source {
  /** Names the question, so that a cursor fits no other. */
  readonly question: string;
  /** The next candidates after an id, in byte order, at most `limit`: fewer only at the end. */
  candidates(after: string, limit: number): Promise<readonly string[]>;
  /** Those of the candidates that hold, in their order. */
  keep(candidates: readonly string[]): Promise<readonly string[]>;
}

/** Most candidates that are looked at for one page; a page that stops there is short and has a cursor. */
const MAX_CANDIDATES = 20_000;
/** No more of them are looked at after this time: those of a large question take long each. */
const PAGE_MS = 2_000;
/** Small pages look at this many candidates at once, so that sparse lists need few round trips. */
const MIN_CANDIDATES = 100;
/** While a list stays sparse, twice as many each time, up to this: most of the work is the same for one and for many. */
const MAX_AT_ONCE = 3_200;

/** Reads one page. Every item of the list is on exactly one page, whatever is written in between. */
export async function readPage(
  source: Source,
  { limit, cursor }: PageOptions,
): Promise<Page<string>> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > limits.page) {
    throw invalid('limit', 'range', `must be a whole number from 1 to ${limits.page}`);
  }
  const items: string[] = [];
  let after = readCursor(source.question, cursor);
  const end = performance.now() + PAGE_MS;
  let size = Math.max(limit + 1, MIN_CANDIDATES);
  for (let seen = 0; seen < MAX_CANDIDATES && performance.now() < end; ) {
    const candidates = await source.candidates(after, size);
    items.push(...(await source.keep(candidates)));
    if (items.length > limit)
      return {
        items: items.slice(0, limit),
        cursor: writeCursor(source.question, items[limit - 1] ?? ''),
      };
    if (candidates.length < size) return { items };
    after = candidates.at(-1) ?? after;
    seen += candidates.length;
    size = Math.max(size, Math.min(size * 2, MAX_AT_ONCE));
  }
  return { items, cursor: writeCursor(source.question, after) };
}

/** Whether something was left out because a value was missing. */
export interface Doubt {
  found: boolean;
}

export function noteDoubt(doubt: Doubt, bounds: readonly CandidateBounds[]): void {
  if (bounds.some(isOpen)) doubt.found = true;
}
