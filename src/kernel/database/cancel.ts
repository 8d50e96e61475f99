/** Asks PostgreSQL to stop what a connection is running, over a connection of its own as the protocol wants it. */
import { connect, type Socket } from 'node:net';
import { connect as secure } from 'node:tls';
import type pg from 'pg';
import type { ConnectionTarget } from './connection.ts';

/** What the server told the driver when the connection was made. */
interface BackendKey {
  readonly processID: number | null;
  readonly secretKey: number | null;
}

const CANCEL_REQUEST = 80_877_102;
const TLS_REQUEST = 80_877_103;
const TIMEOUT_MS = 2_000;

function message(...words: readonly number[]): Buffer {
  const buffer = Buffer.alloc(4 * (words.length + 1));
  buffer.writeInt32BE(buffer.length, 0);
  for (const [i, word] of words.entries()) buffer.writeInt32BE(word, 4 * (i + 1));
  return buffer;
}

/**
 * Sends the request and does not wait for its effect. It may arrive after the statement has ended,
 * and would then stop the next one: a connection that it was sent for must not be used for anybody else.
 * A request that does not get through is no fault: the session's own time limit stands behind it.
 */
export function cancelRunning(target: ConnectionTarget, client: pg.Client): void {
  const { processID, secretKey } = client as unknown as BackendKey;
  if (processID === null || secretKey === null) return;
  const request = message(CANCEL_REQUEST, processID, secretKey);
  const { host, port, ssl } = target;
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  quiet(socket);
  if (!ssl || host.startsWith('/')) {
    socket.once('connect', () => socket.end(request));
    return;
  }
  socket.once('connect', () => socket.write(message(TLS_REQUEST)));
  socket.once('data', (answer) => {
    if (answer.toString('latin1') !== 'S') return void socket.destroy();
    const encrypted = secure({ socket, host, ...(ssl === true ? {} : ssl) });
    quiet(encrypted);
    encrypted.once('secureConnect', () => encrypted.end(request));
  });
}

function quiet(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  socket.unref();
}
