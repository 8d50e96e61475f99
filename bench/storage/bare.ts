/**
 * What files cost at least: a Node program that streams uploads to files of the same disk and back, with the care that
 * an acknowledged file needs (synced, then renamed, then its folder synced). It takes the request that the platform takes,
 * a form with one file, and a body that is nothing but the file. It knows no users, names, limits, checksums or records.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';

const folder = process.argv[2] ?? '';
await mkdir(folder, { recursive: true });

async function store(body: Readable): Promise<string> {
  const id = randomUUID();
  const file = await open(join(folder, `${id}.part`), 'wx');
  await pipeline(body, file.createWriteStream({ flush: true }));
  await rename(join(folder, `${id}.part`), join(folder, id));
  const parent = await open(folder);
  await parent.sync();
  await parent.close();
  return id;
}

async function storeForm(request: IncomingMessage): Promise<string> {
  const form = new Busboy({
    headers: { 'content-type': request.headers['content-type'] ?? '' },
  });
  let stored: Promise<string> | undefined;
  form.on('file', (_field, body) => {
    stored = store(body);
    stored.catch((error: Error) => form.destroy(error));
  });
  request.pipe(form);
  await once(form, 'finish');
  if (!stored) throw new Error('No file');
  return stored;
}

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const id = await (request.method === 'POST' ? storeForm(request) : store(request));
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ id }));
}

async function send(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = join(folder, request.url?.slice(1) ?? '');
  const { size } = await stat(path);
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
  const range = from === undefined ? {} : { start: Number(from), end: Number(to) };
  const length = from === undefined ? size : Number(to) - Number(from) + 1;
  response.writeHead(from === undefined ? 200 : 206, { 'content-length': length });
  await pipeline(createReadStream(path, range), response);
}

const server = createServer((request, response) => {
  (request.method === 'GET' ? send : take)(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as { port: number }).port));
process.on('disconnect', () => process.exit(0));
