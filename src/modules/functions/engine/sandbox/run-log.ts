/** The lines that one run logs, up to a bound. */
import type { LogLine } from '../protocol.ts';

/** Each costs the platform as much as some dozens of characters, however short it is. */
const MAX_LINES = 5_000;
/** Milliseconds after which lines are told, where the run goes on so long. */
const TELL_MS = 50;

export class RunLog {
  readonly #startedAt = performance.now();
  readonly #mostBytes: number;
  readonly #tell: (lines: readonly LogLine[]) => void;
  readonly #lines: LogLine[] = [];
  #bytes = 0;
  #told = 0;
  /** Lines that are not of the code. */
  #noted = 0;
  #telling: NodeJS.Timeout | undefined;

  /** `tell`: hears lines while the run goes on. */
  constructor(mostBytes: number, tell: (lines: readonly LogLine[]) => void) {
    this.#mostBytes = mostBytes;
    this.#tell = tell;
  }

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  get isFull(): boolean {
    return this.#bytes >= this.#mostBytes || this.#lines.length >= MAX_LINES;
  }

  /** Somebody has heard of a line. */
  get isTold(): boolean {
    return this.#told > 0;
  }

  add(level: LogLine['level'], text: string): void {
    this.#bytes += Buffer.byteLength(text) + 1;
    const at = Math.round(performance.now() - this.#startedAt);
    this.#lines.push({ level, text, at });
    this.#telling ??= setTimeout(() => this.#tellNew(), TELL_MS);
  }

  /** A line that the code has not written. */
  note(level: LogLine['level'], text: string): void {
    this.#noted += 1;
    this.add(level, text);
  }

  /** Not all of so many lines of the code are here yet. */
  lacks(lines: number): boolean {
    return lines + this.#noted > this.#lines.length && !this.isFull;
  }

  #tellNew(): void {
    this.#telling = undefined;
    const lines = this.#lines.slice(this.#told);
    this.#told = this.#lines.length;
    this.#tell(lines);
  }

  /** Nothing more is told. */
  close(): void {
    clearTimeout(this.#telling);
    this.#telling = undefined;
  }

  /** The run begins again: it has logged nothing. */
  forget(): void {
    this.close();
    this.#lines.length = 0;
    this.#bytes = 0;
    this.#noted = 0;
  }
}
