/**
 * Sockets of the admin surface: operators hear what modules tell them (docs/decisions/298). WebSockets alone, so that
 * several workers need not know each other's sessions.
 */
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Namespace, Server, Socket } from 'socket.io';
import type { Kernel } from '../../../host/kernel.ts';
import type { AdminCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { onAccount } from '../../../kernel/request-account/request-account.ts';
import type { OperatorNamespace, OperatorTopic } from '../../../kernel/sockets/operator-notices.ts';
import type { SurfaceOptionsSource } from '../../http/options.ts';
import type { SocketMount } from '../../http/server.ts';
import { type Connection, createConnection, type SocketBudgetsProvider } from '../connection.ts';
import type { RequestBounds } from '../connections.ts';
import { asKnown, realtimeErrors, tooMany } from '../errors.ts';
import { refusalWords, ticketOf } from '../session.ts';
import {
  createAddressBudgets,
  createSocketServer,
  refusal,
  type TakeOfAddress,
} from '../socket-server.ts';
import { isSocketPath, redeemedOperator } from '../tickets.ts';
import { createPlainServer, listenOn } from '../transport.ts';
import {
  createListening,
  type Listening,
  type OperatorSession,
  openOperatorSession,
  presentedOperator,
} from './operator-session.ts';

type OperatorKernel = Pick<
  Kernel,
  | 'settings'
  | 'log'
  | 'metrics'
  | 'bus'
  | 'events'
  | 'limits'
  | 'identity'
  | 'tickets'
  | 'operatorNotices'
>;

export interface OperatorSocketOptions extends RequestBounds {
  /** Cross-origin rules: those of the admin surface. */
  readonly source: SurfaceOptionsSource;
  readonly budgets: SocketBudgetsProvider;
  /** Whether operators let sockets in now (`admin.transports.sockets`). */
  readonly enabled: () => boolean;
}

export interface OperatorSockets {
  /** For the port of the admin surface. */
  readonly mount: SocketMount;
  /** `enabled` may be different now. */
  apply(): Promise<void>;
  close(): Promise<void>;
}

const MAX_BYTES = 65_536;
/** Sockets of one operator, and of all on one node. */
const MAX_OF_OPERATOR = 50;
const MAX_SOCKETS = 1_000;
/** Milliseconds between looks at the sessions of all operators: nothing tells of their end. */
const SWEEP_MS = 500;

interface OpenSocket {
  readonly listening: Listening;
  readonly connection: Connection;
  readonly adminId: string;
  leave(): void;
}

export function startOperatorSockets(
  kernel: OperatorKernel,
  options: OperatorSocketOptions,
): OperatorSockets {
  const { enabled } = options;
  const take = createAddressBudgets(kernel);
  const io = createSocketServer(take, {
    ...options,
    hint: 'Connect to a namespace such as /core/ or /chat/',
    transports: ['websocket'],
    maxBytes: MAX_BYTES,
    isOpen: enabled,
  });
  const rooms = createRooms(kernel);
  const detach = kernel.operatorNotices.attach({
    serve: (namespace) => rooms.serve(namespace, io, { kernel, options, take }),
    tell: rooms.tell,
  });
  const sweep = setInterval(rooms.recheck, SWEEP_MS);
  sweep.unref();
  kernel.metrics.gauge('realtime_operator_sockets', 'Connected sockets of operators', rooms.count);
  const mount = mountOf(io);
  const port = createOwnPort(kernel, mount, enabled);
  return {
    mount,
    async apply() {
      if (!enabled()) for (const { leave } of rooms.all()) leave();
      await port.apply();
    },
    async close() {
      clearInterval(sweep);
      await io.close();
      detach();
      await port.close();
    },
  };
}

function mountOf(io: Server): SocketMount {
  const engine = io.engine as {
    handleRequest(request: IncomingMessage, response: ServerResponse): void;
    handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  };
  return {
    owns: isSocketPath,
    request: (request, response) => engine.handleRequest(request, response),
    upgrade: (request, socket, head) => engine.handleUpgrade(request, socket, head),
  };
}

interface Serving {
  readonly kernel: OperatorKernel;
  readonly options: OperatorSocketOptions;
  readonly take: TakeOfAddress;
}

/** The sockets of this node by namespace, and what they are told. */
function createRooms({ events }: Pick<Kernel, 'events'>) {
  const served = new Map<string, OperatorNamespace>();
  const open = new Map<string, Set<OpenSocket>>();
  const known = new Set<string>();
  const all = (): readonly OpenSocket[] => [...open.values()].flatMap((sockets) => [...sockets]);
  const deliver = (namespace: string, topic: OperatorTopic, data: () => object | undefined) => {
    const sockets = [...(open.get(namespace) ?? [])];
    const told = sockets.filter(({ listening }) => listening.isHeard(topic.name));
    const made = told.length === 0 ? undefined : data();
    if (made) for (const { listening } of told) listening.tell(topic, made);
  };
  const follow = (event: PublishedEvent): void => {
    for (const { name, topics } of served.values())
      for (const topic of topics)
        if (topic.from?.events.some((one) => one === '*' || one === event.topic))
          deliver(name, topic, () => topic.from?.data(event));
  };
  let unfollow: (() => void) | undefined;
  return {
    all,
    count: () => all().length,
    recheck: () => {
      for (const { connection } of all()) void connection.recheck();
    },
    tell(namespace: string, topic: string, data: () => object): void {
      const found = served.get(namespace)?.topics.find(({ name }) => name === topic);
      if (found) deliver(namespace, found, data);
    },
    enter(namespace: string, socket: OpenSocket): () => void {
      unfollow ??= events.subscribe('*', follow);
      open.set(namespace, (open.get(namespace) ?? new Set()).add(socket));
      return () => {
        open.get(namespace)?.delete(socket);
        if (all().length > 0) return;
        unfollow?.();
        unfollow = undefined;
      };
    },
    serve(namespace: OperatorNamespace, io: Server, serving: Serving): () => void {
      const { name } = namespace;
      const spellings = [io.of(`${name}/`), io.of(name)];
      served.set(name, namespace);
      const current = (): OperatorNamespace | undefined => served.get(name);
      if (!known.has(name))
        for (const nsp of spellings) accept(nsp, { ...serving, rooms: this, current });
      known.add(name);
      return () => {
        if (current() === namespace) served.delete(name);
        for (const nsp of spellings) nsp.disconnectSockets(true);
      };
    },
  };
}

/** Throws while there are too many. */
function requirePlace(sockets: readonly OpenSocket[], adminId: string): void {
  const own = sockets.filter((one) => one.adminId === adminId).length;
  if (sockets.length >= MAX_SOCKETS || own >= MAX_OF_OPERATOR)
    throw realtimeErrors.SUBSCRIPTION_LIMIT_EXCEEDED({
      message: 'Too many sockets of operators are open',
    });
}

interface Accepting extends Serving {
  readonly rooms: ReturnType<typeof createRooms>;
  /** What is served under this name now. */
  readonly current: () => OperatorNamespace | undefined;
}

interface Admitted {
  readonly session: OperatorSession;
  readonly caller: AdminCaller;
}

function accept(nsp: Namespace, accepting: Accepting): void {
  const { kernel } = accepting;
  const admitted = new WeakMap<Socket, Admitted>();
  nsp.use((socket, next) => {
    admit(socket, accepting).then(
      (one) => {
        admitted.set(socket, one);
        next();
      },
      (error: unknown) => {
        if (asKnown(error).status === 500)
          kernel.log.error({ err: error }, 'A socket of an operator could not be admitted');
        next(refusal(error, refusalWords(socket, asKnown(error))));
      },
    );
  });
  nsp.on('connection', (socket) => {
    const one = admitted.get(socket);
    if (one) open(socket, one, accepting);
    else socket.disconnect(true);
  });
}

async function admit(
  socket: Socket,
  { kernel, options, take, rooms, current }: Accepting,
): Promise<Admitted> {
  const { allowed, resetMs, address } = await take(options.budgets().connect, socket.request);
  if (!allowed) throw tooMany(resetMs);
  const namespace = current();
  if (!namespace || !options.enabled())
    throw errors.NOT_FOUND({ message: 'This namespace is not served now' });
  await kernel.bus.freshness.catchUp();
  const account = options.accounts.openFor('admin', address);
  try {
    return await onAccount(account, async () => {
      const presented = await redeemedOperator(
        kernel.tickets,
        presentedOperator(socket, address),
        ticketOf(socket),
      );
      const session = await openOperatorSession(kernel.identity, presented, namespace.module);
      requirePlace(rooms.all(), session.adminId);
      return { session, caller: await session.anyCaller() };
    });
  } finally {
    account.close();
  }
}

function open(
  socket: Socket,
  { session, caller }: Admitted,
  { kernel, options, rooms, current }: Accepting,
): void {
  const none: OperatorNamespace = { name: '', module: '', summary: '', topics: [] };
  let listening: Listening | undefined;
  const connection = createConnection({
    ...options,
    ...{ socket, session, limits: kernel.limits, log: kernel.log, onDelivered: () => undefined },
    onSlow: () => undefined,
    onReceived: () => undefined,
    catchUp: kernel.bus.freshness.catchUp,
    protocol: (end) => {
      listening = createListening({ socket, session, end, namespace: () => current() ?? none });
      return listening.protocol;
    },
  });
  if (!listening) return;
  const heard = listening;
  heard.begin(caller);
  const { adminId } = session;
  const leave = rooms.enter(current()?.name ?? '', {
    ...{ listening: heard, connection, adminId },
    leave: () => socket.disconnect(true),
  });
  socket.once('disconnect', () => {
    heard.stop();
    connection.dispose();
    leave();
  });
  // The session may have ended, or sockets been switched off, since the handshake.
  if (options.enabled()) void connection.recheck();
  else socket.disconnect(true);
}

/** ADMIN_SOCKET_PORT, listened to while sockets are switched on. */
function createOwnPort(
  { settings, log }: Pick<Kernel, 'settings' | 'log'>,
  mount: SocketMount,
  enabled: () => boolean,
) {
  const { adminSocketPort: port, host, workers } = settings;
  let listening: HttpServer | undefined;
  let turn = Promise.resolve();
  const openPort = async (): Promise<void> => {
    const server = createPlainServer(mount);
    const place = { port, host, shared: workers > 1, portVariable: 'ADMIN_SOCKET_PORT' };
    try {
      const address = await listenOn(server, place);
      listening = server;
      log.info({ address }, 'Sockets of operators have a port of their own');
    } catch (error) {
      log.error({ err: error }, 'Sockets of operators are on the port of the admin surface alone');
    }
  };
  const closePort = (): void => {
    listening?.close();
    listening?.closeAllConnections();
    listening = undefined;
  };
  const inTurn = (work: () => Promise<void> | void): Promise<void> => {
    turn = turn.then(work);
    return turn;
  };
  return {
    apply: () =>
      inTurn(async () => {
        if (port < 0) return;
        if (enabled() && !listening) await openPort();
        else if (!enabled()) closePort();
      }),
    close: () => inTurn(closePort),
  };
}
