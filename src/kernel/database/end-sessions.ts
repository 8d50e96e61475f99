/** Ends the sessions of one process at the server, for a stop whose time is over. */

import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as secure } from 'node:tls';
import pg from 'pg';
import {
  type ClientOptions,
  type ConnectionTarget,
  clientConfig,
  sessionMark,
} from './connection.ts';

/* Asks PostgreSQL to stop what a connection is running, over a connection of its own as the protocol wants it. */

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
 * A request that does not get through is no problem: the session's own time limit stands behind it.
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

/** A session that does not end within this many ms ends when its statement lets it. */
const PATIENCE_MS = 3_000;
const POLL_MS = 20;

/** All at once: PostgreSQL's own waiting goes from one to the next, a tenth of a second each. */
const text = `select pg_terminate_backend(pid) from pg_stat_activity
  where pid <> pg_backend_pid() and right(application_name, length($1)) = $1`;

/** Ends all sessions that carry the mark of this instance, and waits until they are gone. Rejects when the server cannot be asked. */
export async function endSessions(options: ClientOptions): Promise<void> {
  const mark = sessionMark(options.modes);
  if (mark === '') return;
  const client = new pg.Client(clientConfig(options));
  client.on('error', () => undefined);
  try {
    await client.connect();
    const until = performance.now() + PATIENCE_MS;
    while (((await client.query(text, [mark])).rowCount ?? 0) > 0 && performance.now() < until)
      await sleep(POLL_MS);
  } finally {
    await client.end().catch(() => undefined);
  }
}
