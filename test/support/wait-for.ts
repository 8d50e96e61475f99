import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** 30,000 unless set: it is only ever used up where something is wrong, and slow machines are not. */
  readonly timeoutMs?: number;
  /** 20 unless set. */
  readonly everyMs?: number;
  /** Named in the error: what did not happen. */
  readonly what?: string;
}

/**
 * Asks again and again until `probe` answers something truthy, and answers that. A probe that throws
 * counts as "not yet"; its last error is the cause of the time-out.
 */
export async function waitFor<T>(
  probe: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<NonNullable<T>> {
  const { timeoutMs = 30_000, everyMs = 20, what = 'the condition' } = options;
  const deadline = performance.now() + timeoutMs;
  let lastError: unknown;
  do {
    try {
      const answer = await probe();
      if (answer) return answer;
      lastError = undefined;
    } catch (error) {
      lastError = error;
    }
    await sleep(everyMs);
  } while (performance.now() < deadline);
  throw new Error(`Waited ${timeoutMs} ms in vain for ${what}`, { cause: lastError });
}
