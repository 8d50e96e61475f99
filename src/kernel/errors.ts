/**
 * The one error type of the platform, and the helper with which each module
 * declares its catalogue. Every failure that a caller can cause is an entry of
 * a catalogue: a stable code, a status and a sentence that says what to do.
 *
 * Wire form (both surfaces): `{name, status, message, code, requestId}` and,
 * for validation, `errors: [{path, rule, message}]` (design.md section 3).
 */

/** One thing that is wrong with the input: where, which rule, and what to do. */
export interface Problem {
  /** Dotted place in the input without its location, for example `email`, `limit` or `lines.0.price`. */
  readonly path: string;
  /** The rule that was broken, for example `required`, `type`, `format`, `unique`. */
  readonly rule: string;
  readonly message: string;
}

/** What a single throw may add to its catalogue entry. */
export interface ErrorDetails {
  /** Replaces the catalogue sentence. Shown to callers: no secret, no SQL. */
  readonly message?: string;
  readonly errors?: readonly Problem[];
  /** Shown on the admin surface only. */
  readonly detail?: string;
  /** Seconds; becomes the `Retry-After` header. */
  readonly retryAfter?: number;
  /** Further response headers, such as `Allow` or `WWW-Authenticate`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A catalogue entry: call it to make the error, read it to document it. */
export interface ErrorFactory {
  (details?: ErrorDetails): PenstockError;
  readonly code: string;
  readonly status: number;
  readonly message: string;
}

/** A failure with a status and a stable code. Anything else that is thrown becomes a 500. */
export class PenstockError extends Error {
  readonly code: string;
  readonly status: number;
  readonly errors: readonly Problem[] | undefined;
  readonly detail: string | undefined;
  readonly retryAfter: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(code: string, status: number, message: string, details: ErrorDetails = {}) {
    super(
      details.message ?? message,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.name = nameOfStatus(status);
    this.code = code;
    this.status = status;
    this.errors = details.errors;
    this.detail = details.detail;
    this.retryAfter = details.retryAfter;
    this.headers = details.headers;
  }
}

/** Input that does not fit, with the place. */
export const isValidation = (error: unknown): error is PenstockError =>
  error instanceof PenstockError && error.status === 400 && error.errors !== undefined;

const namesByStatus: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENTS',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  408: 'TIMEOUT',
  409: 'CONFLICT',
  412: 'PRECONDITION_FAILED',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  416: 'RANGE_NOT_SATISFIABLE',
  422: 'UNPROCESSABLE_CONTENT',
  429: 'RATE_LIMIT',
  500: 'INTERNAL_SERVER_ERROR',
  502: 'BAD_GATEWAY',
  503: 'UNAVAILABLE',
  504: 'TIMEOUT',
};

/** The `name` of the error body for a status (spec/core.md section 0). */
export const nameOfStatus = (status: number): string => namesByStatus[status] ?? 'ERROR';

/**
 * Declares a module's errors.
 * @example
 * export const errors = defineErrors({ USER_EXISTS: [409, 'A user with this e-mail exists already'] });
 * throw errors.USER_EXISTS();
 */
export function defineErrors<
  const C extends Readonly<Record<string, readonly [status: number, message: string]>>,
>(catalogue: C): { readonly [K in keyof C]: ErrorFactory } {
  const entries = Object.entries(catalogue).map(([code, [status, message]]) => {
    const make = (details?: ErrorDetails) => new PenstockError(code, status, message, details);
    return [
      code,
      Object.defineProperties(make, {
        code: { value: code },
        status: { value: status },
        message: { value: message },
      }),
    ];
  });
  return Object.fromEntries(entries) as { readonly [K in keyof C]: ErrorFactory };
}

/** Errors that every surface and module may answer. */
export const errors = defineErrors({
  INVALID_ARGUMENTS: [400, 'The request is not valid'],
  JSON_MALFORMED: [400, 'The body is not valid JSON'],
  UNAUTHORIZED: [401, 'This needs a valid credential'],
  FORBIDDEN: [403, 'You may not do this'],
  NOT_FOUND: [404, 'There is nothing here'],
  METHOD_NOT_ALLOWED: [405, 'This path does not know this method'],
  REQUEST_TIMEOUT: [408, 'The request was not complete in time'],
  CONFLICT: [409, 'This conflicts with what is stored'],
  IDEMPOTENCY_KEY_REUSED: [409, 'This Idempotency-Key was used with another request'],
  PRECONDITION_FAILED: [412, 'The record was changed in the meantime: read it again'],
  PAYLOAD_TOO_LARGE: [413, 'The body is too large'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'This route takes application/json'],
  RATE_LIMIT: [429, 'Too Many Requests'],
  INTERNAL_SERVER_ERROR: [500, 'Something went wrong on our side; the log has this request id'],
  UNAVAILABLE: [503, 'A part of the platform that this needs is not available now'],
  STORAGE_FULL: [
    503,
    'There is no room left on the disk of the database: an operator must make some',
  ],
  TIMEOUT: [504, 'The request took too long and was cancelled'],
});

/**
 * The same error for a caller who knows its places by other names: each one is moved, and so is the one that the
 * sentence begins with. Anything else comes back as it is.
 */
export function relocated(error: unknown, move: (path: string) => string): unknown {
  if (!(error instanceof PenstockError) || !error.errors) return error;
  const { code, status, message, errors: problems, detail, retryAfter, headers } = error;
  const before = problems[0]?.path ?? '';
  const sentence =
    before !== '' && message.startsWith(before)
      ? move(before) + message.slice(before.length)
      : message;
  return new PenstockError(code, status, sentence, {
    errors: problems.map((problem) => ({ ...problem, path: move(problem.path) })),
    ...(detail !== undefined && { detail }),
    ...(retryAfter !== undefined && { retryAfter }),
    ...(headers && { headers }),
    cause: error,
  });
}

/** A 400 about one place in the input. */
export const invalid = (path: string, rule: string, message: string): PenstockError =>
  errors.INVALID_ARGUMENTS({ message: `${path}: ${message}`, errors: [{ path, rule, message }] });
