/** How much of the memory of a node live questions may take (docs/decisions/512). */
import { realtimeErrors } from '../errors.ts';

/** Questions of one node. */
const MAX_QUERIES = 20_000;
/** Records that the lists of a node know, and those of them that one caller was the first to ask for. One takes some 650 bytes. */
const MAX_RECORDS = 1_000_000;
const MAX_RECORDS_OF_ONE = 250_000;
/** Bytes of all messages that are kept for those who come back. */
const MAX_REMEMBERED = 128 * 1_024 * 1_024;

/** What a question takes. */
export interface Sized {
  readonly asker: string;
  /** Records that it knows, or may come to know with its first reading. */
  readonly records: number;
}

/** Throws QUERY_LIMIT_EXCEEDED where this caller may begin no further question. */
export function requireRoom(
  queries: Iterable<Sized>,
  asker: string,
  { records: most, ofOne }: { readonly records: number; readonly ofOne: number } = {
    records: MAX_RECORDS,
    ofOne: MAX_RECORDS_OF_ONE,
  },
): void {
  let [count, all, own] = [0, 0, 0];
  for (const query of queries) {
    count += 1;
    all += query.records;
    if (query.asker === asker) own += query.records;
  }
  if (count >= MAX_QUERIES || all >= most || own >= ofOne)
    throw realtimeErrors.QUERY_LIMIT_EXCEEDED();
}

/** Messages that all questions of a node keep together. */
export class Remembered {
  readonly #max: number;
  #bytes = 0;

  constructor(max = MAX_REMEMBERED) {
    this.#max = max;
  }

  get isFull(): boolean {
    return this.#bytes > this.#max;
  }

  /** So many bytes more, or fewer. */
  add(bytes: number): void {
    this.#bytes += bytes;
  }
}
