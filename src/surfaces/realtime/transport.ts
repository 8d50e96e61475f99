/** What is below Socket.IO: the plain HTTP side of the realtime port. How packets are written is in `packet-writes.ts`. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { errors } from '../../kernel/errors.ts';
import {
  answerClientError,
  hasPendingAnswers,
  refuseTunnel,
  renderError,
} from '../http/error-answers.ts';
import { requestIdOf, securityHeaders } from '../http/headers.ts';
import { guardUpgraded, listenError, type SocketMount } from '../http/server.ts';

/** Milliseconds in which headers, and the whole request, must have arrived. */
const headersTimeout = 15_000;
const requestTimeout = 60_000;

/** A server that answers everything that is no socket with 404 as JSON. */
export function createPlainServer(sockets: SocketMount): Server {
  const owns = ({ url = '/' }: IncomingMessage): boolean => sockets.owns(url);
  const shouldUpgradeCallback = (request: IncomingMessage): boolean =>
    owns(request) && !hasPendingAnswers(request.socket);
  const options = { headersTimeout, requestTimeout, shouldUpgradeCallback };
  const server = createServer(options, (request, response) => {
    if (owns(request)) sockets.request(request, response);
    else answerNotFound(request, response);
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    guardUpgraded(socket);
    sockets.upgrade(request, socket, head);
  });
  server.on('clientError', (error, socket) => answerClientError(error, socket as Socket));
  server.on('connect', (_request, socket) => refuseTunnel(socket as Socket));
  return server;
}

const answerNotFound: RequestListener = (request, response) => {
  const requestId = requestIdOf(request.headers);
  const error = errors.NOT_FOUND({
    message: 'This port speaks Socket.IO at /realtime; the API is on the ports of the surfaces',
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

interface ListenPlace {
  readonly port: number;
  readonly host: string;
  /** Other workers listen there too. */
  readonly shared: boolean;
  readonly portVariable: string;
}

/** Listens and answers the address. Throws `StartError` when the port cannot be used. */
export async function listenOn(
  server: Server,
  { portVariable, ...place }: ListenPlace,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ ...place, ...(place.shared && { reusePort: true }) }, resolve);
  try {
    await promise;
  } catch (error) {
    throw listenError(error, { ...place, portVariable });
  }
  server.off('error', reject);
  const address = server.address() as AddressInfo;
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}
