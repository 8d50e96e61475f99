/** The HTTP server under a surface: Fastify with one route, limits of the protocol, listening and stopping. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { StartError } from '../../kernel/start-error.ts';
import { answerClientError } from './client-error.ts';

export type RequestHandler = (request: IncomingMessage, response: ServerResponse, url: string) => void;

export interface HttpServer {
  /** Answers the address that is listened on, such as `http://127.0.0.1:3000`. Throws `StartError`. */
  listen(port: number, host: string, portVariable: string): Promise<string>;
  /** Stops accepting, lets running requests finish for at most `graceMs`, then cuts what is left. */
  close(graceMs: number): Promise<void>;
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
  return { listen: (port, host, portVariable) => listen(app, port, host, portVariable), close: (graceMs) => close(app, graceMs) };
}

const methodsWithBody = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'] as const;

async function listen(app: FastifyInstance, port: number, host: string, portVariable: string): Promise<string> {
  try {
    await app.listen({ port, host });
  } catch (error) {
    throw listenError(error, { port, host, portVariable });
  }
  const address = app.server.address() as AddressInfo;
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

export function listenError(error: unknown, { port, host, portVariable }: { port: number; host: string; portVariable: string }): unknown {
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
    default:
      return error;
  }
}

/** Milliseconds between looks at connections whose last request has been answered since closing began. */
const IDLE_CHECK_MS = 25;

async function close(app: FastifyInstance, graceMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), graceMs);
  const idle = setInterval(() => app.server.closeIdleConnections(), IDLE_CHECK_MS);
  try {
    await app.close();
  } finally {
    clearTimeout(cut);
    clearInterval(idle);
  }
}
