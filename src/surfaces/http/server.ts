/** The HTTP server under a surface: Fastify with one route, limits of the protocol, listening and stopping. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, Server, type Socket } from 'node:net';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import fastify, { type FastifyInstance } from 'fastify';
import { StartError } from '../../kernel/start-error.ts';
import { answerClientError } from './client-error.ts';

export type RequestHandler = (request: IncomingMessage, response: ServerResponse, url: string) => void;

export interface HttpServer {
  /** Answers the address that is listened on, such as `http://127.0.0.1:3000`. Throws `StartError`. */
  listen(place: ListenPlace): Promise<string>;
  /** Refuses new connections; those that are open go on, idle ones too. */
  closePort(): Promise<void>;
  /** Stops accepting, lets running requests finish, and cuts what is left when the time is over. */
  close(how: CloseHow): Promise<void>;
}

export interface ListenPlace {
  readonly port: number;
  readonly host: string;
  readonly portVariable: string;
  /** Other workers listen on the same port. */
  readonly shared?: boolean;
}

export interface CloseHow {
  /** Clients with kept connections get a moment to hear, with an answer, that theirs ends. */
  readonly gentle: boolean;
  /** What is left then is cut. */
  readonly cutWhen: Promise<unknown>;
}

/** Bytes of the request line and all headers: room for a token that is absurdly long, so that it gets its 401. */
const MAX_HEADER_BYTES = 96 * 1_024;
/** Milliseconds in which headers, and the whole request, must have arrived. */
const HEADERS_TIMEOUT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 120_000;
/** Milliseconds an idle connection is kept; longer than the usual 60 s of proxies in front. */
const KEEP_ALIVE_MS = 72_000;

/** Fastify 5 looks up routes and reads bodies; here the gateway does both (docs/decisions/002). */
export function createHttpServer(handle: RequestHandler): HttpServer {
  const app = fastify({
    logger: false,
    // Every request goes to the one route; the gateway sees the address as it came.
    rewriteUrl: () => '/',
    genReqId: () => '',
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => answerClientError(error, socket as Socket),
    http: { maxHeaderSize: MAX_HEADER_BYTES, headersTimeout: HEADERS_TIMEOUT_MS, requireHostHeader: false },
  });
  for (const method of methodsWithBody) app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  const route = (request: { raw: IncomingMessage; originalUrl: string }, reply: { raw: ServerResponse }): void =>
    handle(request.raw, reply.raw, request.originalUrl);
  app.all('/', route);
  // Methods that Fastify does not know by name arrive here.
  app.setNotFoundHandler(route);
  const { server } = app;
  // The body is asked for when the caller has been admitted, not before.
  server.on('checkContinue', (request, response) => server.emit('request', request, response));
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  return { listen: (place) => listen(app, place), closePort: () => closePort(app), close: (how) => close(app, how) };
}

const methodsWithBody = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'] as const;

async function listen(app: FastifyInstance, place: ListenPlace): Promise<string> {
  const { port, host, shared } = place;
  try {
    await app.listen({ port, host, ...(shared ? { reusePort: true } : {}) });
  } catch (error) {
    throw listenError(error, place);
  }
  const address = app.server.address() as AddressInfo;
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

export function listenError(error: unknown, { port, host, portVariable }: ListenPlace): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new StartError(`Port ${port} on ${host} is in use: stop the program that uses it, or set ${portVariable} to another port`, {
        cause: error,
      });
    case 'EACCES':
      return new StartError(`Port ${port} needs more rights than this process has: set ${portVariable} to a port above 1023`, {
        cause: error,
      });
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new StartError(`This machine has no address ${host}: set HOST to one of its addresses, for example 127.0.0.1 or 0.0.0.0`, {
        cause: error,
      });
    case 'ENOTSUP':
      return new StartError('This system cannot share a port between processes: set WORKERS to 1', { cause: error });
    default:
      return error;
  }
}

/** Milliseconds between looks at connections whose last request has been answered since closing began. */
const IDLE_CHECK_MS = 25;

/** Milliseconds in which a client that is not idle will have sent its next request, and heard that it was the last. */
const LAST_REQUEST_MS = 300;

async function closePort({ server }: FastifyInstance): Promise<void> {
  // Right after a turn in which the loop accepted what waited: the system resets what still waits at the port.
  await immediate();
  // Not `close` of an HTTP server, which also ends idle connections, on which a request may be on its way.
  if (server.listening) Server.prototype.close.call(server);
}

async function close(app: FastifyInstance, { gentle, cutWhen }: CloseHow): Promise<void> {
  const { server } = app;
  void cutWhen.then(() => server.closeAllConnections());
  let idle: NodeJS.Timeout | undefined;
  try {
    if (gentle && (await connectionsOf(server)) > 0) await sleep(LAST_REQUEST_MS);
    idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
    await app.close();
    await allClosed(server);
  } finally {
    clearInterval(idle);
  }
}

/** Until the last connection has ended: closing a server whose port is closed already does not wait for them. */
async function allClosed(server: Server): Promise<void> {
  while ((await connectionsOf(server)) > 0) await sleep(IDLE_CHECK_MS);
}

const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve) => server.getConnections((error, count) => resolve(error ? 0 : count)));
