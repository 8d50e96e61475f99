/** Pages of candidates in the order of their ids, of which those are kept that hold. */
import { invalid } from '../../../kernel/errors.ts';
import { readCursor, writeCursor } from './cursor.ts';
import type { Page, PageOptions } from './engine.ts';
import { limits } from './limits.ts';

/** Where the items of a list come from. */
export interface Source {
  /** Names the question, so that a cursor fits no other. */
  readonly question: string;
  /** The next candidates after an id, in byte order, at most `limit`: fewer only at the end. */
  candidates(after: string, limit: number): Promise<readonly string[]>;
  /** Those of the candidates that hold, in their order. */
  keep(candidates: readonly string[]): Promise<readonly string[]>;
}

/** Most candidates that are looked at for one page; a page that stops there is short and has a cursor. */
const MOST_CANDIDATES = 20_000;
/** Small pages look at this many candidates at once, so that sparse lists need few round trips. */
const LEAST_CANDIDATES = 100;

/** Reads one page. Every item of the list is on exactly one page, whatever is written in between. */
export async function readPage(source: Source, { limit, cursor }: PageOptions): Promise<Page<string>> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > limits.page) {
    throw invalid('limit', 'range', `must be a whole number from 1 to ${limits.page}`);
  }
  const items: string[] = [];
  let after = readCursor(source.question, cursor);
  for (let seen = 0; seen < MOST_CANDIDATES; ) {
    const wanted = Math.max(limit + 1, LEAST_CANDIDATES);
    const candidates = await source.candidates(after, wanted);
    items.push(...(await source.keep(candidates)));
    if (items.length > limit) return { items: items.slice(0, limit), cursor: writeCursor(source.question, items[limit - 1] ?? '') };
    if (candidates.length < wanted) return { items };
    after = candidates.at(-1) ?? after;
    seen += candidates.length;
  }
  return { items, cursor: writeCursor(source.question, after) };
}
