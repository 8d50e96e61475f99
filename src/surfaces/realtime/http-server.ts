/** The plain HTTP side of the realtime port: it listens, and knows nothing but sockets. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { errors } from '../../kernel/errors.ts';
import { answerClientError, renderError } from '../http/error-answers.ts';
import { requestIdOf, securityHeaders } from '../http/headers.ts';
import { listenError, type SocketMount } from '../http/server.ts';

/** Milliseconds in which headers, and the whole request, must have arrived. */
const headersTimeout = 15_000;
const requestTimeout = 60_000;

/** A server that answers everything that is no socket with 404 as JSON. */
export function createPlainServer(sockets: SocketMount): Server {
  const server = createServer({ headersTimeout, requestTimeout }, (request, response) => {
    if (sockets.owns(request.url ?? '/')) sockets.request(request, response);
    else answerNotFound(request, response);
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (sockets.owns(request.url ?? '/')) sockets.upgrade(request, socket, head);
    else socket.destroy();
  });
  server.on('clientError', (error, socket) => answerClientError(error, socket as Socket));
  return server;
}

const answerNotFound: RequestListener = (request, response) => {
  const requestId = requestIdOf(request.headers);
  const error = errors.NOT_FOUND({
    message: 'This port speaks Socket.IO at /realtime; the API is on the client surface',
  });
  const { status, body } = renderError(error, 'client', requestId);
  response.writeHead(status, [
    ...securityHeaders,
    'content-type',
    'application/json; charset=utf-8',
    'x-request-id',
    requestId,
  ]);
  response.end(body);
};

/** Listens and answers the address. Throws `StartError` when the port cannot be used. */
export async function listenOn(
  server: Server,
  place: { port: number; host: string; shared: boolean },
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ ...place, ...(place.shared && { reusePort: true }) }, resolve);
  try {
    await promise;
  } catch (error) {
    throw listenError(error, { ...place, portVariable: 'CLIENT_SOCKET_PORT' });
  }
  server.off('error', reject);
  const address = server.address() as AddressInfo;
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}
