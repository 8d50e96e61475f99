/**
 * Cursors of lists: the values by which the last record of a page stands in the
 * order, sealed by a keyed digest together with the question. So a cursor fits
 * the list that it came from and no other, on every node, and nobody can make
 * one up. It holds nothing that its reader has not been shown.
 */
import type { PenstockError } from '../../errors.ts';
import { invalid } from '../../errors.ts';
import type { SecretBox } from '../../security/secret-box.ts';

/** One value for each term of the order, as text of the database. */
export type CursorValues = readonly (string | null)[];

export interface Cursors {
  /** Throws 400 when the values are too long to travel. */
  write(question: string, values: CursorValues): string;
  /** Throws 400 for a cursor that is not of this question. */
  read(question: string, cursor: string): CursorValues;
}

/** Characters of a cursor: it must fit into an address. */
export const MAX_CURSOR = 8_192;

const MARK_LENGTH = 32;

export function createCursors(secrets: Pick<SecretBox, 'digest'>): Cursors {
  const markOf = (question: string, text: string): string => secrets.digest(`${question}\0${text}`, 'cursor').slice(0, MARK_LENGTH);
  return {
    write(question, values) {
      const text = JSON.stringify(values);
      const cursor = Buffer.from(markOf(question, text) + text).toString('base64url');
      if (cursor.length <= MAX_CURSOR) return cursor;
      throw invalid('sort', 'cursor', 'the values of these fields are too long for a cursor: sort by shorter ones, or page with skip');
    },
    read(question, cursor) {
      const decoded = cursor.length <= MAX_CURSOR ? Buffer.from(cursor, 'base64url').toString() : '';
      const text = decoded.slice(MARK_LENGTH);
      if (decoded.slice(0, MARK_LENGTH) !== markOf(question, text)) throw wrongCursor();
      return JSON.parse(text) as CursorValues;
    },
  };
}

const wrongCursor = (): PenstockError =>
  invalid('cursor', 'cursor', 'is not a cursor of this list: begin with "start", and keep the sort and the filter that it came from');
