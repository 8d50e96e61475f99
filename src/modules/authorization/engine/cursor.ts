/** Cursors of lists: the last item of a page, bound to the question by a checksum so that it cannot be used for another. */
import { createHash } from 'node:crypto';
import { engineErrors } from './errors.ts';

const CHECKSUM_LENGTH = 12;

const checksum = (question: string, last: string): string =>
  createHash('sha256').update(`${question}\n${last}`).digest('base64url').slice(0, CHECKSUM_LENGTH);

export const writeCursor = (question: string, last: string): string =>
  Buffer.from(`${checksum(question, last)}${last}`).toString('base64url');

/** The item after which a page begins; empty for the first page. Throws `CURSOR_INVALID`. */
export function readCursor(question: string, cursor: string | undefined): string {
  if (cursor === undefined) return '';
  const text = Buffer.from(cursor, 'base64url').toString();
  const last = text.slice(CHECKSUM_LENGTH);
  if (text.slice(0, CHECKSUM_LENGTH) !== checksum(question, last)) throw engineErrors.CURSOR_INVALID();
  return last;
}
