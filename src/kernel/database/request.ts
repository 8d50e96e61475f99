/** How long one statement may wait and run: what is left to the request it works for. */
import { currentAccount } from '../account/request-account.ts';
import { errors, type PenstockError } from '../errors.ts';

/** What works for a request waits this many ms for its turn; then the caller is told to come again. */
export const QUEUE_LIMIT_MS = 2_000;
/** The platform's own work (jobs, relays, start) has nobody who would come again. */
const OWN_QUEUE_LIMIT_MS = 15_000;

/** On the clock of `performance.now()`. */
export interface Waiting {
  readonly since: number;
  /** Nothing is sent from here on, and what runs is stopped. */
  readonly deadlineAt: number;
  /** The turn must have come by then. */
  readonly patientUntil: number;
}

export function waitingNow(): Waiting {
  const since = performance.now();
  const account = currentAccount();
  if (!account) return { since, deadlineAt: Number.POSITIVE_INFINITY, patientUntil: since + OWN_QUEUE_LIMIT_MS };
  return { since, deadlineAt: account.deadlineAt, patientUntil: since + QUEUE_LIMIT_MS };
}

/** Whose turn did not come in time. @returns 504 when the request is over, else 503 with `Retry-After`. */
export const waitedTooLong = ({ deadlineAt }: Waiting, now: number): PenstockError =>
  now >= deadlineAt ? outOfTime() : errors.UNAVAILABLE({ message: 'The database is busy: try again', retryAfter: 1 });

export const outOfTime = (cause?: unknown): PenstockError =>
  errors.TIMEOUT({ message: 'The database took too long to answer', ...(cause !== undefined && { cause }) });
