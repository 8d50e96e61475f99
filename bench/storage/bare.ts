/**
 * What files cost at least: a Node program that streams bodies to files of the same disk and back, with the care that
 * an acknowledged file needs (synced, then renamed). It knows no users, names, limits or records.
 */
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const folder = process.argv[2] ?? '';
await mkdir(folder, { recursive: true });

async function store(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const id = randomUUID();
  const file = await open(join(folder, `${id}.part`), 'wx');
  await pipeline(request, file.createWriteStream({ flush: true }));
  await rename(join(folder, `${id}.part`), join(folder, id));
  const parent = await open(folder);
  await parent.sync();
  await parent.close();
  response.end(id);
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
  (request.method === 'PUT' ? store : send)(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as { port: number }).port));
process.on('disconnect', () => process.exit(0));
