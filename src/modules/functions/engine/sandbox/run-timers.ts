/** The timers of one run. */
import { MAX_CALLS } from './run-words.ts';

export class RunTimers {
  readonly #fire: (timer: number) => void;
  readonly #waiting = new Set<NodeJS.Timeout>();

  constructor(fire: (timer: number) => void) {
    this.#fire = fire;
  }

  /** In so many milliseconds. False for what no code asks for, and where it has too many. */
  set(timer: number, ms: number): boolean {
    if (!Number.isFinite(timer) || !Number.isFinite(ms) || this.#waiting.size > MAX_CALLS)
      return false;
    if (ms === 0) {
      setImmediate(() => this.#fire(timer));
      return true;
    }
    const handle = setTimeout(() => {
      this.#waiting.delete(handle);
      this.#fire(timer);
    }, ms);
    this.#waiting.add(handle);
    return true;
  }

  clear(): void {
    for (const timer of this.#waiting) clearTimeout(timer);
    this.#waiting.clear();
  }
}
