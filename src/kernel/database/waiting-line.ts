/** Those who wait for their turn, in order, each until a time of its own. */

export interface WaitingLineOptions<T> {
  /** When it has waited long enough, on the clock of `performance.now()`. Asked anew at each look. */
  readonly untilOf: (item: T) => number;
  readonly refuse: (item: T, now: number) => void;
}

export interface LineFigures {
  readonly waiting: number;
  /** Of the first in the line, in ms. */
  readonly oldestMs: number;
  readonly waits: number;
  readonly waitedMs: number;
  readonly refused: number;
}

interface Waiter<T> {
  readonly item: T;
  readonly since: number;
}

const SWEEP_MS = 50;
/** Taken items at the head of the list are let go of in one go. */
const COMPACT_AT = 1_024;

export class WaitingLine<T> {
  readonly #options: WaitingLineOptions<T>;
  #items: Waiter<T>[] = [];
  #head = 0;
  #sweep: NodeJS.Timeout | undefined;
  #waits = 0;
  #waitedMs = 0;
  #refused = 0;

  constructor(options: WaitingLineOptions<T>) {
    this.#options = options;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push({ item, since: performance.now() });
    this.#sweep ??= setInterval(() => this.#refuseLate(), SWEEP_MS);
  }

  /** The first whose time is not over. */
  shift(): T | undefined {
    const now = performance.now();
    for (;;) {
      const first = this.#items[this.#head];
      if (!first) return undefined;
      this.#head += 1;
      this.#letGo();
      if (now < this.#options.untilOf(first.item)) {
        this.#waits += 1;
        this.#waitedMs += now - first.since;
        return first.item;
      }
      this.#refuse(first.item, now);
    }
  }

  figures(): LineFigures {
    const first = this.#items[this.#head];
    const oldestMs = first ? performance.now() - first.since : 0;
    return {
      waiting: this.length,
      oldestMs,
      waits: this.#waits,
      waitedMs: this.#waitedMs,
      refused: this.#refused,
    };
  }

  /** Refuses all. */
  close(): void {
    const now = performance.now();
    const items = this.#items.slice(this.#head);
    this.#items.length = 0;
    this.#head = 0;
    this.#rest();
    for (const { item } of items) this.#refuse(item, now);
  }

  /** The sweep ends when there was nobody: a line is often empty for a moment only. */
  #refuseLate(): void {
    if (this.length === 0) this.#rest();
    const now = performance.now();
    const waiting = this.#items.slice(this.#head);
    const late = waiting.filter(({ item }) => now >= this.#options.untilOf(item));
    if (late.length === 0) return;
    this.#items = waiting.filter(({ item }) => now < this.#options.untilOf(item));
    this.#head = 0;
    this.#letGo();
    for (const { item } of late) this.#refuse(item, now);
  }

  #rest(): void {
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  #refuse(item: T, now: number): void {
    this.#refused += 1;
    this.#options.refuse(item, now);
  }

  #letGo(): void {
    if (this.length === 0) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head >= COMPACT_AT) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }
}
