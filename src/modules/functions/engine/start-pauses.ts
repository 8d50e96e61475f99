/**
 * Pauses between two starts of processes for functions that cost much: these may end them as fast as they begin, and a
 * start takes 0.2 s of a processor. Who ends its process again and again waits longer each time.
 */
import { COSTLY_FOR_MS } from './known-functions.ts';

/** Between two starts, twice as long each time, up to so long. */
const PAUSE_MS = 3_000;
const MAX_PAUSE_MS = 24_000;

export class StartPauses {
  #next = Number.NEGATIVE_INFINITY;
  #pauseMs = PAUSE_MS;

  /** Milliseconds until the next start; zero or less when it may be now. */
  get leftMs(): number {
    return this.#next - performance.now();
  }

  /** One starts now. What was more than a minute ago is forgotten. */
  started(): void {
    const now = performance.now();
    const isAgain = now - this.#next < COSTLY_FOR_MS;
    this.#pauseMs = isAgain ? Math.min(MAX_PAUSE_MS, this.#pauseMs * 2) : PAUSE_MS;
    this.#next = now + this.#pauseMs;
  }
}
