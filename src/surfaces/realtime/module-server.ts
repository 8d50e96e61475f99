/** Serves the namespaces that modules declare, and broadcasts to their channels. */
import type { Namespace, Server, Socket } from 'socket.io';
import { errors } from '../../kernel/errors.ts';
import type {
  SocketConnection,
  SocketNamespace,
  SocketServer,
} from '../../kernel/sockets/socket-namespace.ts';
import { close } from './connection.ts';
import { realtimeErrors } from './errors.ts';
import { moduleProtocol, type Protocol } from './protocol.ts';
import type { Session } from './session.ts';
import { isTooSlow } from './subscriptions.ts';

/** A socket that a module has prepared for. */
export interface ServedSocket {
  readonly protocol: Protocol;
  connected(): void;
}

/** How sockets come into a namespace that a module declared. */
export interface ModuleEntry {
  /** Whether it lets sockets in that present no credential. */
  visitors(): boolean;
  /** Throws what refuses the socket. */
  find(socket: Socket, session: Session): Promise<ServedSocket>;
}

interface ModuleServerOptions {
  /** Lets sockets into a namespace that is new. */
  readonly accept: (namespace: Namespace, entry: ModuleEntry) => void;
  readonly onDelivered: (count: number) => void;
  /** A socket was closed that did not read what it was told. */
  readonly onSlow: () => void;
}

/** Channels of modules cannot be those of Socket.IO itself, which are ids of sockets. */
const channelOf = (name: string): string => `channel:${name}`;

export function createModuleServer(
  io: Server,
  { accept, onDelivered, onSlow }: ModuleServerOptions,
): SocketServer {
  /** What is served now; a namespace of Socket.IO stays when its module stops. */
  const served = new Map<string, SocketNamespace>();
  const known = new Set<string>();
  const spellings = (name: string): readonly Namespace[] => [io.of(`${name}/`), io.of(name)];

  return {
    serve(namespace) {
      const { name } = namespace;
      served.set(name, namespace);
      if (!known.has(name)) {
        known.add(name);
        const entry: ModuleEntry = {
          // Where nothing is served everybody is told so.
          visitors: () => served.get(name)?.visitors ?? !served.has(name),
          async find(socket, session) {
            const current = served.get(name);
            if (!current) throw errors.NOT_FOUND({ message: 'This namespace is not served now' });
            return prepare(current, { socket, session, onSlow });
          },
        };
        for (const nsp of spellings(name)) accept(nsp, entry);
      }
      return () => {
        if (served.get(name) === namespace) served.delete(name);
        for (const nsp of spellings(name)) nsp.disconnectSockets(true);
      };
    },
    broadcast(name, audience, event, data) {
      const namespace = served.get(name);
      if (!namespace) return;
      const whole = typeof audience === 'string';
      const room = channelOf(whole ? audience : audience.channel);
      for (const nsp of spellings(name)) {
        const members = nsp.adapter.rooms.get(room);
        if (!members) continue;
        endSlow(nsp, members, { errorEvent: namespace.errorEvent, onSlow });
        // Each socket is a room of its own.
        (whole ? nsp.to(room) : nsp.to(room).except(audience.except)).emit(event, data);
        onDelivered(members.size);
      }
    },
  };
}

/** Who does not read is told so; nothing is kept for them. */
function endSlow(
  nsp: Namespace,
  members: ReadonlySet<string>,
  { errorEvent, onSlow }: { readonly errorEvent: string; readonly onSlow: () => void },
): void {
  for (const id of members) {
    const socket = nsp.sockets.get(id);
    if (!socket || !isTooSlow(socket)) continue;
    onSlow();
    close(socket, errorEvent, realtimeErrors.CONSUMER_TOO_SLOW());
  }
}

interface Preparing {
  readonly socket: Socket;
  readonly session: Session;
  readonly onSlow: () => void;
}

async function prepare(
  namespace: SocketNamespace,
  { socket, session, onSlow }: Preparing,
): Promise<ServedSocket> {
  let open = true;
  const connection: SocketConnection = {
    id: socket.id,
    userId: session.userId,
    isOpen: () => open,
    caller: () => session.caller(),
    anyCaller: () => session.anyCaller(),
    emit(event, data) {
      if (!socket.connected) return;
      if (isTooSlow(socket)) {
        onSlow();
        close(socket, namespace.errorEvent, realtimeErrors.CONSUMER_TOO_SLOW());
      } else socket.emit(event, data);
    },
    join(channel) {
      if (socket.connected) void socket.join(channelOf(channel));
    },
    leave: (channel) => void socket.leave(channelOf(channel)),
    hears: (channel) => socket.rooms.has(channelOf(channel)),
  };
  const admitted = await namespace.admit(connection);
  const closed = (): void => {
    if (!open) return;
    open = false;
    admitted.closed();
  };
  // The transport may have gone meanwhile, then there is no word of the socket any more.
  socket.conn.once('close', closed);
  socket.once('disconnect', closed);
  if (socket.conn.readyState !== 'open') closed();
  return { protocol: moduleProtocol(namespace, connection), connected: admitted.connected };
}
