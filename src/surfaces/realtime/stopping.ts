/**
 * How sockets hear that their server stops: each is told when to come back, so that they do not all come at once to
 * whoever serves then (specification router.md 5.10).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Server, Socket } from 'socket.io';
import Type from 'typebox';
import type { SentEvent } from '../../kernel/sockets/socket-namespace.ts';

export const stoppingEvent: SentEvent = {
  name: 'server-stopping',
  summary: 'This server stops: connect again in so many milliseconds, each client at its own time',
  payload: Type.Object({ reconnectInMs: Type.Integer({ minimum: 0 }) }),
};

/** Connections that are let back in a second, and the shortest and the longest time that all of them take together. */
const BACK_PER_SECOND = 500;
const SHORTEST_MS = 1_000;
const LONGEST_MS = 60_000;
/** Part of a pause in which connections are closed one after the other, and milliseconds between two steps of that. */
const CLOSING_PART = 0.8;
const STEP_MS = 50;

/** Within how many milliseconds so many connections come back. */
export const spreadOf = (connections: number): number =>
  Math.min(Math.max((connections / BACK_PER_SECOND) * 1_000, SHORTEST_MS), LONGEST_MS);

export interface Stopping {
  /** Tells everybody who has not been told. */
  tell(): void;
  /** The same, and closes connections bit by bit while the pause lasts: who does not listen to it comes back spread too. */
  drain(pauseMs: number): Promise<void>;
}

export function createStopping(io: Server): Stopping {
  const told = new WeakSet<Socket['conn']>();
  const tell = (): void => {
    const byConnection = socketsByConnection(io);
    const spread = spreadOf(byConnection.size);
    for (const [connection, sockets] of byConnection) {
      if (told.has(connection)) continue;
      told.add(connection);
      const reconnectInMs = Math.floor(Math.random() * spread);
      for (const socket of sockets) socket.emit(stoppingEvent.name, { reconnectInMs });
    }
  };
  return {
    tell,
    async drain(pauseMs) {
      tell();
      const connections = [...socketsByConnection(io).keys()];
      const steps = Math.max(1, Math.floor((pauseMs * CLOSING_PART) / STEP_MS));
      const each = Math.ceil(connections.length / steps);
      while (connections.length > 0) {
        await sleep(STEP_MS);
        // Not a disconnection by the server: after that, clients would stay away.
        for (const connection of connections.splice(0, each)) connection.close();
      }
    },
  };
}

/** One connection may be in several namespaces. */
function socketsByConnection(io: Server): ReadonlyMap<Socket['conn'], readonly Socket[]> {
  const found = new Map<Socket['conn'], Socket[]>();
  for (const namespace of io._nsps.values())
    for (const socket of namespace.sockets.values()) {
      const known = found.get(socket.conn);
      if (known) known.push(socket);
      else found.set(socket.conn, [socket]);
    }
  return found;
}
