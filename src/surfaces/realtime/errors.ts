/** Errors of the realtime surface, and how errors look on a socket. */
import { defineErrors, errors, PenstockError } from '../../kernel/errors.ts';

export const realtimeErrors = defineErrors({
  EVENT_UNKNOWN: [404, 'This namespace does not know this event'],
  SUBSCRIPTION_LIMIT_EXCEEDED: [
    409,
    'This socket has the maximum number of subscriptions: unsubscribe from some first',
  ],
  QUERY_LIMIT_EXCEEDED: [503, 'Too many different live queries are open: try again shortly'],
  SUBSCRIPTION_NOT_FOUND: [404, 'There is no subscription of this name'],
  FILTER_NOT_ALLOWED: [403, 'The schema does not let clients filter'],
  USER_MISMATCH: [403, 'The new token belongs to another user: connect again instead'],
  SOCKET_CAPTCHA_REQUIRED: [403, 'captchaToken: solve the captcha first and send its token'],
  SOCKET_CAPTCHA_FAILED: [403, 'captchaToken: the captcha was not accepted: solve another one'],
  CONSUMER_TOO_SLOW: [
    503,
    'This socket does not read its messages fast enough: connect again and resume with since',
  ],
});

/** The error object of acknowledgements, of `connect_error` (in `data`) and of the event `conduit_error`. */
export interface SocketError {
  readonly name: string;
  readonly status: number;
  readonly message: string;
  readonly code: string;
  readonly errors?: PenstockError['errors'];
  /** Seconds. */
  readonly retryAfter?: number;
}

/** Anything that is not a `PenstockError` is an error of ours and shows nothing. */
export function describeError(error: unknown): SocketError {
  const { name, status, message, code, errors: problems, retryAfter } = asKnown(error);
  return {
    name,
    status,
    message,
    code,
    ...(problems !== undefined && { errors: problems }),
    ...(retryAfter !== undefined && { retryAfter }),
  };
}

export const asKnown = (error: unknown): PenstockError =>
  error instanceof PenstockError ? error : errors.INTERNAL_SERVER_ERROR();

/** `resetMs`: milliseconds until the budget is whole again. */
export const tooMany = (resetMs: number): PenstockError =>
  errors.RATE_LIMIT({ retryAfter: Math.max(1, Math.ceil(resetMs / 1000)) });
