/** Servers of Socket.IO as both surfaces have them: whose pages may connect, how often, and how refusals look. */
import { createServer, type IncomingMessage } from 'node:http';
import { Server, type ServerOptions } from 'socket.io';
import type { Kernel } from '../../host/kernel.ts';
import { addressKey } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { LimitBucket, LimitState } from '../../kernel/limits/limits.ts';
import { createAddressOf } from '../http/client-address.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import type { SocketBudgetsProvider } from './connection.ts';
import { asKnown, describeError } from './errors.ts';
import { gatherPackets } from './packet-writes.ts';
import { boundedParser } from './packets.ts';
import { originAllowed } from './session.ts';

export const maxMessageBytes = 1_000_000;
/** Milliseconds in which a client must have joined a namespace. */
const joinTimeoutMs = 10_000;

interface SocketServerOptions {
  /** Cross-origin rules: those of the surface. */
  readonly source: SurfaceOptionsSource;
  readonly budgets: SocketBudgetsProvider;
  /** For who connects to no namespace. */
  readonly hint: string;
  /** All of the library unless set. */
  readonly transports?: ServerOptions['transports'];
  readonly maxBytes?: number;
  /** Nobody gets in while it answers no. */
  readonly isOpen?: () => boolean;
}

/** Pages of other origins are refused before they are anybody, and so is who opens too many transports. */
export function createSocketServer(
  take: TakeOfAddress,
  { source, budgets, hint, transports, maxBytes, isOpen = () => true }: SocketServerOptions,
): Server {
  const cors = () => source.current().cors;
  // It listens nowhere itself: several ports lead to it.
  const io = new Server(createServer(), {
    path: '/realtime',
    serveClient: false,
    maxHttpBufferSize: maxBytes ?? maxMessageBytes,
    connectTimeout: joinTimeoutMs,
    parser: boundedParser,
    ...(transports && { transports }),
    cors: (request, callback) =>
      callback(
        null,
        corsHeaders(originAllowed(request as never, cors()), cors().origins.includes('*')),
      ),
    allowRequest: (request, callback) => {
      if (!isOpen() || !originAllowed(request, cors())) callback(null, false);
      else
        take(budgets().handshake, request)
          .then(
            ({ allowed }) => allowed,
            () => false,
          )
          .then((allowed) => callback('Too many connections: try again shortly', allowed));
    },
  });
  gatherPackets(io);
  io.use((_socket, next) => next(refusal(errors.NOT_FOUND({ message: hint }))));
  return io;
}

const corsHeaders = (allowed: boolean, anybody: boolean) => ({
  origin: allowed ? (anybody ? '*' : true) : false,
  credentials: !anybody,
});

/** An error for a middleware of Socket.IO: the client gets its `data` with `connect_error`. */
export const refusal = (error: unknown, words = asKnown(error).message): Error =>
  Object.assign(new Error(words), { data: describeError(error) });

export type TakeOfAddress = (
  bucket: LimitBucket,
  request: IncomingMessage,
) => Promise<LimitState & { readonly address: string }>;

/** Budgets of the address that a request comes from. */
export function createAddressBudgets({
  settings,
  limits,
}: Pick<Kernel, 'settings' | 'limits'>): TakeOfAddress {
  const addressOf = createAddressOf(settings.trustedProxies);
  return async (bucket, request) => {
    const address = addressOf(request);
    return { ...(await limits.consume(bucket, addressKey(address))), address };
  };
}
