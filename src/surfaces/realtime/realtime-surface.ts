/**
 * The realtime surface: Socket.IO on a port of its own. Every node follows the
 * events by itself, so sockets of all nodes hear the same without an adapter.
 */
import type { IncomingMessage } from 'node:http';
import { type Namespace, Server, type Socket } from 'socket.io';
import type { Kernel } from '../../host/kernel.ts';
import { addressKey } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { PublishedEvent } from '../../kernel/events/events.ts';
import type { LimitBucket, LimitState } from '../../kernel/limits/limits.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import {
  createAccounts,
  createCallGates,
  defaultRequestSettings,
} from '../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import { createAddressOf } from '../http/client-address.ts';
import {
  defaultSurfaceOptions,
  fixedSurfaceOptions,
  type SurfaceOptionsSource,
} from '../http/options.ts';
import { createChangeHub, createLostRelations } from './changes.ts';
import { type Connection, type ConnectionParts, createConnection } from './connection.ts';
import { asKnown, describeError, tooMany } from './errors.ts';
import { createPlainServer, listenOn } from './http-server.ts';
import { createLiveEngine, type LiveEngine } from './live/live-engine.ts';
import { createSocketChannels, type SocketChannels } from './live/socket-watches.ts';
import { createModuleServer, type FindServed, type ServedSocket } from './module-server.ts';
import { platformProtocol } from './protocol.ts';
import { openSession, originAllowed, presented, type Session } from './session.ts';

export type RealtimeKernel = Pick<
  Kernel,
  | 'settings'
  | 'log'
  | 'metrics'
  | 'bus'
  | 'events'
  | 'signals'
  | 'sockets'
  | 'limits'
  | 'identity'
  | 'schemas'
  | 'records'
  | 'operations'
>;

export interface RealtimeOptions {
  /** Those of the HTTP surfaces, so that a user's messages and requests share one bound. */
  readonly pipeline?: Pick<Pipeline, 'accounts' | 'gates'> | undefined;
  /** What is listened to; shared with event streams and GraphQL. */
  readonly engine?: LiveEngine | undefined;
  /** Cross-origin rules; those of the client surface. */
  readonly client?: SurfaceOptionsSource;
}

export interface RealtimeSurface {
  /** Such as `http://127.0.0.1:3001`. */
  readonly address: string;
  /** Disconnects everybody (clients connect again elsewhere and resume) and frees the port. */
  close(): Promise<void>;
}

/** Each under both spellings: existing clients use the one with the slash. In `/communications/` users hear of their inbox. */
const namespaces = ['/database/', '/database', '/communications/', '/communications'];
const maxMessageBytes = 1_000_000;
/** Milliseconds in which a client must have joined a namespace. */
const joinTimeoutMs = 10_000;
/** Milliseconds between looks at all sessions, for what no event told. */
const sweepEveryMs = 30_000;
/** Milliseconds after an event about a user to look a second time: caches of this node may have been a moment behind. */
const secondLookMs = 1_000;
/** New sockets of one address. */
const connectBudget: LimitBucket = { name: 'realtime.connect', requests: 200, seconds: 10 };
/** New transports of one address: each takes memory before anybody says who it is. */
const handshakeBudget: LimitBucket = { ...connectBudget, name: 'realtime.handshake' };

