/** Objects: put, get, head, delete, copy. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { expect } from 'vitest';
import { type Bench, bytes, digest, read, refused, type } from './bench.ts';

export function objectCases(bench: Bench): void {
  contentCases(bench);
  copyCases(bench);
  parallelCases(bench);
}

function contentCases(bench: Bench): void {
  bench.check('what is put is read, described, replaced and deleted', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'notes/one.txt' };
    expect(await provider.head(place)).toBeUndefined();
    await expect(provider.get(place)).rejects.toEqual(refused('NOT_FOUND'));
    const first = await provider.put(place, bytes('first'), { contentType: 'text/plain', size: 5 });
    expect(first).toMatchObject({ size: 5, etag: expect.stringMatching(/^[^"]+$/) });
    const head = await provider.head(place);
    expect(head).toMatchObject({ size: 5, etag: first.etag });
    expect(head?.contentType).toBe(bench.traits.keepsContentType ? 'text/plain' : undefined);
    expect(Math.abs((head?.modifiedAt.getTime() ?? 0) - Date.now())).toBeLessThan(3_600_000);
    const second = await provider.put(place, bytes('second'), { contentType: 'text/plain' });
    expect(second.etag).not.toBe(first.etag);
    expect((await read(provider, place)).toString()).toBe('second');
    await provider.delete(place);
    await provider.delete(place);
    expect(await provider.head(place)).toBeUndefined();
  });

  bench.check('an empty object is an object', async () => {
    const place = { bucket: await bench.bucket(), key: 'empty' };
    expect((await bench.provider.put(place, Readable.from([]), type)).size).toBe(0);
    expect(await read(bench.provider, place)).toHaveLength(0);
    expect((await bench.provider.head(place))?.size).toBe(0);
  });

  bench.check('ranges are what they say', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'digits' };
    await provider.put(place, bytes('0123456789'), type);
    const range = async (start: number, end: number) =>
      (await read(provider, place, { start, end })).toString();
    expect(await range(0, 0)).toBe('0');
    expect(await range(3, 5)).toBe('345');
    expect(await range(8, 500)).toBe('89');
    await expect(range(10, 12)).rejects.toEqual(refused('OUT_OF_RANGE'));
  });
}

function copyCases(bench: Bench): void {
  bench.check('a large body of unknown length arrives whole', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const chunks = Array.from({ length: 41 }, () => randomBytes(1024 * 1024 - 7));
    const whole = digest(Buffer.concat(chunks));
    const place = { bucket, key: 'large' };
    const facts = await provider.put(place, Readable.from(chunks), type);
    expect(facts.size).toBe(41 * (1024 * 1024 - 7));
    expect(digest(await read(provider, place))).toBe(whole);
    const copied = await provider.copy(place, { bucket, key: 'large copy' });
    expect(copied.size).toBe(facts.size);
    expect(digest(await read(provider, { bucket, key: 'large copy' }))).toBe(whole);
  });

  bench.check('copies, also into another bucket and over an older object', async () => {
    const { provider } = bench;
    const from = { bucket: await bench.bucket(), key: 'a b/#1?.txt' };
    const to = { bucket: await bench.bucket(), key: 'x/ü%20.txt' };
    await provider.put(from, bytes('copy me'), { contentType: 'text/plain' });
    await provider.put(to, bytes('old'), type);
    expect((await provider.copy(from, to)).size).toBe(7);
    expect((await read(provider, to)).toString()).toBe('copy me');
    expect((await read(provider, from)).toString()).toBe('copy me');
    await expect(provider.copy({ ...from, key: 'absent' }, to)).rejects.toEqual(
      refused('NOT_FOUND'),
    );
    expect((await read(provider, to)).toString()).toBe('copy me');
  });
}

function parallelCases(bench: Bench): void {
  bench.check('parallel calls for many buckets do not meet', async () => {
    const { provider } = bench;
    const buckets = await Promise.all(Array.from({ length: 20 }, () => bench.bucket()));
    const all = Array.from({ length: 200 }, (_, at) => ({
      bucket: buckets[at % 20] ?? '',
      key: `f/${at}`,
    }));
    await Promise.all(all.map((place) => provider.put(place, bytes(JSON.stringify(place)), type)));
    for (const [at, bucket] of buckets.entries()) {
      const { objects } = await provider.list(bucket, '');
      const own = all.filter((_, index) => index % 20 === at).map(({ key }) => key);
      expect(objects.map(({ key }) => key)).toEqual(own.sort());
    }
    for (const place of all.slice(0, 20))
      expect((await read(provider, place)).toString()).toBe(JSON.stringify(place));
  });

  bench.check('of parallel puts of one key, one is there whole', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'same' };
    const bodies = Array.from({ length: 10 }, (_, at) => Buffer.alloc(300_000, at));
    await Promise.all(bodies.map((body) => provider.put(place, Readable.from([body]), type)));
    expect(bodies.map(digest)).toContain(digest(await read(provider, place)));
  });
}
