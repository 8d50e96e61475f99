/** Errors on the wire: short on the client surface, with detail for operators. Never a stack, never SQL. */
import { errors, PenstockError } from '../../kernel/errors.ts';
import type { SurfaceName } from '../../kernel/operation.ts';

export interface RenderedError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Anything that is not a `PenstockError` is a fault of ours and shows nothing but the request's id. */
export function renderError(error: unknown, surface: SurfaceName, requestId: string): RenderedError {
  const known = error instanceof PenstockError ? error : errors.INTERNAL_SERVER_ERROR();
  const body = {
    name: known.name,
    status: known.status,
    message: known.message,
    // Clients of the 0.16 line read the credential errors from `error` and codes from `conduitCode`.
    error: known.status === 401 ? known.message : undefined,
    code: known.code,
    conduitCode: known.code,
    requestId,
    errors: known.errors,
    detail: surface === 'admin' ? known.detail : undefined,
  };
  return { status: known.status, headers: headersOf(known), body: JSON.stringify(body) };
}

function headersOf(error: PenstockError): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(error.headers ?? {})) headers[name.toLowerCase()] = value;
  if (error.retryAfter !== undefined) headers['retry-after'] = String(Math.max(1, Math.ceil(error.retryAfter)));
  return headers;
}