/** Listens on CLIENT_SOCKET_PORT; `undefined` when that is negative. Throws `StartError` when the port cannot be used. */
export async function startRealtimeSurface(
  kernel: RealtimeKernel,
  options: RealtimeOptions = {},
): Promise<RealtimeSurface | undefined> {
  const { settings } = kernel;
  if (settings.clientSocketPort < 0) return undefined;
  const cors = () =>
    (options.client ?? fixedSurfaceOptions(defaultSurfaceOptions('client'))).current().cors;
  const http = createPlainServer();
  const take = createAddressBudgets(kernel);
  const io = new Server(http, {
    path: '/realtime',
    serveClient: false,
    maxHttpBufferSize: maxMessageBytes,
    connectTimeout: joinTimeoutMs,
    cors: (request, callback) =>
      callback(
        null,
        corsHeaders(originAllowed(request as never, cors()), cors().origins.includes('*')),
      ),
    allowRequest: (request, callback) => {
      if (!originAllowed(request, cors())) callback(null, false);
      else
        void take(handshakeBudget, request).then(({ allowed }) =>
          callback('Too many connections: try again shortly', allowed),
        );
    },
  });
  io.use((_socket, next) =>
    next(
      refusal(
        errors.NOT_FOUND({ message: 'Connect to the namespace /database/ or /communications/' }),
      ),
    ),
  );

  const requests = options.pipeline ?? usualBounds();
  const engine = options.engine ?? createLiveEngine(kernel, requests.accounts);
  const connections: Connections = createConnections(kernel, {
    ...requests,
    engine,
    channels: createSocketChannels(io, {
      namespaces,
      onDelivered: (count) => connections.delivered(count),
    }),
  });
  const serving = { kernel, connections, take, requests };
  for (const name of namespaces) serve(io.of(name), serving);
  const detach = kernel.sockets.attach(
    createModuleServer(io, {
      accept: (nsp, find) => serve(nsp, serving, find),
      onDelivered: connections.delivered,
    }),
  );
  const sweep = setInterval(connections.recheckAll, sweepEveryMs);
  sweep.unref();

  const address = await listenOn(http, { port: settings.clientSocketPort, host: settings.host });
  return {
    address,
    async close() {
      clearInterval(sweep);
      detach();
      await io.close();
      connections.close();
      if (!options.engine) engine.stop();
    },
  };
}

type RequestBounds = Pick<Pipeline, 'accounts' | 'gates'>;

const usualBounds = (): RequestBounds => ({
  accounts: createAccounts(() => defaultRequestSettings),
  gates: createCallGates(() => defaultRequestSettings),
});

const corsHeaders = (allowed: boolean, anybody: boolean) => ({
  origin: allowed ? (anybody ? '*' : true) : false,
  credentials: !anybody,
});

/** An error for a middleware of Socket.IO: the client gets its `data` with `connect_error`. */
const refusal = (error: unknown): Error =>
  Object.assign(new Error(asKnown(error).message), { data: describeError(error) });

type TakeOfAddress = (
  bucket: LimitBucket,
  request: IncomingMessage,
) => Promise<LimitState & { readonly address: string }>;

/** Budgets of the address that a request comes from. */
function createAddressBudgets({ settings, limits }: RealtimeKernel): TakeOfAddress {
  const addressOf = createAddressOf(settings.trustedProxies);
  return async (bucket, request) => {
    const address = addressOf(request);
    return { ...(await limits.consume(bucket, addressKey(address))), address };
  };
}

interface Serving {
  readonly kernel: RealtimeKernel;
  readonly connections: Connections;
  readonly take: TakeOfAddress;
  readonly requests: RequestBounds;
}

interface Admitted {
  readonly session: Session;
  readonly served?: ServedSocket | undefined;
}

/** `find`: prepares a socket of a namespace that a module declared. */
function serve(
  namespace: Namespace,
  { kernel, connections, take, requests }: Serving,
  find?: FindServed,
): void {
  const admitted = new WeakMap<Socket, Admitted>();
  const admit = async (socket: Socket): Promise<void> => {
    const { allowed, resetMs, address } = await take(connectBudget, socket.request);
    if (!allowed) throw tooMany(resetMs);
    await kernel.bus.freshness.catchUp();
    const account = requests.accounts.openFor('client', address);
    await onAccount(account, async () => {
      const session = await openSession(kernel.identity, presented(socket, address));
      admitted.set(socket, { session, served: await find?.(socket, session) });
    });
    account.close();
  };
  namespace.use((socket, next) => {
    admit(socket).then(
      () => next(),
      (error: unknown) => {
        if (asKnown(error).status === 500)
          kernel.log.error({ err: error }, 'A socket could not be admitted');
        next(refusal(error));
      },
    );
  });
  namespace.on('connection', (socket) => {
    const { session, served } = admitted.get(socket) ?? {};
    if (session) connections.open(socket, session, served);
    else socket.disconnect(true);
  });
}

