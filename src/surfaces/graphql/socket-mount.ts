/** Lets WebSockets in at the path of GraphQL. What they are served by is loaded with the first of them. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Kernel } from '../../host/kernel.ts';
import { addressKey } from '../../kernel/caller.ts';
import { createAddressOf } from '../http/client-address.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import type { HttpMount } from '../http/server.ts';
import { createStreamSessions } from '../realtime/live-stream.ts';
import { originAllowed } from '../realtime/session.ts';
import { maxMessageBytes } from '../realtime/socket-server.ts';
import { createSocketAudience } from './socket-audience.ts';
import type { GraphqlSocketServer, SocketServerParts } from './socket-server.ts';

type MountParts = Omit<SocketServerParts, 'onDelivered' | 'audience' | 'sessions' | 'ofUsers'> & {
  readonly kernel: Pick<Kernel, 'events' | 'sockets' | 'settings' | 'metrics'>;
  readonly client: SurfaceOptionsSource;
};

export interface GraphqlSockets {
  readonly mount: HttpMount;
  /** Closes all connections; their clients connect again elsewhere. */
  close(): void;
}

const PATH = '/graphql';
const PROTOCOL = 'graphql-transport-ws';
/** Connections of one process. */
const MAX_CONNECTIONS = 20_000;
const SERVICE_RESTART = 1012;
/** Milliseconds between looks at all connections: who does not answer is gone. */
const HEARTBEAT_MS = 25_000;

export function mountGraphqlSockets(given: MountParts): GraphqlSockets {
  const { kernel } = given;
  const deliveries = kernel.metrics.counter(
    'graphql_deliveries_total',
    'Messages of subscriptions that were told',
  );
  const audience = createSocketAudience();
  const sessions = createStreamSessions(kernel);
  const detach = kernel.sockets.attach(audience);
  const open = new Set<WebSocket>();
  kernel.metrics.gauge('graphql_sockets', 'Connections of GraphQL subscriptions', () => open.size);
  const ws = createAcceptor();
  let loading: Promise<GraphqlSocketServer> | undefined;
  const server = (): Promise<GraphqlSocketServer> => {
    const parts = { ...given, audience, sessions, ofUsers: new Map<string, number>() };
    loading ??= import('./socket-server.ts').then(({ createGraphqlSocketServer }) =>
      createGraphqlSocketServer({ ...parts, onDelivered: () => deliveries.inc() }),
    );
    return loading;
  };
  const heartbeat = watchLife(open);
  const refusalOf = createRefusals(given);
  const addressOf = createAddressOf(kernel.settings.trustedProxies);
  const upgrade = async (request: IncomingMessage, stream: Duplex, head: Buffer): Promise<void> => {
    const address = addressOf(request);
    const refused = open.size < MAX_CONNECTIONS ? await refusalOf(request, address) : 429;
    if (refused !== undefined) return refuse(stream, refused);
    const { open: serve } = await server();
    ws.handleUpgrade(request, stream, head, (socket) => {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
      // A frame that is too large or malformed: the library closes the connection with a code.
      socket.on('error', () => undefined);
      serve(socket, { request, address, id: randomUUID() });
    });
  };
  return {
    mount: {
      owns: isPath,
      upgrade(request, stream, head) {
        upgrade(request, stream, head).catch((error: unknown) => {
          given.log.error({ err: error }, 'A GraphQL connection could not be opened');
          refuse(stream, 500);
        });
      },
    },
    close() {
      clearInterval(heartbeat);
      detach();
      for (const socket of open) {
        socket.close(SERVICE_RESTART, 'The platform stops: connect again');
        setTimeout(() => socket.terminate(), 500).unref();
      }
    },
  };
}

type Refusal = 403 | 404 | 429;

/** Why a connection is not opened, before anybody says who it is. */
const createRefusals =
  ({ graphql, client, kernel, budgets }: MountParts) =>
  async (request: IncomingMessage, address: string): Promise<Refusal | undefined> => {
    if (!graphql.options.current().enabled) return 404;
    if (!originAllowed(request, client.current().cors)) return 403;
    const { allowed } = await kernel.limits.consume(budgets().handshake, addressKey(address));
    return allowed ? undefined : 429;
  };

const createAcceptor = () =>
  new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
    handleProtocols: (protocols) => (protocols.has(PROTOCOL) ? PROTOCOL : false),
  });

const isPath = (url: string): boolean => url === PATH || url.startsWith(`${PATH}?`);

/** Pings of the transport: a connection that has not answered since the last one is cut. */
function watchLife(open: ReadonlySet<WebSocket>): NodeJS.Timeout {
  const asked = new WeakSet<WebSocket>();
  const heartbeat = setInterval(() => {
    for (const socket of open) {
      if (asked.has(socket)) socket.terminate();
      else {
        asked.add(socket);
        socket.once('pong', () => asked.delete(socket));
        socket.ping();
      }
    }
  }, HEARTBEAT_MS);
  heartbeat.unref();
  return heartbeat;
}

function refuse(stream: Duplex, status: Refusal | 500): void {
  const body = JSON.stringify({ message: STATUS_CODES[status] });
  stream.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
}
