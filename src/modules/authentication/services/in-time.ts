/** Hooks stand between a user and his account while a transaction is open: one that does not answer is a refusal. */
import { errors } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';

/** Milliseconds. */
const deadlineMs = 5_000;

/** What the hook answers or throws; 503 when it takes longer than five seconds. */
export async function inTime<T>(answer: Promise<T>, log: Logger): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    log.error({ deadlineMs }, 'A hook did not answer in time: what it was asked about is refused');
    reject(errors.UNAVAILABLE({ message: 'This took too long: try again in a moment', retryAfter: 5 }));
  }, deadlineMs);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
