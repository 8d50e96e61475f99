/** Uploads in parts. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { expect } from 'vitest';
import type { ObjectPlace, PartTag, StorageProvider } from '../provider.ts';
import { type Bench, digest, read, refused, type } from './bench.ts';

const send = async (
  provider: StorageProvider,
  { place, upload }: { place: ObjectPlace; upload: string },
  { number, data }: { number: number; data: Buffer },
): Promise<PartTag> => ({
  number,
  tag: await provider.multipart.part(place, upload, {
    number,
    body: Readable.from([data]),
    size: data.length,
  }),
});

export function multipartCases(bench: Bench): void {
  partCases(bench);
  uploadCases(bench);
}

function partCases(bench: Bench): void {
  bench.check('parts become one object, in their order and as last sent', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const place = { bucket, key: 'parts/whole.bin' };
    const size = Math.max(provider.capabilities.minimumPartSize, 100_000);
    const data = [randomBytes(size), randomBytes(size), randomBytes(1234)] as const;
    const upload = await provider.multipart.begin(place, { contentType: 'text/plain' });
    const at = { place, upload };
    const third = await send(provider, at, { number: 3, data: data[2] });
    await send(provider, at, { number: 1, data: randomBytes(size) });
    const [first, second] = await Promise.all([
      send(provider, at, { number: 1, data: data[0] }),
      send(provider, at, { number: 2, data: data[1] }),
    ]);
    expect(await provider.head(place)).toBeUndefined();
    expect((await provider.list(bucket, '')).objects).toEqual([]);
    const facts = await provider.multipart.complete(place, upload, [first, second, third]);
    expect(facts.size).toBe(2 * size + 1234);
    expect(digest(await read(provider, place))).toBe(digest(Buffer.concat(data)));
    expect(await provider.head(place)).toMatchObject({ size: facts.size, etag: facts.etag });
  });

  bench.check('a body of another length than its part is refused', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'lengths' };
    const upload = await provider.multipart.begin(place, type);
    for (const length of [50, 150])
      await expect(
        provider.multipart.part(place, upload, {
          number: 1,
          body: Readable.from([Buffer.alloc(length)]),
          size: 100,
        }),
      ).rejects.toEqual(refused('LENGTH_MISMATCH'));
    await provider.multipart.abort(place, upload);
  });
}

function uploadCases(bench: Bench): void {
  bench.check('an upload that is given up leaves nothing', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const place = { bucket, key: 'given-up' };
    const upload = await provider.multipart.begin(place, type);
    const part = await send(provider, { place, upload }, { number: 1, data: Buffer.from('x') });
    await provider.multipart.abort(place, upload);
    await provider.multipart.abort(place, upload);
    await expect(provider.multipart.complete(place, upload, [part])).rejects.toEqual(
      refused('NOT_FOUND'),
    );
    await provider.deleteBucket(bucket);
  });

  bench.check('an upload belongs to its object, and its parts to it', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'mine' };
    const other = { ...place, key: 'other' };
    const upload = await provider.multipart.begin(place, type);
    const part = await send(provider, { place, upload }, { number: 1, data: Buffer.from('x') });
    await expect(
      send(provider, { place: other, upload }, { number: 1, data: Buffer.from('x') }),
    ).rejects.toEqual(refused('NOT_FOUND'));
    await expect(provider.multipart.complete(other, upload, [part])).rejects.toEqual(
      refused('NOT_FOUND'),
    );
    await expect(
      provider.multipart.complete(place, upload, [part, { number: 2, tag: part.tag }]),
    ).rejects.toEqual(refused('NOT_FOUND'));
    expect((await provider.multipart.complete(place, upload, [part])).size).toBe(1);
  });
}
