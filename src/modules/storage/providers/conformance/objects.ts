/** Objects: put, get, head, delete, copy. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { expect } from 'vitest';
import { type Bench, bytes, digest, read, refused, type } from './bench.ts';

export function objectCases(bench: Bench): void {
  contentCases(bench);
  bytesCases(bench);
  orderCases(bench);
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

function bytesCases(bench: Bench): void {
  bench.check('pieces are the same bytes, also of a content of many pieces', async () => {
    const { provider } = bench;
    if (!provider.pieces) return;
    const whole = randomBytes(1_500_000);
    const place = { bucket: await bench.bucket(), key: 'in pieces' };
    await provider.put(place, whole, { ...type, size: whole.length });
    const range = async ([start, end]: readonly [number, number]): Promise<string> => {
      const found: Buffer[] = [];
      for await (const piece of provider.pieces?.(place, { start, end }) ?? [])
        found.push(Buffer.from(piece));
      return digest(Buffer.concat(found));
    };
    const ranges = [
      [0, 1_499_999],
      [0, 0],
      [262_143, 262_144],
      [500_000, 1_100_000],
    ] as const;
    // Beside each other: none of them gets the memory of another.
    const found = await Promise.all(ranges.map(range));
    expect(found).toEqual(ranges.map(([start, end]) => digest(whole.subarray(start, end + 1))));
    await expect(range([1_499_999, 1_500_000])).rejects.toEqual(refused('OUT_OF_RANGE'));
    await expect(
      provider.pieces({ ...place, key: 'x' }, { start: 0, end: 0 }).next(),
    ).rejects.toEqual(refused('NOT_FOUND'));
    for await (const first of provider.pieces(place, { start: 0, end: 1_499_999 })) {
      expect(first.length).toBeGreaterThan(0);
      break;
    }
  });

  bench.check('short bodies may be bytes, and are as long as announced', async () => {
    const { provider } = bench;
    const place = { bucket: await bench.bucket(), key: 'bytes' };
    expect((await provider.put(place, Buffer.from('five!'), { ...type, size: 5 })).size).toBe(5);
    expect((await read(provider, place)).toString()).toBe('five!');
    expect((await provider.put(place, Buffer.alloc(0), type)).size).toBe(0);
    await expect(provider.put(place, Buffer.from('six'), { ...type, size: 5 })).rejects.toEqual(
      refused('LENGTH_MISMATCH'),
    );
    expect(await read(provider, place)).toHaveLength(0);
  });
}

function orderCases(bench: Bench): void {
  bench.check('nothing is there before what must have happened', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    for (const [key, body, unseen] of [
      ['bytes', Buffer.from('x'), false],
      ['stream', bytes('x'), false],
      ['unseen bytes', Buffer.from('x'), true],
      ['unseen stream', bytes('x'), true],
    ] as const) {
      const before = Promise.withResolvers<void>();
      const putting = provider.put({ bucket, key }, body, {
        ...type,
        after: before.promise,
        isNew: true,
        unseen,
      });
      expect(await provider.head({ bucket, key })).toBeUndefined();
      before.resolve();
      expect(await putting).toMatchObject({ size: 1 });
    }
    for (const unseen of [false, true])
      for (const body of [Buffer.from('x'), bytes('x')]) {
        const after = Promise.reject(new Error('not named'));
        await expect(
          provider.put({ bucket, key: 'never' }, body, { ...type, after, isNew: true, unseen }),
        ).rejects.toThrow('not named');
      }
    expect(await provider.head({ bucket, key: 'never' })).toBeUndefined();
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
