/** Errors on the wire: short on the client surface, with detail for operators. Never a stack, never SQL. */

import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { errors, PenstockError } from '../../kernel/errors.ts';
import type { Operation, SurfaceName } from '../../kernel/operations/operation.ts';
import { messagePage, prefersPage } from '../../kernel/operations/pages.ts';
import { securityHeaders } from './headers.ts';

interface RenderedError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly json: boolean;
}

/** Anything that is not a `PenstockError` is an error of ours and shows nothing but the request's id. */
export function renderError(
  error: unknown,
  surface: SurfaceName,
  requestId: string,
): RenderedError {
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
  return {
    status: known.status,
    headers: headersOf(known),
    body: JSON.stringify(body),
    json: true,
  };
}

/** The same for people: a page, where a browser follows a link of a mail to an operation that answers pages. */
export function renderErrorFor(
  asked: { readonly accept: string | undefined; readonly operation: Operation | undefined },
  error: unknown,
  surface: SurfaceName,
  requestId: string,
): RenderedError {
  const rendered = renderError(error, surface, requestId);
  const isPage = asked.operation && answersPages(asked.operation) && prefersPage(asked.accept);
  if (!isPage) return rendered;
  const { message } = error instanceof PenstockError ? error : errors.INTERNAL_SERVER_ERROR();
  const { headers, text = '' } = messagePage('This did not work', message);
  return { ...rendered, headers: { ...headers, ...rendered.headers }, body: text, json: false };
}

const answersPages = ({ path, output }: Operation): boolean =>
  path.startsWith('/hook/') && Reflect.get(output, 'contentMediaType') === 'text/html';

function headersOf(error: PenstockError): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(error.headers ?? {}))
    headers[name.toLowerCase()] = value;
  if (error.retryAfter !== undefined)
    headers['retry-after'] = String(Math.max(1, Math.ceil(error.retryAfter)));
  return headers;
}

/* Requests that the HTTP parser refuses never become requests; they still get a JSON answer. */

interface Refusal {
  readonly status: number;
  readonly reason: string;
  readonly name: string;
  readonly code: string;
  readonly message: string;
}

const malformed: Refusal = {
  status: 400,
  reason: 'Bad Request',
  name: 'INVALID_ARGUMENTS',
  code: 'MALFORMED_REQUEST',
  message: 'This is not a valid HTTP request',
};

const noTunnels: Refusal = {
  status: 405,
  reason: 'Method Not Allowed',
  name: 'METHOD_NOT_ALLOWED',
  code: 'METHOD_NOT_ALLOWED',
  message: 'This is no proxy: nothing can be reached through it',
};

const refusals: ReadonlyMap<string, Refusal> = new Map([
  [
    'HPE_HEADER_OVERFLOW',
    {
      status: 431,
      reason: 'Request Header Fields Too Large',
      name: 'INVALID_ARGUMENTS',
      code: 'HEADERS_TOO_LARGE',
      message: 'The address and headers are too large',
    },
  ],
  [
    'ERR_HTTP_REQUEST_TIMEOUT',
    {
      status: 408,
      reason: 'Request Timeout',
      name: 'TIMEOUT',
      code: 'REQUEST_TIMEOUT',
      message: 'The request was not complete in time',
    },
  ],
]);

/** Sockets that have their answer; what else arrives on them is thrown away. */
const answered = new WeakSet<Socket>();

/** Sockets whose request may take longer than others to arrive. */
const long = new WeakSet<Socket>();

/**
 * Takes the present request of a socket out of the time in which whole requests must have arrived. The
 * reader of its body watches it instead.
 */
export function allowLongRequest(socket: Socket): void {
  long.add(socket);
}

/** The request of a socket has arrived whole: the next one has the usual time. */
export function endLongRequest(socket: Socket): void {
  long.delete(socket);
}

/** Milliseconds in which the client may read its answer and stop sending, before the connection is cut. */
const DRAIN_MS = 1_000;

/** Answers on the bare socket, after the answers to earlier requests of it, and closes it. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && long.has(socket)) return;
  // Cutting at once would reset the connection, and the client would not see why.
  if (answered.has(socket)) return;
  if (error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  answered.add(socket);
  refuseAfterAnswers(socket, refusals.get(error.code ?? '') ?? malformed);
}

/** Answers CONNECT, which is no request for Node: without this the connection just ends. */
export function refuseTunnel(socket: Socket): void {
  answered.add(socket);
  refuseAfterAnswers(socket, noTunnels);
}

/**
 * Whether earlier requests of the connection still wait for their answers. Another protocol cannot begin before those are
 * out: its first bytes would pass for the answer to another request, and that answer for its own.
 */
export const hasPendingAnswers = (socket: Socket): boolean => {
  const { _httpMessage: pending }: AnsweringSocket = socket;
  return pending !== undefined && pending !== null;
};

/**
 * A request of the connection that came whole still waits for its answer: ours would be taken for that one, so it goes
 * after it. Node keeps the answer that is next here. While the body of that request is what is broken, and nothing was
 * answered yet, ours is its answer.
 */
function refuseAfterAnswers(socket: AnsweringSocket, refusal: Refusal): void {
  const { _httpMessage: pending } = socket;
  if (pending?.req.complete && socket.writable) {
    pending.once('close', () => refuseAfterAnswers(socket, refusal));
    return;
  }
  if (pending?.headersSent || !socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(rawAnswer(refusal));
  socket.once('end', () => socket.destroy());
  setTimeout(() => socket.destroy(), DRAIN_MS).unref();
}

interface AnsweringSocket extends Socket {
  readonly _httpMessage?: ServerResponse | null;
}

function rawAnswer({ status, reason, name, code, message }: Refusal): string {
  const body = JSON.stringify({
    name,
    status,
    message,
    code,
    conduitCode: code,
    requestId: randomUUID(),
  });
  const lines = [`HTTP/1.1 ${status} ${reason}`];
  for (let i = 0; i < securityHeaders.length; i += 2)
    lines.push(`${securityHeaders[i]}: ${securityHeaders[i + 1]}`);
  lines.push(
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  );
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
