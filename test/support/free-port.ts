import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below where systems take the ports of outgoing connections from, which would come and go on the port before it is used. */
const [FROM, TO] = [20_000, 32_000];
const ATTEMPTS = 50;

/** A TCP port on the loopback address that nobody uses at this moment. By chance, so that two that ask at once seldom get the same. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = randomInt(FROM, TO);
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port was found between ${FROM} and ${TO}`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
