/** Lists and buckets. */
import { expect } from 'vitest';
import type { StorageProvider } from '../provider.ts';
import { type Bench, bytes, refused, type } from './bench.ts';

export function listCases(bench: Bench): void {
  bench.check('lists by key and page, and a prefix is a beginning, not a part', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const keys = Array.from({ length: 2400 }, (_, at) => `a/${at % 7}/${at}`);
    const others = ['a', 'a!', 'a0', 'aa/1', 'b/a/1', 'a/b/c/d'];
    const left = [...keys, ...others].map((key) => ({ bucket, key }));
    const worker = async () => {
      for (let place = left.pop(); place; place = left.pop())
        await provider.put(place, bytes(place.key), type);
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    const pages = await pagesOf(provider, bucket, '');
    expect(pages.map(({ length }) => length)).toEqual([1000, 1000, 406]);
    expect(pages.flat()).toEqual([...keys, ...others].sort());
    expect((await pagesOf(provider, bucket, 'a/')).flat()).toEqual([...keys, 'a/b/c/d'].sort());
    expect((await pagesOf(provider, bucket, 'a/3/1')).flat()).toEqual(
      keys.filter((key) => key.startsWith('a/3/1')).sort(),
    );
    expect((await provider.list(bucket, 'nothing/')).objects).toEqual([]);
    expect((await pagesOf(provider, bucket, 'a/1/', 100)).flat()).toEqual(
      keys.filter((key) => key.startsWith('a/1/')).sort(),
    );
    const [first] = (await provider.list(bucket, 'aa/')).objects;
    expect(first).toMatchObject({ key: 'aa/1', size: 4, modifiedAt: expect.any(Date) });
  });
}

async function pagesOf(
  provider: StorageProvider,
  bucket: string,
  prefix: string,
  limit?: number,
): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const page = await provider.list(bucket, prefix, cursor, limit);
    pages.push(page.objects.map(({ key }) => key));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return pages;
}

export function bucketCases(bench: Bench): void {
  bench.check('buckets are made once, and deleted when nothing is in them', async () => {
    const { provider } = bench;
    await provider.probe();
    const bucket = await bench.bucket();
    await provider.createBucket(bucket);
    expect(await provider.bucketExists(bucket)).toBe(true);
    await provider.put({ bucket, key: 'a/b/c' }, bytes('x'), type);
    await expect(provider.deleteBucket(bucket)).rejects.toEqual(refused('NOT_EMPTY'));
    expect(await provider.bucketExists(bucket)).toBe(true);
    await provider.delete({ bucket, key: 'a/b/c' });
    await provider.deleteBucket(bucket);
    await provider.deleteBucket(bucket);
    expect(await provider.bucketExists(bucket)).toBe(false);
  });
}
