/** Requests that the HTTP parser refuses never become requests; they still get a JSON answer. */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { securityHeaders } from './headers.ts';

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
 * reader of its body watches it instead, and the connection is closed after it.
 */
export function allowLongRequest(socket: Socket): void {
  long.add(socket);
}

/** Milliseconds in which the client may read its answer and stop sending, before the connection is cut. */
const LINGER_MS = 1_000;

/** Answers on the bare socket and closes it. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && long.has(socket)) return;
  // Cutting at once would reset the connection, and the client would not see why.
  if (answered.has(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable || hasPendingAnswer(socket)) {
    socket.destroy();
    return;
  }
  answered.add(socket);
  socket.end(rawAnswer(refusals.get(error.code ?? '') ?? malformed));
  socket.once('end', () => socket.destroy());
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** An earlier request of the connection still waits for its answer: ours would be taken for that one. Node keeps it here. */
const hasPendingAnswer = (socket: Socket & { _httpMessage?: unknown }): boolean => Boolean(socket._httpMessage);

function rawAnswer({ status, reason, name, code, message }: Refusal): string {
  const body = JSON.stringify({ name, status, message, code, conduitCode: code, requestId: randomUUID() });
  const lines = [`HTTP/1.1 ${status} ${reason}`];
  for (let i = 0; i < securityHeaders.length; i += 2) lines.push(`${securityHeaders[i]}: ${securityHeaders[i + 1]}`);
  lines.push('content-type: application/json; charset=utf-8', `content-length: ${Buffer.byteLength(body)}`, 'connection: close');
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
