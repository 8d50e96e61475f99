/**
 * What is known of how functions behave, and so where their next run belongs. It is forgotten with the process of the
 * platform: nothing here takes a right away, it only says what goes behind what.
 */
import type { Outcome } from './protocol.ts';

/**
 * Where a run belongs: `usual` is behind the platform alone; `trial` is for functions that nobody has seen end, while
 * others do harm; `costly` has the processor when nobody else needs it.
 */
export type Lane = 'usual' | 'trial' | 'costly';

/** How long a function counts as one that costs much, after it last did. */
const COSTLY_MS = 60_000;
/** Functions that did harm in so short a time put new ones on trial. */
const ALARM_FUNCTIONS = 3;
const ALARM_MS = 60_000;
/** Functions of which something is known. */
const MOST_KNOWN = 10_000;

const harmful: ReadonlySet<Outcome | 'crashed'> = new Set(['cpu', 'memory', 'crashed']);

export class Standing {
  /** Functions that have answered in a run that was cheap. */
  readonly #proven = new Set<string>();
  readonly #costlyUntil = new Map<string, number>();
  /** Bounds that a function ran into since it was last costly. */
  readonly #strikes = new Map<string, number>();
  /** Functions that cost much and did not come to an end by themselves. */
  readonly #alarming = new Map<string, number>();

  laneOf(id: string): Lane {
    if (this.isCostly(id)) return 'costly';
    return this.#proven.has(id) || !this.#alarmed() ? 'usual' : 'trial';
  }

  isCostly(id: string): boolean {
    const until = this.#costlyUntil.get(id);
    if (until === undefined) return false;
    if (until > performance.now()) return true;
    this.#costlyUntil.delete(id);
    this.#strikes.delete(id);
    return false;
  }

  /** The fewer, the earlier it has its turn among those that cost much. */
  strikesOf(id: string): number {
    return this.#strikes.get(id) ?? 0;
  }

  /** A run has used more of the processor than most do. */
  costsMuch(id: string): void {
    const now = performance.now();
    this.#proven.delete(id);
    remember(this.#costlyUntil, id, now + COSTLY_MS);
    remember(this.#alarming, id, now);
  }

  ended(id: string, outcome: Outcome | 'crashed'): void {
    const isCostly = this.isCostly(id);
    if (harmful.has(outcome) || (outcome === 'timeout' && isCostly)) {
      this.costsMuch(id);
      remember(this.#strikes, id, this.strikesOf(id) + 1);
      return;
    }
    // What throws may have filled the memory before: it proves nothing.
    if (outcome !== 'ok' && outcome !== 'rejected') return;
    this.#alarming.delete(id);
    if (isCostly) return;
    this.#proven.add(id);
    if (this.#proven.size > MOST_KNOWN) this.#proven.delete(first(this.#proven));
  }

  #alarmed(): boolean {
    if (this.#alarming.size < ALARM_FUNCTIONS) return false;
    const before = performance.now() - ALARM_MS;
    for (const [id, at] of this.#alarming) if (at < before) this.#alarming.delete(id);
    return this.#alarming.size >= ALARM_FUNCTIONS;
  }
}

const first = (all: Iterable<string>): string => all[Symbol.iterator]().next().value ?? '';

/** The oldest gives way. */
function remember(all: Map<string, number>, id: string, value: number): void {
  all.delete(id);
  all.set(id, value);
  if (all.size > MOST_KNOWN) all.delete(first(all.keys()));
}
