/** The HTTP server under a surface: limits of the protocol, listening and stopping (docs/decisions/053). */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import {
  createServer,
  type Server as HttpListener,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../../kernel/start-error.ts';
import { answerClientError, hasPendingAnswers, refuseTunnel } from './error-answers.ts';

/** Whether the surfaces are about to close: they still serve, and ask every client to come back on another connection. */
export interface Draining {
  readonly active: boolean;
  begin(): void;
  onBegin(listener: () => void): void;
}

export function createDraining(): Draining {
  const listeners: (() => void)[] = [];
  let active = false;
  return {
    get active() {
      return active;
    },
    begin() {
      if (active) return;
      active = true;
      for (const listener of listeners) listener();
    },
    onBegin: (listener) => void listeners.push(listener),
  };
}

type RequestHandler = (request: IncomingMessage, response: ServerResponse, url: string) => void;

/** A protocol of its own at a path: its upgraded connections are its own business, and its requests where it takes them. */
export interface HttpMount {
  owns(url: string): boolean;
  request?(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/** One that takes the requests at its path too. */
export type SocketMount = Required<HttpMount>;

export interface HttpServer {
  /** From now on. */
  mount(mount: HttpMount): void;
  /** Answers the address that is listened on, such as `http://127.0.0.1:3000`. Throws `StartError`. */
  listen(place: ListenPlace): Promise<string>;
  /** Refuses new connections; those that are open go on, idle ones too. */
  closePort(): Promise<void>;
  /** Stops accepting, lets running requests finish, and cuts what is left when the time is over. */
  close(how: CloseHow): Promise<void>;
}

interface ListenPlace {
  readonly port: number;
  readonly host: string;
  readonly portVariable: string;
  /** Other workers listen on the same port. */
  readonly shared?: boolean;
}

interface CloseHow {
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

/** Every request goes to `handle`, which reads the body and finds the operation. */
export function createHttpServer(handle: RequestHandler): HttpServer {
  const mounts: HttpMount[] = [];
  const mountOf = ({ url = '/' }: IncomingMessage): HttpMount | undefined =>
    mounts.find((one) => one.owns(url));
  const server = createServer({
    // Whoever asks for another protocol elsewhere, or before they have their answers, is answered in this one.
    shouldUpgradeCallback: (request) =>
      mountOf(request) !== undefined &&
      request.headers.upgrade?.toLowerCase() === 'websocket' &&
      !hasPendingAnswers(request.socket),
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The gateway asks for one, so that the refusal is JSON like every other.
    requireHostHeader: false,
  });
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const mount = mounts.length > 0 ? mountOf(request) : undefined;
    if (mount?.request) mount.request(request, response);
    else handle(request, response, request.url ?? '/');
  };
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    guardUpgraded(socket);
    mountOf(request)?.upgrade(request, socket, head);
  });
  server.on('request', onRequest);
  // The body is asked for when the caller has been admitted, not before.
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  server.on('clientError', (error, socket) => answerClientError(error, socket as Socket));
  server.on('connect', (_request, socket) => refuseTunnel(socket as Socket));
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  const listeners: Listeners = { server, others: [], open };
  return {
    mount: (mount) => void mounts.push(mount),
    listen: (place) => listen(listeners, place),
    closePort: () => closePort(listeners),
    close: (how) => close(listeners, how),
  };
}

/**
 * The server stops listening to a connection that it hands over. One that is reset while its new owner still asks whether
 * it may come in would be nobody's error, and the end of the process.
 */
export function guardUpgraded(socket: Duplex): void {
  socket.on('error', () => socket.destroy());
}

interface Listeners {
  readonly server: HttpListener;
  /** Listen on further addresses, and give their connections to `server`. */
  readonly others: Server[];
  /** Connections of all of them. */
  readonly open: ReadonlySet<Socket>;
}

async function listen(listeners: Listeners, place: ListenPlace): Promise<string> {
  const { port, host, shared } = place;
  const { server } = listeners;
  const options = shared ? { reusePort: true } : {};
  try {
    server.listen({ port, host, ...options });
    await once(server, 'listening');
  } catch (error) {
    throw listenError(error, place);
  }
  const address = server.address() as AddressInfo;
  if (host === 'localhost') await listenBeside(listeners, address, options);
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

/** `localhost` is every address of that name: clients differ in which family they try. One that is refused is left out. */
async function listenBeside(
  { server, others }: Listeners,
  first: AddressInfo,
  options: { readonly reusePort?: boolean },
): Promise<void> {
  for (const { address } of await lookup('localhost', { all: true })) {
    if (address === first.address) continue;
    const other = new Server((socket) => server.emit('connection', socket));
    try {
      other.listen({ port: first.port, host: address, ...options });
      await once(other, 'listening');
      others.push(other);
    } catch {
      other.removeAllListeners();
    }
  }
}

export function listenError(error: unknown, { port, host, portVariable }: ListenPlace): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new StartError(
        `Port ${port} on ${host} is in use: stop the program that uses it, or set ${portVariable} to another port`,
        {
          cause: error,
        },
      );
    case 'EACCES':
      return new StartError(
        `Port ${port} needs more rights than this process has: set ${portVariable} to a port above 1023`,
        {
          cause: error,
        },
      );
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EAI_AGAIN':
    case 'EINVAL':
    case 'ENOTFOUND':
      return new StartError(
        `This machine has no address ${host}: set HOST to one of its addresses, for example 127.0.0.1 or 0.0.0.0`,
        {
          cause: error,
        },
      );
    case 'ENOTSUP':
      return new StartError('This system cannot share a port between processes: set WORKERS to 1', {
        cause: error,
      });
    default:
      return error;
  }
}

/** Milliseconds between looks at connections whose last request has been answered since closing began. */
const IDLE_CHECK_MS = 25;

/** Milliseconds in which a client that is not idle will have sent its next request, and heard that it was the last. */
const LAST_REQUEST_MS = 300;

async function closePort({ server, others }: Listeners): Promise<void> {
  // Right after a turn in which the loop accepted what waited: the system resets what still waits at the port.
  await immediate();
  // Not `close` of an HTTP server, which also ends idle connections, on which a request may be on its way.
  for (const one of [server, ...others]) if (one.listening) Server.prototype.close.call(one);
}

async function close(listeners: Listeners, { gentle, cutWhen }: CloseHow): Promise<void> {
  const { server, others } = listeners;
  void cutWhen.then(() => server.closeAllConnections());
  let idle: NodeJS.Timeout | undefined;
  try {
    if (gentle && (await connectionsOf(listeners)) > 0) await sleep(LAST_REQUEST_MS);
    idle = setInterval(() => closeIdle(listeners), IDLE_CHECK_MS);
    for (const one of [server, ...others]) one.close();
    while ((await connectionsOf(listeners)) > 0) await sleep(IDLE_CHECK_MS);
  } finally {
    clearInterval(idle);
  }
}

/** The server takes a connection for idle only after its first request: one that never had any ends here. */
function closeIdle({ server, open }: Listeners): void {
  server.closeIdleConnections();
  for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
}

/** Open connections. They are counted, as closing a server whose port is closed already does not wait for them. */
async function connectionsOf({ server, others }: Listeners): Promise<number> {
  const counts = await Promise.all([server, ...others].map(countOf));
  return counts.reduce((sum, count) => sum + count, 0);
}

const countOf = (server: Server): Promise<number> =>
  new Promise((resolve) => server.getConnections((error, count) => resolve(error ? 0 : count)));
