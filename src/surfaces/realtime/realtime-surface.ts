/**
 * The realtime surface: Socket.IO on a port of its own. Every node follows the
 * events by itself, so sockets of all nodes hear the same without an adapter.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Namespace, Server, Socket } from 'socket.io';
import {
  createAccounts,
  createCallGates,
  defaultRequestSettings,
} from '../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import { withoutEnd } from '../../kernel/text.ts';
import {
  defaultSurfaceOptions,
  fixedSurfaceOptions,
  type SurfaceOptionsSource,
} from '../http/options.ts';
import type { SocketMount } from '../http/server.ts';
import { type SocketBudgetsProvider, usualSocketBudgets } from './connection.ts';
import {
  type Connections,
  createConnections,
  type RealtimeKernel,
  type RequestBounds,
} from './connections.ts';
import { asKnown, tooMany } from './errors.ts';
import { createLiveEngine, type LiveEngine } from './live/live-engine.ts';
import { createSocketChannels } from './live/socket-watches.ts';
import { createModuleServer, type ModuleEntry, type ServedSocket } from './module-server.ts';
import {
  admitVisitor,
  openSession,
  presented,
  refusalWords,
  type Session,
  ticketOf,
  type VisitorGate,
} from './session.ts';
import {
  createAddressBudgets,
  createSocketServer,
  refusal,
  type TakeOfAddress,
} from './socket-server.ts';
import { createStopping } from './stopping.ts';
import { isSocketPath, redeemed } from './tickets.ts';
import { createPlainServer, listenOn } from './transport.ts';
import { openWorkerSessions, ownSessions, type WorkerSessions } from './worker-sessions.ts';

export interface RealtimeOptions {
  /** Those of the HTTP surfaces, so that a user's messages and requests share one bound. */
  readonly pipeline?: RequestBounds | undefined;
  /** What is listened to; shared with event streams and GraphQL. */
  readonly engine?: LiveEngine | undefined;
  /** Cross-origin rules; those of the client surface. */
  readonly client?: SurfaceOptionsSource;
  /** How much sockets may send, and addresses connect. */
  readonly budgets?: SocketBudgetsProvider;
  readonly visitorGate?: VisitorGate | undefined;
}

export interface RealtimeSurface {
  /** Such as `http://127.0.0.1:3001`. */
  readonly address: string;
  /** The same server, for another port. */
  readonly mount: SocketMount;
  counts: Connections['counts'];
  /** Tells sockets when to come back, and closes them bit by bit while the pause lasts. */
  drain(pauseMs: number): Promise<void>;
  /** Disconnects everybody (clients connect again elsewhere and resume) and frees the port. */
  close(): Promise<void>;
}

/** Each under both spellings: existing clients use the one with the slash. In `/communications/` users hear of their inbox. */
const namespaces = ['/database/', '/database', '/communications/', '/communications'];
/** Milliseconds between looks at all sessions, for what no event told. */
const sweepEveryMs = 30_000;

/** Listens on CLIENT_SOCKET_PORT; `undefined` when that is negative. Throws `StartError` when the port cannot be used. */
export async function startRealtimeSurface(
  kernel: RealtimeKernel,
  options: RealtimeOptions = {},
): Promise<RealtimeSurface | undefined> {
  const { settings } = kernel;
  if (settings.clientSocketPort < 0) return undefined;
  const take = createAddressBudgets(kernel);
  const io = createSocketServer(take, {
    source: options.client ?? fixedSurfaceOptions(defaultSurfaceOptions('client')),
    budgets: options.budgets ?? usualSocketBudgets,
    hint: 'Connect to the namespace /database/ or /communications/',
  });
  const { mount, sessions } = await openEntry(kernel, io);
  const requests = options.pipeline ?? usualBounds();
  const { budgets = usualSocketBudgets } = options;
  const engine = options.engine ?? createLiveEngine(kernel, requests.accounts);
  const onDelivered = (count: number): void => connections.delivered(count);
  const channels = createSocketChannels(io, { namespaces, onDelivered });
  const connections: Connections = createConnections(kernel, {
    ...requests,
    ...{ budgets, engine, channels },
  });
  const serving = { ...options, kernel, connections, take, requests, budgets };
  for (const name of namespaces) serve(io.of(name), serving);
  const detach = kernel.sockets.attach(
    createModuleServer(io, {
      accept: (nsp, entry) => serve(nsp, serving, entry),
      onDelivered,
      onSlow: engine.slow,
    }),
  );
  const sweep = setInterval(connections.recheckAll, sweepEveryMs);
  sweep.unref();

  const stopping = createStopping(io);
  const http = createPlainServer(mount);
  const address = await listenOn(http, {
    port: settings.clientSocketPort,
    host: settings.host,
    shared: settings.workers > 1,
    portVariable: 'CLIENT_SOCKET_PORT',
  });
  return {
    address,
    mount,
    counts: connections.counts,
    drain: stopping.drain,
    async close() {
      clearInterval(sweep);
      stopping.tell();
      // What was told goes out at the end of this turn; closing does not wait for it.
      await nextTurn();
      http.close();
      // Before the namespaces go: clients whose namespace goes are told to stay away.
      await io.close();
      detach();
      http.closeAllConnections();
      await sessions.close();
      connections.close();
      if (!options.engine) engine.stop();
    },
  };
}

