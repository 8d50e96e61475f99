import { once } from 'node:events';
import { connect } from 'node:net';

/** Sends bytes as they are and answers everything that comes until the other side closes, or is silent for `quietMs`. */
export async function sendRaw(
  baseUrl: string,
  bytes: string | Buffer,
  quietMs = 2_000,
): Promise<string> {
  const { hostname, port } = new URL(baseUrl);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.setTimeout(quietMs, () => socket.destroy());
  await once(socket, 'connect');
  // A server that refuses early may reset the connection while we still send.
  socket.on('error', () => undefined);
  socket.write(bytes);
  await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(chunks).toString();
}

/** Status and body of the first response in what came over the wire. */
export function parseRaw(text: string): {
  readonly status: number;
  readonly head: string;
  readonly body: string;
} {
  const end = text.indexOf('\r\n\r\n');
  const head = end < 0 ? text : text.slice(0, end);
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0),
    head,
    body: end < 0 ? '' : text.slice(end + 4),
  };
}
