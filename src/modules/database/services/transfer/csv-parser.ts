/** The parser of CSV, fed piece by piece: what is wrong costs its own line, and nothing that stands in front of it or behind. */
import type { Problem } from '../../../../kernel/errors.ts';
import type { Cell } from './csv-cells.ts';
import {
  type Delimiter,
  delimiters,
  MAX_ROW_BYTES,
  NotUtf8Error,
  notRead,
  notUtf8,
  textOf,
} from './rows.ts';

/** A line that was read, or why it was not. Of a row over several lines, the last. */
export type ParsedRow =
  | { readonly line: number; readonly cells: readonly Cell[] }
  | { readonly line: number; readonly cells?: undefined; readonly problem: Problem };

/** Where CSV ends, a last row says why. */
export async function* parseCsv(
  chunks: AsyncIterable<Buffer>,
  delimiter: Delimiter,
): AsyncGenerator<ParsedRow> {
  const parser = new CsvParser(delimiters[delimiter]);
  try {
    for await (const text of textOf(chunks)) {
      yield* parser.feed(text);
      if (parser.ended) return;
    }
    yield* parser.end();
  } catch (error) {
    if (!(error instanceof NotUtf8Error)) throw error;
    yield { line: parser.line, problem: notUtf8 };
  }
}

/**
 * Where the parser stands: in front of a cell, in one without quotes, in one with quotes, behind a quote in
 * such a one (it ends the cell, or is the first of two), or in a line that is given up.
 */
type State = 'start' | 'plain' | 'quoted' | 'quote' | 'lost';

const messages = {
  opening:
    'a quote stands in the middle of a cell: quote the whole cell and double the quotes inside',
  closing: 'something stands behind a closing quote: double the quotes inside of a cell',
  open: `a quote is opened and never closed${notRead}`,
  long: `is longer than ${MAX_ROW_BYTES} bytes: is a quote not closed?${notRead}`,
} as const;

const invalid = (line: number, kind: keyof typeof messages): ParsedRow => ({
  line,
  problem: { path: '', rule: 'csv', message: messages[kind] },
});

const QUOTE = '"';

class CsvParser {
  /** The line that is being read, from 1. */
  line = 1;
  /** Nothing more can be read. */
  ended = false;
  readonly #delimiter: string;
  #state: State = 'start';
  #cells: Cell[] = [];
  #text = '';
  /** Characters of the row so far, but for the piece that is being read. */
  #size = 0;
  /** Where the quoted cell began that is being read. */
  #openedAt = 1;
  /** The last character was a CR that ended a line: a LF behind it belongs to it. */
  #afterReturn = false;
  #first = true;

  constructor(delimiter: string) {
    this.#delimiter = delimiter;
  }

  *feed(piece: string): Generator<ParsedRow> {
    let at = this.#first && piece.startsWith('\ufeff') ? 1 : 0;
    if (piece !== '') this.#first = false;
    while (at < piece.length) {
      const from = at;
      at = this.#endOfRun(piece, at);
      if (this.#state !== 'lost') this.#text += piece.slice(from, at);
      if (at > from) this.#afterReturn = false;
      this.#size += at - from + 1;
      if (this.#size > MAX_ROW_BYTES) {
        this.ended = true;
        yield invalid(this.line, 'long');
        return;
      }
      const char = piece[at];
      if (char === undefined) return;
      at++;
      const row = this.#take(char);
      if (row) yield row;
    }
  }

  *end(): Generator<ParsedRow> {
    if (this.#state === 'quoted') yield invalid(this.#openedAt, 'open');
    else {
      const row = this.#endOfRow();
      if (row) yield row;
    }
  }

  /** How far the text goes on in which no character means anything. */
  #endOfRun(piece: string, from: number): number {
    let at = from;
    switch (this.#state) {
      case 'quoted':
        while (at < piece.length && piece[at] !== QUOTE && !isBreak(piece[at])) at++;
        return at;
      case 'plain':
        while (
          at < piece.length &&
          piece[at] !== this.#delimiter &&
          piece[at] !== QUOTE &&
          !isBreak(piece[at])
        )
          at++;
        return at;
      case 'lost':
        while (at < piece.length && !isBreak(piece[at])) at++;
        return at;
      default:
        return at;
    }
  }

  #take(char: string): ParsedRow | undefined {
    const isSecondOfBreak = this.#afterReturn && char === '\n';
    this.#afterReturn = char === '\r';
    if (isSecondOfBreak) {
      if (this.#state === 'quoted') this.#text += char;
      return undefined;
    }
    if (this.#state === 'quoted') return this.#takeQuoted(char);
    if (isBreak(char)) {
      const row = this.#endOfRow();
      this.line++;
      return row;
    }
    switch (this.#state) {
      case 'start':
        return this.#takeFirst(char);
      case 'quote':
        return this.#takeBehindQuote(char);
      case 'plain':
        if (char === this.#delimiter) this.#endOfCell();
        else return this.#giveUp('opening');
    }
    return undefined;
  }

  #takeFirst(char: string): undefined {
    if (char === this.#delimiter) this.#endOfCell();
    else if (char === QUOTE) {
      this.#state = 'quoted';
      this.#openedAt = this.line;
    } else {
      this.#state = 'plain';
      this.#text = char;
    }
  }

  #takeQuoted(char: string): undefined {
    if (char === QUOTE) this.#state = 'quote';
    else {
      this.#text += char;
      this.line++;
    }
  }

  #takeBehindQuote(char: string): ParsedRow | undefined {
    if (char === this.#delimiter) this.#endOfCell();
    else if (char === QUOTE) {
      this.#text += char;
      this.#state = 'quoted';
    } else return this.#giveUp('closing');
    return undefined;
  }

  #endOfCell(): void {
    this.#cells.push(this.#state === 'start' ? null : this.#text);
    this.#text = '';
    this.#state = 'start';
  }

  /** Nothing for an empty line, and for one that was given up. */
  #endOfRow(): ParsedRow | undefined {
    const isNone = this.#state === 'lost' || (this.#state === 'start' && this.#cells.length === 0);
    if (!isNone) this.#endOfCell();
    const cells = this.#cells;
    this.#cells = [];
    this.#text = '';
    this.#size = 0;
    this.#state = 'start';
    return isNone ? undefined : { line: this.line, cells };
  }

  #giveUp(kind: 'opening' | 'closing'): ParsedRow {
    this.#cells = [];
    this.#state = 'lost';
    return invalid(this.line, kind);
  }
}

const isBreak = (char: string | undefined): boolean => char === '\n' || char === '\r';
