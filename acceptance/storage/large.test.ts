/** A file of 300 MB goes up and down in pieces: the memory of the process does not grow with it. */
import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { bearer } from './requests.ts';

const MEGABYTE = 1_048_576;
const SIZE = 300 * MEGABYTE;
/** Bytes: far less than the file, and room for what the process does besides. */
const ALLOWED_GROWTH = 150 * MEGABYTE;

let platform: SpawnedPlatform;
let ann: TestUser;
beforeAll(async () => {
  platform = await spawnPlatform({ afterFirstStart: true });
  ann = await platform.registerUser();
  await platform.admin.patch('/config/storage', {
    config: { limits: { maxFileSize: 400 * MEGABYTE } },
  });
});
afterAll(() => platform?.dispose());

const piece = randomBytes(MEGABYTE);
function* pieces(): Generator<Buffer> {
  for (let sent = 0; sent < SIZE; sent += piece.length) yield piece;
}
const checksum = (): string => {
  const hash = createHash('sha256');
  for (const one of pieces()) hash.update(one);
  return hash.digest('hex');
};

/** Bytes that the process of the platform holds. */
async function resident(): Promise<number> {
  const [worker = 0] = await platform.workers();
  const text = await readFile(`/proc/${worker}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1]) * 1_024;
}

/** The most that it holds while `work` goes on. */
async function peakOf(work: () => Promise<unknown>): Promise<number> {
  let peak = 0;
  const look = async () => {
    peak = Math.max(peak, await resident());
  };
  const timer = setInterval(() => void look(), 50);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  await look();
  return peak;
}

describe('300 MB', () => {
  it('go up and down within bounds', async () => {
    const { body } = await ann.api.post('/storage/upload', { name: 'large.bin', size: SIZE });
    const before = await resident();
    const up = await peakOf(async () => {
      const answer = await fetch(body.url, {
        method: 'PUT',
        body: Readable.toWeb(Readable.from(pieces())) as never,
        headers: { 'content-length': String(SIZE) },
        duplex: 'half',
      } as RequestInit);
      expect(answer.status).toBe(200);
    });
    const file = await ann.api.get(`/storage/file/${body.id}`);
    expect(file.body).toMatchObject({ state: 'ready', size: SIZE, checksum: checksum() });
    const hash = createHash('sha256');
    const down = await peakOf(async () => {
      const url = new URL(`/storage/download/${body.id}`, platform.addresses.client);
      const answer = await fetch(url, { headers: bearer(ann) });
      expect(answer.headers.get('content-length')).toBe(String(SIZE));
      for await (const chunk of answer.body ?? []) hash.update(chunk);
    });
    expect(hash.digest('hex')).toBe(file.body.checksum);
    expect(up - before).toBeLessThan(ALLOWED_GROWTH);
    expect(down - before).toBeLessThan(ALLOWED_GROWTH);
  }, 240_000);
});
