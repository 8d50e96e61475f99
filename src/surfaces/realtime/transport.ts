/** What is below Socket.IO: the plain HTTP side of the realtime port, and how packets are written to the network. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Server as SocketServer } from 'socket.io';
import { errors } from '../../kernel/errors.ts';
import {
  answerClientError,
  owesAnswers,
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
    owns(request) && !owesAnswers(request.socket);
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

/** What of a session of the transport is used; it is not part of the types of the library. */
interface TransportSession {
  flush(): void;
  readonly transport: {
    /** Of a WebSocket, not of a polling client. */
    readonly socket?: { readonly _sender?: FrameSender | null };
  };
}

/** Writes the frames of a WebSocket. */
interface FrameSender {
  _socket: FrameSink;
}

/** What it writes to; the parts of a frame come one by one. */
interface FrameSink extends Pick<Socket, 'cork' | 'uncork'> {
  write(chunk: Buffer | string, written?: Written): unknown;
}

type Written = (error?: Error | null) => void;

/** Bytes of one turn beyond which frames are not copied together: what is large is shared by all sockets it goes to. */
const COPIED_BYTES = 32_768;

/**
 * What a session is sent in one turn of the loop goes to the network together, for all that are opened from now on. The
 * transport writes each packet by itself: in a room where many write at once that is most of what a delivery costs. So a
 * flush waits for the end of the turn, and the packets that wait by then are one write.
 */
export function gatherPackets({ engine }: Pick<SocketServer, 'engine'>): void {
  let waiting = new Map<TransportSession, () => void>();
  const flushAll = (): void => {
    const sessions = waiting;
    waiting = new Map();
    for (const [session, flush] of sessions) asOneWrite(session, flush);
  };
  engine.on('connection', (session: TransportSession) => {
    const flush = session.flush.bind(session);
    session.flush = () => {
      if (waiting.size === 0) setImmediate(flushAll);
      waiting.set(session, flush);
    };
  });
}

/** Frames and their headers as one piece of memory: a stream spends more on each piece than on its bytes. */
function asOneWrite({ transport }: TransportSession, flush: () => void): void {
  const sender = transport.socket?._sender;
  if (!sender) {
    flush();
    return;
  }
  const stream = sender._socket;
  const chunks: (Buffer | string)[] = [];
  const waiting: Written[] = [];
  let bytes = 0;
  sender._socket = {
    cork: () => undefined,
    uncork: () => undefined,
    write(chunk, written) {
      chunks.push(chunk);
      bytes += typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.length;
      if (written) waiting.push(written);
    },
  };
  try {
    flush();
  } finally {
    sender._socket = stream;
    const written: Written = (error) => {
      for (const one of waiting) one(error);
    };
    if (bytes > COPIED_BYTES) writeAll(stream, chunks, written);
    else if (chunks.length > 0) stream.write(joined(chunks, bytes), written);
  }
}

function writeAll(stream: FrameSink, chunks: readonly (Buffer | string)[], written: Written): void {
  stream.cork();
  for (const [at, chunk] of chunks.entries())
    stream.write(chunk, at === chunks.length - 1 ? written : undefined);
  stream.uncork();
}

function joined(chunks: readonly (Buffer | string)[], bytes: number): Buffer {
  const whole = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const chunk of chunks)
    at += typeof chunk === 'string' ? whole.write(chunk, at) : chunk.copy(whole, at);
  return whole;
}
