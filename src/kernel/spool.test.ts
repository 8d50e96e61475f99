import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { spool } from './spool.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'spool-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function* chunksOf(sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (const [i, size] of sizes.entries()) yield Buffer.alloc(size, i + 1);
}

async function whole(bytes: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

it.each([[[]], [[3, 5]], [[1_048_576]], [[1_048_576, 1]], [[700_000, 700_000, 1, 300_000]]])(
  'gives back what came in chunks of %j, and leaves no name on the disk',
  async (sizes) => {
    const spooled = await spool(chunksOf(sizes), join(folder, 'new'));
    const sent = await whole(chunksOf(sizes));
    expect((await whole(spooled.bytes)).equals(sent)).toBe(true);
    expect(await readdir(folder, { recursive: true })).toEqual(
      sent.length > 1_048_576 ? ['new'] : [],
    );
    await spooled.close();
  },
);

it('throws what reading throws, and says that the disk is full', async () => {
  async function* broken(error: Error): AsyncGenerator<Buffer> {
    yield Buffer.alloc(2_000_000);
    throw error;
  }
  await expect(spool(broken(new Error('gone')), folder)).rejects.toThrow('gone');
  const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
  await expect(spool(broken(full), folder)).rejects.toMatchObject({ code: 'STORAGE_FULL' });
});
