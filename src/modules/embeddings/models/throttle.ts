/** How fast a provider may be called, and whether it is worth trying: after failures it gets time to recover. */
import { setTimeout as delay } from 'node:timers/promises';
import type { EmbeddingsConfig } from '../config.ts';
import { ModelError } from '../model.ts';

export interface Throttle {
  /**
   * Waits until so many tokens may be sent. Throws `ModelError` while the provider gets time to recover, or when the turn is
   * too far away.
   */
  enter(tokens: number): Promise<void>;
  /** The provider has counted so many tokens more than were thought. */
  worked(tokensMore: number): void;
  failed(error: ModelError): void;
  /** Milliseconds of `performance.now()`. */
  pausedUntil(): number;
}

/** Failures in a row after which nobody tries for a while. */
const FAILURES = 3;
const PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
const LONGEST_WAIT_MS = 30_000;

/** Turns of something of which so much may be used in a minute; 0: as much as one likes. */
function createPace(perMinute: () => number) {
  let free = 0;
  return {
    /** When so much may be used, if it is used from then on. */
    next: (now: number): number => (perMinute() === 0 ? now : Math.max(now, free)),
    use(at: number, amount: number): void {
      const rate = perMinute();
      if (rate > 0) free = Math.max(at, free) + (amount * 60_000) / rate;
    },
  };
}

export function createThrottle(rate: () => EmbeddingsConfig['rate']): Throttle {
  let failures = 0;
  let pausedUntil = 0;
  const calls = createPace(() => rate().requestsPerMinute);
  const spent = createPace(() => rate().tokensPerMinute);

  const turn = (now: number, tokens: number): number => {
    const at = Math.max(calls.next(now), spent.next(now));
    if (at - now > LONGEST_WAIT_MS)
      throw new ModelError('busy', 'Too many calls wait for the provider', 30);
    calls.use(at, 1);
    spent.use(at, tokens);
    return at;
  };

  return {
    async enter(tokens) {
      const now = performance.now();
      if (now < pausedUntil) {
        const seconds = Math.ceil((pausedUntil - now) / 1000);
        throw new ModelError('unavailable', 'The provider has failed and gets time', seconds);
      }
      const at = turn(now, tokens);
      if (at > now) await delay(at - now);
    },
    worked(tokensMore) {
      failures = 0;
      pausedUntil = 0;
      // More than was thought is paid for by those who come next.
      if (tokensMore > 0) spent.use(performance.now(), tokensMore);
    },
    failed({ failure, retryAfter }) {
      failures++;
      const grown = Math.min(PAUSE_MS * 2 ** Math.max(0, failures - FAILURES), LONGEST_PAUSE_MS);
      if (retryAfter !== undefined && failure !== 'budget')
        pausedUntil = performance.now() + retryAfter * 1000;
      else if (failures >= FAILURES) pausedUntil = performance.now() + grown;
    },
    pausedUntil: () => pausedUntil,
  };
}
