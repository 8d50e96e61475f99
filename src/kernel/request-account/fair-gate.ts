/**
 * Large pieces of work on the event loop (parsing a body of megabytes, checking a thousand records) take turns: one
 * of them in each round of the loop, so that small requests pass between them however many large ones come at once.
 */
const waiting: (() => void)[] = [];

/** Resolves when it is this piece's turn: in a later round of the event loop, alone. */
export function loopTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(next);
  });
}

function next(): void {
  waiting[0]?.();
  waiting.shift();
  if (waiting.length > 0) setImmediate(next);
}

/** Bytes (or characters) of JSON from which on a piece of work is large: a few milliseconds of parsing. */
export const LARGE_BYTES = 131_072;

/** Items that are worked on in one turn. */
const PIECE = 100;

/** `items.map(work)`, a hundred at a time and other work between them. */
export async function inPieces<T, R>(
  items: readonly T[],
  work: (item: T, index: number) => R,
): Promise<R[]> {
  const done: R[] = [];
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % PIECE === 0) await loopTurn();
    done.push(work(item, index));
  }
  return done;
}

/**
 * A bounded number of places, shared fairly: each key has a bound of its own, those who wait are let in
 * key by key, and nobody waits for ever. Who finds a place at once gets it without a promise.
 */
export interface GateLimits {
  /** Places. */
  readonly width: number;
  /** Places that one key may have. */
  readonly perKey: number;
  /** Milliseconds after which somebody who waits is refused. */
  readonly maxWaitMs: number;
  /** Callers that may wait, of one key and of all. */
  readonly maxWaiting: { readonly ofKey: number; readonly ofAll: number };
  /** Bytes that those who wait may hold, of one key and of all. */
  readonly maxBytes: { readonly ofKey: number; readonly ofAll: number };
}

/** `own`: because of what the same key has running or waiting; `all`: because of everybody. */
export type GateRefusal = 'own' | 'all';

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

interface Line {
  readonly key: string;
  readonly waiting: Waiter[];
  running: number;
  bytes: number;
  /** It stands among those that can be let in. */
  ready: boolean;
}

/** Lines that stay when nobody is in them; about 150 bytes each. */
const KEPT_LINES = 1_000;

export interface GateCounts {
  readonly running: number;
  readonly waiting: number;
}

export class FairGate {
  readonly #limits: () => GateLimits;
  readonly #refused: (why: GateRefusal) => Error;
  readonly #lines = new Map<string, Line>();
  /** Keys with somebody waiting and a place left for them, in turn. */
  readonly #ready: Line[] = [];
  #running = 0;
  #waiting = 0;
  #bytes = 0;

  constructor(limits: () => GateLimits, refused: (why: GateRefusal) => Error) {
    this.#limits = limits;
    this.#refused = refused;
  }

  /** Takes a place; answers a promise when it has to wait for one. `bytes`: what it holds meanwhile. Throws or rejects with the refusal. */
  enter(key: string, bytes = 0): Promise<void> | undefined {
    const limits = this.#limits();
    const line = this.#lineOf(key);
    if (this.#running < limits.width && line.running < limits.perKey && line.waiting.length === 0) {
      line.running += 1;
      this.#running += 1;
      return undefined;
    }
    const refusal = this.#overfull(line, bytes, limits);
    if (refusal === undefined) return this.#wait(line, bytes, limits);
    this.#forgetIdle(line);
    throw this.#refused(refusal);
  }

  /** Gives the place back. */
  leave(key: string): void {
    const line = this.#lines.get(key);
    if (!line) return;
    line.running -= 1;
    this.#running -= 1;
    this.#offer(line);
    this.#forgetIdle(line);
    this.#letIn();
  }

  counts(): GateCounts {
    return { running: this.#running, waiting: this.#waiting };
  }

  #lineOf(key: string): Line {
    const known = this.#lines.get(key);
    if (known) return known;
    const line: Line = { key, waiting: [], running: 0, bytes: 0, ready: false };
    this.#lines.set(key, line);
    return line;
  }

  #overfull(
    line: Line,
    bytes: number,
    { maxWaiting, maxBytes }: GateLimits,
  ): GateRefusal | undefined {
    if (line.waiting.length >= maxWaiting.ofKey || line.bytes + bytes > maxBytes.ofKey)
      return 'own';
    return this.#waiting >= maxWaiting.ofAll || this.#bytes + bytes > maxBytes.ofAll
      ? 'all'
      : undefined;
  }

  #wait(line: Line, bytes: number, { maxWaitMs, perKey }: GateLimits): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#count(line, -1, -bytes);
      };
      const waiter: Waiter = {
        bytes,
        admit() {
          end();
          resolve();
        },
      };
      const giveUp = (): void => {
        line.waiting.splice(line.waiting.indexOf(waiter), 1);
        end();
        reject(this.#refused(line.running >= perKey ? 'own' : 'all'));
        this.#forgetIdle(line);
      };
      const timer = setTimeout(giveUp, maxWaitMs);
      line.waiting.push(waiter);
      this.#count(line, 1, bytes);
      this.#offer(line);
    });
  }

  #count(line: Line, waiting: number, bytes: number): void {
    this.#waiting += waiting;
    this.#bytes += bytes;
    line.bytes += bytes;
  }

  #offer(line: Line): void {
    if (line.ready || line.waiting.length === 0 || line.running >= this.#limits().perKey) return;
    line.ready = true;
    this.#ready.push(line);
  }

  #letIn(): void {
    const { width } = this.#limits();
    while (this.#running < width) {
      const line = this.#ready.shift();
      if (!line) return;
      line.ready = false;
      const next = line.waiting.shift();
      if (!next) {
        this.#forgetIdle(line);
        continue;
      }
      line.running += 1;
      this.#running += 1;
      next.admit();
      this.#offer(line);
    }
  }

  /** Mostly the same keys come again: a few are kept, as adding and removing them costs as much as all else here. */
  #forgetIdle(line: Line): void {
    const isIdle = line.running === 0 && line.waiting.length === 0 && !line.ready;
    if (isIdle && this.#lines.size > KEPT_LINES) this.#lines.delete(line.key);
  }
}
