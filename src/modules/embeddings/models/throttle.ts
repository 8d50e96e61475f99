/** How fast a provider may be called, and whether it is worth trying: after failures it gets time to recover. */
import { setTimeout as delay } from 'node:timers/promises';
import { ModelError } from '../model.ts';

export interface Throttle {
  /** Waits for its turn. Throws `ModelError` while the provider gets time to recover, or when the turn is too far away. */
  enter(): Promise<void>;
  worked(): void;
  failed(error: ModelError): void;
  /** Milliseconds of `Date.now()`. */
  pausedUntil(): number;
}

/** Failures in a row after which nobody tries for a while. */
const FAILURES = 3;
const PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
const LONGEST_WAIT_MS = 30_000;

/** `perMinute` 0: as fast as one likes. */
export function createThrottle(perMinute: () => number): Throttle {
  let failures = 0;
  let pausedUntil = 0;
  let nextTurn = 0;

  const turn = (now: number): number => {
    const rate = perMinute();
    if (rate === 0) return now;
    const at = Math.max(now, nextTurn);
    if (at - now > LONGEST_WAIT_MS)
      throw new ModelError('throttled', 'Too many calls wait for the provider', 30);
    nextTurn = at + 60_000 / rate;
    return at;
  };

  return {
    async enter() {
      const now = Date.now();
      if (now < pausedUntil) {
        const seconds = Math.ceil((pausedUntil - now) / 1000);
        throw new ModelError('unavailable', 'The provider has failed and gets time', seconds);
      }
      const at = turn(now);
      if (at > now) await delay(at - now);
    },
    worked() {
      failures = 0;
      pausedUntil = 0;
    },
    failed({ failure, retryAfter }) {
      failures++;
      const grown = Math.min(PAUSE_MS * 2 ** Math.max(0, failures - FAILURES), LONGEST_PAUSE_MS);
      if (retryAfter !== undefined && failure !== 'budget')
        pausedUntil = Date.now() + retryAfter * 1000;
      else if (failures >= FAILURES) pausedUntil = Date.now() + grown;
    },
    pausedUntil: () => pausedUntil,
  };
}