/** The way in for requests and WebSockets, with several workers behind one port too. */
async function openEntry(
  { settings }: RealtimeKernel,
  io: Server,
): Promise<{ readonly mount: SocketMount; readonly sessions: WorkerSessions }> {
  const engine = io.engine as SocketEngine;
  const own: SocketMount = {
    owns: isSocketPath,
    request: (request, response) => engine.handleRequest(request, response),
    upgrade: (request, socket, head) => engine.handleUpgrade(request, socket, head),
  };
  const { workers, worker: slot = 0, run = '', dataDir } = settings;
  const sessions =
    workers > 1 ? await openWorkerSessions({ slot, run, dataDir }, () => own) : ownSessions;
  const { prefix } = sessions;
  const makeId = engine.generateId.bind(engine);
  if (prefix !== '') engine.generateId = (request) => `${prefix}${makeId(request)}`;
  return { mount: sessions.shared(own), sessions };
}

/** What of the transport under Socket.IO is used: its types are not part of the package. */
interface SocketEngine {
  handleRequest(request: IncomingMessage, response: ServerResponse): void;
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  generateId(request: IncomingMessage): string;
}

const usualBounds = (): RequestBounds => ({
  accounts: createAccounts(() => defaultRequestSettings),
  gates: createCallGates(() => defaultRequestSettings),
});

interface Serving {
  readonly kernel: RealtimeKernel;
  readonly connections: Connections;
  readonly take: TakeOfAddress;
  readonly requests: RequestBounds;
  readonly budgets: SocketBudgetsProvider;
  readonly visitorGate?: VisitorGate | undefined;
}

interface Admitted {
  readonly session: Session;
  readonly served?: ServedSocket | undefined;
}

/** `entry`: of a namespace that a module declared. */
function serve(
  namespace: Namespace,
  { kernel, connections, take, requests, budgets, visitorGate }: Serving,
  entry?: ModuleEntry,
): void {
  const admitted = new WeakMap<Socket, Admitted>();
  const admit = async (socket: Socket): Promise<void> => {
    const { allowed, resetMs, address } = await take(budgets().connect, socket.request);
    if (!allowed) throw tooMany(resetMs);
    await kernel.bus.freshness.catchUp();
    const account = requests.accounts.openFor('client', address);
    await onAccount(account, async () => {
      const credentials = await redeemed(
        kernel.tickets,
        presented(socket, address),
        ticketOf(socket),
      );
      const session = await openSession(kernel.identity, credentials, entry?.visitors());
      await admitVisitor(session, visitorGate, socket, address);
      admitted.set(socket, { session, served: await entry?.find(socket, session) });
    });
    account.close();
  };
  namespace.use((socket, next) => {
    admit(socket).then(
      () => next(),
      (error: unknown) => {
        if (asKnown(error).status === 500)
          kernel.log.error({ err: error }, 'A socket could not be admitted');
        next(refusal(error, refusalWords(socket, asKnown(error))));
      },
    );
  });
  namespace.on('connection', (socket) => {
    const { session, served } = admitted.get(socket) ?? {};
    if (!session) socket.disconnect(true);
    else {
      connections.open(socket, session, served);
      tellOf(kernel, socket, session);
    }
  });
}

/** Tells operators that it came, and when it goes. */
function tellOf(
  { operatorNotices, bus }: RealtimeKernel,
  socket: Socket,
  { userId }: Session,
): void {
  const about = () => ({
    ...{ node: bus.nodeId, namespace: `${withoutEnd(socket.nsp.name, '/')}/` },
    user: userId === '' ? null : userId,
  });
  operatorNotices.tell('/router', 'socket:opened', about);
  socket.on('disconnect', (reason) =>
    operatorNotices.tell('/router', 'socket:closed', () => ({ ...about(), reason })),
  );
}
