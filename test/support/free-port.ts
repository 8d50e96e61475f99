import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below where systems take the ports of outgoing connections from, which would come and go on the port before it is used. */
const [FROM, TO] = [20_000, 32_000];
/** Each worker of a run has so many of its own: what one was given, and has not bound yet, no other one gets. */
const OF_WORKER = 500;
const SHARES = (TO - FROM) / OF_WORKER;
/** Runs beside each other mostly begin elsewhere. */
const share = (Number(process.env.VITEST_POOL_ID ?? 0) + process.pid) % SHARES;
const first = FROM + share * OF_WORKER;
let next = randomInt(OF_WORKER);

/** A TCP port on the loopback address that nobody uses at this moment. The worker gets it again after all the others. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < OF_WORKER; attempt += 1) {
    const port = first + (next++ % OF_WORKER);
    if (await isFree(port)) return port;
  }
  throw new Error(`No free port was found from ${first} on`);
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
