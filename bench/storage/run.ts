/**
 * Measures files up and down beside a bare Node program (bare.ts) on the same disk, in turns, in one run; and what
 * memory the platform needs while many large uploads run at once.
 * `npm run bench:storage`; `--dry` leaves RESULTS.md as it is, `--parallel 50 --megabytes 200` are the large uploads.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine, residentMemory } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median } from '../statistics.ts';

const KILOBYTE = 1_024;
const MEGABYTE = 1_048_576;
const ROUNDS = 3;
/** So many at least: a handful says more of the moment than of the server. */
const RANGES = 400;

const { values } = parseArgs({
  options: {
    dry: { type: 'boolean', default: false },
    parallel: { type: 'string', default: '50' },
    megabytes: { type: 'string', default: '200' },
  },
});

/** A server that files go to and come from. */
interface Target {
  /** Answers where to read it. */
  upload(content: Buffer): Promise<string>;
  /** Answers the number of bytes that came. */
  download(address: string, range?: string): Promise<number>;
}

interface Work {
  readonly name: string;
  readonly bytes: number;
  /** How often, and how many at once. */
  readonly times: number;
  readonly atOnce: number;
  /** The part of the bare program's rate that is asked for. */
  readonly goal: number;
}

const sizes: readonly Work[] = [
  { name: '4 KiB', bytes: 4 * KILOBYTE, times: 400, atOnce: 8, goal: 0.5 },
  { name: '1 MiB', bytes: MEGABYTE, times: 80, atOnce: 4, goal: 0.8 },
  { name: '100 MiB', bytes: 100 * MEGABYTE, times: 4, atOnce: 2, goal: 0.8 },
];

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

interface Sending {
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly pieces?: readonly Buffer[];
}

/** The answer's bytes are counted; the text is kept where it is small. */
function exchange(url: string, { method, headers = {}, pieces = [] }: Sending) {
  const { promise, resolve, reject } = Promise.withResolvers<{ bytes: number; text: string }>();
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const sending = request(url, {
    method,
    agent,
    headers: { ...headers, ...(pieces.length > 0 && { 'content-length': length }) },
  });
  sending.once('error', reject).once('response', (answer) => {
    let [bytes, text] = [0, ''];
    answer.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes < 10_000) text += chunk.toString('latin1');
    });
    answer.once('error', reject).once('end', () => {
      if ((answer.statusCode ?? 500) < 300) resolve({ bytes, text });
      else reject(new Error(`${method} ${url}: ${answer.statusCode} ${text}`));
    });
  });
  for (const piece of pieces) sending.write(piece);
  sending.end();
  return promise;
}

function bareTarget(port: number): Target {
  const base = `http://127.0.0.1:${port}/`;
  return {
    upload: async (content) =>
      `${base}${(await exchange(base, { method: 'PUT', pieces: [content] })).text}`,
    download: async (address, range) =>
      (await exchange(address, { method: 'GET', ...(range && { headers: { range } }) })).bytes,
  };
}

