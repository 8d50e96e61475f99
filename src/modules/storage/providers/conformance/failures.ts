/** Bodies and places that are not what they should be. */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { type Bench, bytes, read, refused, type } from './bench.ts';

/** Large enough to be on its way when it fails. */
async function* breaking(): AsyncGenerator<Buffer> {
  for (let at = 0; at < 3; at++) yield Buffer.alloc(8 * 1024 * 1024, at);
  throw new Error('the sender went away');
}

export function failureCases(bench: Bench): void {
  bodyCases(bench);
  placeCases(bench);
}

function bodyCases(bench: Bench): void {
  bench.check('a body that breaks leaves nothing, and what was there stays', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const place = { bucket, key: 'broken' };
    await expect(provider.put(place, Readable.from(breaking()), type)).rejects.toThrow(
      'the sender went away',
    );
    expect((await provider.list(bucket, '')).objects).toEqual([]);
    await provider.put(place, bytes('whole'), type);
    await expect(provider.put(place, Readable.from(breaking()), type)).rejects.toThrow(
      'the sender went away',
    );
    expect((await read(provider, place)).toString()).toBe('whole');
    const early = Readable.from(
      (async function* () {
        yield Buffer.from('a');
        throw new Error('at once');
      })(),
    );
    await expect(provider.put(place, early, { ...type, size: 10 })).rejects.toThrow('at once');
    expect((await read(provider, place)).toString()).toBe('whole');
  });

  bench.check('a body that breaks where nobody looks leaves nothing either', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const unseen = { ...type, isNew: true, unseen: true };
    const put = (key: string, body: Readable | Buffer, size?: number) =>
      provider.put({ bucket, key: `deep/er/${key}` }, body, { ...unseen, size });
    await expect(put('broken', Readable.from(breaking()))).rejects.toThrow('the sender went away');
    await expect(put('short', Buffer.from('abc'), 5)).rejects.toEqual(refused('LENGTH_MISMATCH'));
    const body = bytes('abcdefgh');
    await expect(put('long', body, 5)).rejects.toEqual(refused('LENGTH_MISMATCH'));
    expect(body.destroyed).toBe(true);
    expect((await provider.list(bucket, '')).objects).toEqual([]);
    const many = Array.from({ length: 30 }, (_, n) => `${n % 3}/${n}`);
    await Promise.all(
      many.map((key) => put(key, key.endsWith('1') ? bytes(key) : Buffer.from(key))),
    );
    for (const key of many)
      expect((await read(provider, { bucket, key: `deep/er/${key}` })).toString()).toBe(key);
    const absent = { bucket: `absent-${randomUUID()}`, key: 'x/y' };
    await expect(provider.put(absent, bytes('x'), unseen)).rejects.toEqual(refused('NOT_FOUND'));
  });

  test.each([
    ['shorter', 'abc'],
    ['longer', 'abcdefgh'],
  ])('a body that is %s than announced is refused', async (_, body) => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    await expect(
      provider.put({ bucket, key: 'length' }, bytes(body), { ...type, size: 5 }),
    ).rejects.toEqual(refused('LENGTH_MISMATCH'));
    const large = Readable.from([Buffer.alloc(20_000_000), Buffer.from(body)]);
    await expect(
      provider.put({ bucket, key: 'length' }, large, { ...type, size: 20_000_005 }),
    ).rejects.toEqual(refused('LENGTH_MISMATCH'));
    expect((await provider.list(bucket, '')).objects).toEqual([]);
  });
}

function placeCases(bench: Bench): void {
  bench.check('a put that nobody waits for any more leaves nothing', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    const place = { bucket, key: 'aborted' };
    const before = bytes('x');
    await expect(provider.put(place, before, type, AbortSignal.abort())).rejects.toEqual(
      refused('ABORTED'),
    );
    expect(before.destroyed).toBe(true);
    const abort = new AbortController();
    const endless = Readable.from(
      (async function* () {
        for (let at = 0; ; at++) {
          if (at === 40) abort.abort();
          yield Buffer.alloc(512 * 1024);
        }
      })(),
    );
    await expect(provider.put(place, endless, type, abort.signal)).rejects.toEqual(
      refused('ABORTED'),
    );
    expect(endless.destroyed).toBe(true);
    expect((await provider.list(bucket, '')).objects).toEqual([]);
  });

  bench.check('a bucket that is not there is not made by the way', async () => {
    const { provider } = bench;
    const place = { bucket: `absent-${randomUUID()}`, key: 'x/y' };
    const body = bytes('x');
    await expect(provider.put(place, body, type)).rejects.toEqual(refused('NOT_FOUND'));
    expect(body.destroyed).toBe(true);
    await expect(provider.get(place)).rejects.toEqual(refused('NOT_FOUND'));
    await expect(provider.list(place.bucket, '')).rejects.toEqual(refused('NOT_FOUND'));
    await provider.delete(place);
    expect(await provider.head(place)).toBeUndefined();
    expect(await provider.bucketExists(place.bucket)).toBe(false);
  });
}
