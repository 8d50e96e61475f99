/**
 * Calls hostile functions for as long as a measurement takes. One connection of plain text for each of them: `fetch` took
 * as much of the processor from the reads beside it as the functions themselves.
 */
import { connect, type Socket } from 'node:net';

/** A caller asks again this many ms after its answer. */
const PAUSE_MS = 20;

export interface Attack {
  /** No further calls. The ones that run are given up with their connections. */
  stop(): void;
}

/**
 * One caller for each path at once, each with an address of its own: what one address may do at once is bounded, and the
 * callers are not those who read.
 */
export function startAttack(origin: string, paths: readonly string[]): Attack {
  const { hostname, port, host } = new URL(origin);
  const sockets = new Set<Socket>();
  let isRunning = true;

  const call = (path: string, at: number): void => {
    const request = `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nx-forwarded-for: 192.0.2.${at + 1}\r\n\r\n`;
    const socket = connect(Number(port), hostname, () => socket.write(request));
    sockets.add(socket);
    let next: NodeJS.Timeout | undefined;
    // An answer is an error of some hundred bytes: where it comes in pieces, they come within the pause.
    socket.on('data', () => {
      clearTimeout(next);
      next = setTimeout(() => socket.writable && socket.write(request), PAUSE_MS);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      if (isRunning) setTimeout(() => isRunning && call(path, at), PAUSE_MS);
    });
  };
  paths.forEach(call);
  return {
    stop: () => {
      isRunning = false;
      for (const socket of sockets) socket.destroy();
    },
  };
}