const BOUNDARY = 'XXBENCHXX';
function form(content: Buffer): readonly Buffer[] {
  const name = crypto.randomUUID();
  const head = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\ncontent-type: application/octet-stream\r\n\r\n`;
  return [Buffer.from(head), content, Buffer.from(`\r\n--${BOUNDARY}--\r\n`)];
}

function platformTarget({ clientOrigin }: Platform, token: string): Target {
  const authorization = `Bearer ${token}`;
  return {
    async upload(content) {
      const type = `multipart/form-data; boundary=${BOUNDARY}`;
      const { text } = await exchange(`${clientOrigin}/storage/upload`, {
        method: 'POST',
        headers: { authorization, 'content-type': type },
        pieces: form(content),
      });
      return `${clientOrigin}/storage/download/${(JSON.parse(text) as { id: string }).id}`;
    },
    download: async (address, range) =>
      (
        await exchange(address, {
          method: 'GET',
          headers: { authorization, ...(range && { range }) },
        })
      ).bytes,
  };
}

/** How often a second. */
async function rateOf(
  { times, atOnce }: Work,
  work: (index: number) => Promise<unknown>,
): Promise<number> {
  let next = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (next < times) await work(next++);
    }),
  );
  return (times * 1_000) / (performance.now() - began);
}

interface Rates {
  readonly upload: number;
  readonly download: number;
  readonly range: number;
}

async function measure(target: Target, work: Work): Promise<Rates> {
  const content = Buffer.alloc(work.bytes, 'penstock');
  const addresses: string[] = [];
  const upload = await rateOf(work, async (index) => {
    addresses[index] = await target.upload(content);
  });
  const addressOf = (index: number): string => addresses[index % addresses.length] ?? '';
  const download = await rateOf(work, async (index) => {
    if ((await target.download(addressOf(index))) !== work.bytes) throw new Error('Not whole');
  });
  const half = Math.floor(work.bytes / 2);
  const range = await rateOf({ ...work, times: RANGES }, (index) =>
    target.download(addressOf(index), `bytes=${half}-${half + Math.min(half, 64 * KILOBYTE) - 1}`),
  );
  return { upload, download, range };
}

async function ask(platform: Platform, method: string, path: string, body: object) {
  const answer = await fetch(`${platform.adminOrigin}${path}`, {
    method,
    headers: { masterkey: platform.masterKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}

async function register({ clientOrigin }: Platform): Promise<string> {
  const post = async (path: string) => {
    const answer = await fetch(`${clientOrigin}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'bench@example.com', password: 'Battery-Staple-17' }),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { accessToken: string };
  };
  await post('/authentication/local/new');
  return (await post('/authentication/local')).accessToken;
}

/** Bytes by which the platform grows at most while many large uploads run at once. */
async function growth(platform: Platform, target: Target): Promise<number> {
  const content = Buffer.alloc(Number(values.megabytes) * MEGABYTE, 'penstock');
  const before = residentMemory(platform.pid);
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, residentMemory(platform.pid));
  }, 100);
  await Promise.all(Array.from({ length: Number(values.parallel) }, () => target.upload(content)));
  clearInterval(timer);
  return peak - before;
}

const rows: string[] = [];
const folder = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
const child = fork(fileURLToPath(new URL('bare.ts', import.meta.url)), [join(folder, 'bare')]);
const [port] = (await once(child, 'message')) as [number];
const platform = await startPlatform({ dataDir: join(folder, 'data') });
try {
  await ask(platform, 'PATCH', '/config/router', { rateLimit: { maxRequests: 1_000_000 } });
  await ask(platform, 'PATCH', '/config/storage', { limits: { maxFileSize: 1_024 * MEGABYTE } });
  const [bare, ours] = [bareTarget(port), platformTarget(platform, await register(platform))];
  for (const work of sizes) {
    const found: { bare: Rates; ours: Rates }[] = [];
    for (let round = 0; round < ROUNDS; round += 1)
      found.push({ bare: await measure(bare, work), ours: await measure(ours, work) });
    for (const what of ['upload', 'download', 'range'] as const) {
      const [alone, served] = [
        median(found.map((one) => one.bare[what])),
        median(found.map((one) => one.ours[what])),
      ];
      const ratio = (served / alone).toFixed(2);
      const goal = what === 'range' ? 0.8 : work.goal;
      rows.push(
        `| ${what} of ${work.name} | ${alone.toFixed(1)} | ${served.toFixed(1)} | ${ratio} | ${goal} |`,
      );
      console.log(rows.at(-1));
    }
  }
  const grown = Math.round((await growth(platform, ours)) / MEGABYTE);
  const large = `${values.parallel} uploads of ${values.megabytes} MiB at once`;
  console.log(`${large}: ${grown} MiB more`);
  const text = [
    '# Files up and down',
    '',
    describeMachine('the embedded one'),
    '',
    `Requests a second, median of ${ROUNDS} rounds in turns, beside a bare Node program that streams to files of the same disk, syncs and renames them (bare.ts). Uploads are forms; a range is 64 KiB (or half of the file).`,
    '',
    '| | Bare | Penstock | Ratio | Goal |',
    '|---|---|---|---|---|',
    ...rows,
    '',
    `${large}: the process of the platform grows by ${grown} MiB (goal: at most 150).`,
    '',
  ].join('\n');
  if (!values.dry) await writeFile(fileURLToPath(new URL('RESULTS.md', import.meta.url)), text);
} finally {
  await platform.stop();
  child.kill();
  agent.destroy();
  await rm(folder, { recursive: true, force: true });
}
