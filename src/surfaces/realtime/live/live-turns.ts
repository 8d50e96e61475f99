/** Whose turn it is to read for those who listen, and how long a question waits for its next one. */
import type { LiveRead } from '../../../kernel/operations/live-read.ts';

interface TurnParts {
  /** Runs work on an account of its own, with what this node remembers up to date. */
  onOwnAccount<T>(work: () => Promise<T>): Promise<T>;
}

/** Readings at the same time. */
const READINGS = 4;

/** One reading after the other, a few at a time: listeners never take the database from those who ask. */
export function createTurns({ onOwnAccount }: TurnParts) {
  const waiting: (() => void)[] = [];
  let running = 0;
  const enter = (): Promise<void> | undefined => {
    if (running < READINGS) {
      running += 1;
      return undefined;
    }
    return new Promise((resolve) => waiting.push(resolve));
  };
  const leave = (): void => {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  };
  return async <T>(work: () => Promise<T>): Promise<T> => {
    await enter();
    try {
      return await onOwnAccount(work);
    } finally {
      leave();
    }
  };
}

/** Milliseconds between two readings: at least this, five times what a reading takes, and of a value more. */
const MIN_PAUSE_MS = 10;
const VALUE_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 2_000;

export function pauseAfter(kind: LiveRead['kind'], tookMs: number): number {
  const min = kind === 'value' ? VALUE_PAUSE_MS : MIN_PAUSE_MS;
  return Math.min(Math.max(min, 5 * tookMs), MAX_PAUSE_MS);
}
