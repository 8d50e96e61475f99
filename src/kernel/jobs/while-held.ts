/** What a job has taken for itself (messages, a slice of a task), so that others leave it alone for as long as it works. */
import type { Logger } from '../telemetry/logger.ts';

/**
 * What was taken is lost when nobody spoke of it for so long: longer than the ending of a mail is kept that the database
 * does not take, shorter than the queue waits for a job (queues.ts, docs/decisions/456). Milliseconds.
 */
export const lostAfterMs = 45_000;
const renewEveryMs = 10_000;

/** Works, and says meanwhile that somebody does: `renew`. That it was not heard ends nothing. */
export async function whileHeld<T>(
  { renew, log }: { readonly renew: () => Promise<unknown>; readonly log: Pick<Logger, 'warn'> },
  work: () => Promise<T>,
): Promise<T> {
  const timer = setInterval(() => {
    renew().catch((error: unknown) =>
      log.warn({ err: error }, 'That something is worked on could not be noted'),
    );
  }, renewEveryMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
