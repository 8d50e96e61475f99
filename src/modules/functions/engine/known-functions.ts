/** What is known of functions by their runs: those that cost much or had to be ended, and those whose runs end by themselves. */

/** How long a function counts as one that costs much. */
export const COSTLY_FOR_MS = 60_000;
/** Costly functions that are remembered. */
const MAX_COSTLY = 1_000;
/** Milliseconds of processor time of a run that was taken for a costly one because many ran beside it. */
const LITTLE_MS = 20;
/** Functions that are remembered because a run of theirs has ended by itself. */
const MAX_PROVEN = 10_000;

/**
 * What is known of a function. `unknown`: no run of it has ended by itself. `costly`: a run has cost much lately.
 * `offender`: a run had to be ended lately.
 */
export type Standing = 'trusted' | 'unknown' | 'costly' | 'offender';

interface Costly {
  /** On the clock of `performance.now()`. */
  readonly until: number;
  /** Runs that did not end by themselves. */
  readonly offences: number;
}

export class KnownFunctions {
  readonly #costly = new Map<string, Costly>();
  readonly #proven = new Set<string>();

  standing(key: string): Standing {
    const costly = this.#costly.get(key);
    if (costly !== undefined && costly.until > performance.now())
      return costly.offences > 0 ? 'offender' : 'costly';
    if (costly !== undefined) this.#costly.delete(key);
    return this.#proven.has(key) ? 'trusted' : 'unknown';
  }

  /** How often runs of it had to be ended lately. */
  offences(key: string): number {
    return this.#costly.get(key)?.offences ?? 0;
  }

  /** It has cost much; `offences`: more runs of it had to be ended. */
  costs(key: string, offences = 0): void {
    const before = this.offences(key);
    const until = performance.now() + COSTLY_FOR_MS;
    this.#costly.set(key, { until, offences: before + offences });
    forgetFirst(this.#costly, MAX_COSTLY);
  }

  isProven(key: string): boolean {
    return this.#proven.has(key);
  }

  /** Runs of it end by themselves, however much they cost. */
  isGood(key: string): boolean {
    return this.isProven(key) && this.standing(key) !== 'offender';
  }

  /** A run of it has ended by itself. What needed little counts as costly no more, unless it had to be ended before. */
  proved(key: string, cpuMs: number): void {
    if (cpuMs < LITTLE_MS && this.#costly.get(key)?.offences === 0) this.#costly.delete(key);
    if (this.#proven.has(key)) return;
    this.#proven.add(key);
    forgetFirst(this.#proven, MAX_PROVEN);
  }

  /** Its code has changed: what its runs were like says nothing more. */
  forgetProof(key: string): void {
    this.#proven.delete(key);
  }
}

function forgetFirst(known: Map<string, unknown> | Set<string>, most: number): void {
  if (known.size > most) known.delete(known.keys().next().value ?? '');
}
