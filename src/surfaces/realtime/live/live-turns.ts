/** Whose turn it is to read for those who listen. */

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
