/**
 * Sessions of transports over several workers behind one port. A WebSocket stays with the worker that accepted it. Requests
 * of a polling client come to any worker: the id of its session says whose it is, and the others hand them on.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
  request as sendRequest,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { guardUpgraded, type SocketMount } from '../http/server.ts';

export interface WorkerSessions {
  /** What stands in front of the ids of this worker's sessions. */
  readonly prefix: string;
  /** The same mount, where requests of others' sessions are handed on. */
  shared(own: SocketMount): SocketMount;
  close(): Promise<void>;
}

interface WorkerPlace {
  /** Which of the workers this is, from 0. */
  readonly slot: number;
  /** Of all workers that serve the same ports; what others have left in the folder is not theirs. */
  readonly run: string;
  /** Where workers leave word of their inner ports. */
  readonly dataDir: string;
}

/** For a process that has its ports alone. */
export const ownSessions: WorkerSessions = {
  prefix: '',
  shared: (own) => own,
  close: async () => undefined,
};

const LOOPBACK = '127.0.0.1';
const portFile = (dataDir: string, slot: number): string =>
  join(dataDir, `realtime-worker-${slot}.port`);

/** Where a worker is reached. Its process may have been killed, and its port be another program's by now. */
interface Word {
  readonly run: string;
  readonly pid: number;
  readonly port: number;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const SESSION = /[?&]sid=(\d{1,3})~/;

/** Opens a port for the other workers; only requests of sessions that exist here are served on it. */
export async function openWorkerSessions(
  place: WorkerPlace,
  entry: () => SocketMount,
): Promise<WorkerSessions> {
  const { slot, run, dataDir } = place;
  const isOwn = (url = ''): boolean => SESSION.exec(url)?.[1] === String(slot);
  const inner = createServer((request, response) => {
    if (isOwn(request.url)) entry().request(request, response);
    else response.writeHead(400).end();
  });
  inner.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    guardUpgraded(socket);
    if (isOwn(request.url)) entry().upgrade(request, socket, head);
    else socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    inner.once('error', reject);
    inner.listen(0, LOOPBACK, resolve);
  });
  const file = portFile(dataDir, slot);
  const { port } = inner.address() as AddressInfo;
  const word: Word = { run, pid: process.pid, port };
  await writeFile(file, JSON.stringify(word), { mode: 0o600 });

  const ownerOf = ({ url = '' }: IncomingMessage): number | undefined => {
    const found = SESSION.exec(url)?.[1];
    return found === undefined || Number(found) === slot ? undefined : Number(found);
  };
  return {
    prefix: `${slot}~`,
    shared: (own) => ({
      owns: own.owns,
      request(request, response) {
        const owner = ownerOf(request);
        if (owner === undefined) own.request(request, response);
        else void handOn({ ...place, slot: owner }, request, response);
      },
      upgrade(request, socket, head) {
        const owner = ownerOf(request);
        if (owner === undefined) own.upgrade(request, socket, head);
        else void handUpgradeOn({ ...place, slot: owner }, { request, socket, head });
      },
    }),
    async close() {
      inner.closeAllConnections();
      inner.close();
      await rm(file, { force: true });
    },
  };
}

/** Throws where that worker is not there. What is sent to it holds credentials. */
async function targetOf(
  { dataDir, slot, run }: WorkerPlace,
  { method, url, headers }: IncomingMessage,
) {
  const word = JSON.parse(await readFile(portFile(dataDir, slot), 'utf8')) as Word;
  if (word.run !== run || !isAlive(word.pid)) throw new Error('This worker is gone');
  const { port } = word;
  return { host: LOOPBACK, port, method, path: url, headers: headers as OutgoingHttpHeaders };
}

async function handOn(
  owner: WorkerPlace,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const fail = (): void => {
    // What a session that is not there any more is answered: the client begins a new one.
    if (!response.headersSent)
      response
        .writeHead(400, { 'content-type': 'application/json' })
        .end('{"code":1,"message":"Session ID unknown"}');
    else response.destroy();
  };
  try {
    const forwarded = sendRequest(await targetOf(owner, request), (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    forwarded.on('error', fail);
    response.once('close', () => forwarded.destroy());
    request.pipe(forwarded);
  } catch {
    fail();
  }
}

interface Upgrading {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

async function handUpgradeOn(
  owner: WorkerPlace,
  { request, socket, head }: Upgrading,
): Promise<void> {
  const fail = (): void => void socket.destroy();
  socket.on('error', fail);
  try {
    const forwarded = sendRequest(await targetOf(owner, request));
    forwarded.on('error', fail);
    forwarded.on('response', fail);
    forwarded.on('upgrade', (answer, other, first) => {
      const lines = [`HTTP/1.1 101 ${answer.statusMessage}`];
      for (let at = 0; at < answer.rawHeaders.length; at += 2)
        lines.push(`${answer.rawHeaders[at]}: ${answer.rawHeaders[at + 1]}`);
      socket.write(`${lines.join('\r\n')}\r\n\r\n`);
      if (first.length > 0) socket.write(first);
      if (head.length > 0) other.write(head);
      other.on('error', fail);
      other.once('close', fail);
      socket.once('close', () => other.destroy());
      socket.pipe(other).pipe(socket);
    });
    forwarded.end();
  } catch {
    fail();
  }
}
