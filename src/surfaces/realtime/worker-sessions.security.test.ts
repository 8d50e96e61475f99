/** Requests of polling clients hold credentials: they are handed on to workers of the same run alone. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import type { SocketMount } from '../http/server.ts';
import { openWorkerSessions, type WorkerSessions } from './worker-sessions.ts';

let dataDir: string;
const servers: Server[] = [];
const sessions: WorkerSessions[] = [];

beforeEach(async () => {
  dataDir = await temporaryFolder('data');
});
afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  for (const one of sessions.splice(0)) await one.close();
  await removeFolder(dataDir);
});

async function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** A worker of the run `now` that answers its number. */
async function openWorker(slot: number): Promise<SocketMount> {
  const own: SocketMount = {
    owns: () => true,
    request: (_request, response) => void response.end(`worker ${slot}`),
    upgrade: (_request, socket) => void socket.destroy(),
  };
  const opened = await openWorkerSessions({ slot, run: 'now', dataDir }, () => own);
  sessions.push(opened);
  return opened.shared(own);
}

async function ask(mount: SocketMount, session: string) {
  const port = await listen((request, response) => mount.request(request, response));
  const answer = await fetch(`http://127.0.0.1:${port}/realtime/?sid=${session}`);
  return { status: answer.status, text: await answer.text() };
}

it('hands requests on to the worker whose session it is', async () => {
  const mount = await openWorker(0);
  await openWorker(1);
  expect(await ask(mount, '1~abc')).toEqual({ status: 200, text: 'worker 1' });
  expect(await ask(mount, '0~abc')).toEqual({ status: 200, text: 'worker 0' });
});

it('hands nothing to a program that has the port of a worker of before', async () => {
  const heard: unknown[] = [];
  const port = await listen((request, response) => {
    heard.push(request.url);
    response.end('another program');
  });
  const mount = await openWorker(0);
  const gone = spawnSync(process.execPath, ['--version']).pid;
  for (const word of [
    port,
    { run: 'before', pid: process.pid, port },
    { run: 'now', pid: gone, port },
    { port },
  ]) {
    await writeFile(join(dataDir, 'realtime-worker-1.port'), JSON.stringify(word));
    expect(await ask(mount, '1~abc')).toMatchObject({ status: 400 });
  }
  expect(heard).toEqual([]);
});