interface Connections {
  open(socket: Socket, session: Session, served: ServedSocket | undefined): void;
  /** So many messages went to sockets. */
  delivered(count: number): void;
  recheckAll(): void;
  close(): void;
}

/** Looks again whether sessions of users still hold. */
function createRechecks(byUser: ReadonlyMap<string, ReadonlySet<Connection>>) {
  const seconds = new Set<NodeJS.Timeout>();
  const recheck = (userId: string): void => {
    for (const connection of byUser.get(userId) ?? []) void connection.recheck();
  };
  return {
    recheck,
    /** An event about a user may be the end of their sessions: whatever it was, look again. */
    recheckSubjects({ ids = [] }: PublishedEvent): void {
      for (const id of ids) {
        if (!byUser.has(id)) continue;
        recheck(id);
        const timer = setTimeout(() => {
          seconds.delete(timer);
          recheck(id);
        }, secondLookMs);
        seconds.add(timer);
      }
    },
    stop(): void {
      for (const timer of seconds) clearTimeout(timer);
    },
  };
}

/** Hands what users are told at once to their sockets. Answers how to stop. */
const passSignals = (
  { signals }: Pick<RealtimeKernel, 'signals'>,
  byUser: ReadonlyMap<string, ReadonlySet<Connection>>,
): (() => void) =>
  signals.subscribe(({ namespace, userIds, event, data }) => {
    for (const userId of userIds)
      for (const connection of byUser.get(userId) ?? [])
        if (connection.isIn(namespace)) void connection.tell(event, data);
  });

interface ConnectionsParts extends RequestBounds {
  readonly engine: LiveEngine;
  readonly channels: SocketChannels;
}

/** All sockets of this node. Follows the events only while there is one. */
function createConnections(
  kernel: RealtimeKernel,
  { accounts, gates, engine, channels }: ConnectionsParts,
): Connections {
  const { events, limits, metrics } = kernel;
  const log = kernel.log.child({ surface: 'realtime' });
  const hub = createChangeHub(events);
  const lost = createLostRelations(events);
  kernel.schemas.onChange((changed) => hub.recheck(changed));
  const byUser = new Map<string, Set<Connection>>();
  const deliveries = metrics.counter('realtime_deliveries_total', 'Messages sent to sockets');
  const onDelivered = (): void => deliveries.inc();
  const { catchUp } = kernel.bus.freshness;
  const live = { engine, channels, ofUsers: new Map<string, number>() };
  const watched = { events, hub, lost, onDelivered, ...live };
  const shared = { kernel, limits, accounts, gates, log, catchUp, ...watched };
  let count = 0;
  let unfollow: (() => void) | undefined;
  metrics.gauge('realtime_sockets', 'Connected sockets', () => count);
  metrics.gauge('realtime_subscriptions', 'What sockets of this node are subscribed to', () =>
    hub.count(),
  );
  const unhear = passSignals(kernel, byUser);
  const { recheck, recheckSubjects, stop } = createRechecks(byUser);
  const follow = (): (() => void) =>
    events.subscribe('*', (event) => {
      recheckSubjects(event);
      return hub.deliver(event);
    });

  const forget = (connection: Connection): void => {
    connection.dispose();
    const connections = byUser.get(connection.userId);
    connections?.delete(connection);
    if (connections?.size === 0) byUser.delete(connection.userId);
    count -= 1;
    if (count > 0) return;
    unfollow?.();
    unfollow = undefined;
  };

  return {
    delivered: (count) => deliveries.inc({}, count),
    open(socket, session, served) {
      unfollow ??= follow();
      count += 1;
      const protocol: ConnectionParts['protocol'] = (end) =>
        served?.protocol ?? platformProtocol({ ...shared, socket, session }, end);
      const connection = createConnection({ ...shared, socket, session, protocol });
      byUser.set(session.userId, (byUser.get(session.userId) ?? new Set()).add(connection));
      socket.on('disconnect', () => forget(connection));
      served?.connected();
      // The session may have ended between the handshake and now, when nobody was listening for it.
      void connection.recheck();
    },
    recheckAll() {
      for (const userId of byUser.keys()) recheck(userId);
    },
    close() {
      unhear();
      stop();
      unfollow?.();
    },
  };
}
