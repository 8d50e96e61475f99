/** Names of objects and buckets. */
import { expect, test } from 'vitest';
import { type Bench, bytes, read, refused, type } from './bench.ts';

/** Names that file systems, URLs, shells and XML take for something else. */
const strangeKeys = [
  'plain.txt',
  'PLAIN.txt',
  'with space and  two',
  'a/b/c/d.txt',
  'a/b',
  '#fragment?query=1&x=2',
  '100%',
  '%2e%2e%2f',
  '%41',
  'A',
  'plus+sign',
  'quote"\'`',
  '<tag>&amp;',
  'semi;colon:at@',
  'tilde~1',
  'café',
  'cafe\u0301',
  '日本語/ファイル.txt',
  '😀.png',
  '-rf',
  '.hidden',
  'dot.',
  'CON',
  '*star*[1]{2}$(x)',
  `${'n'.repeat(255)}/${'ö'.repeat(127)}`,
  `${'n'.repeat(80)}`,
  `${'n'.repeat(79)}/x`,
  `${'n'.repeat(80)}/x`,
  `${'n'.repeat(80)}!`,
];

export function keyCases(bench: Bench): void {
  bench.check('every key is itself', async () => {
    const { provider } = bench;
    const bucket = await bench.bucket();
    for (const key of strangeKeys)
      await provider.put({ bucket, key }, bytes(`body of ${key}`), type);
    for (const key of strangeKeys)
      expect((await read(provider, { bucket, key })).toString()).toBe(`body of ${key}`);
    const { objects } = await provider.list(bucket, '');
    const byBytes = [...strangeKeys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(objects.map(({ key }) => key)).toEqual(byBytes);
    for (const key of strangeKeys) await provider.delete({ bucket, key });
    expect((await provider.list(bucket, '')).objects).toEqual([]);
  });

  test.each([
    '',
    '/a',
    'a/',
    'a//b',
    '.',
    '..',
    '../x',
    'a/../../x',
    'a/./b',
    'back\\slash',
    'nul\0',
    '\ud800',
    'x'.repeat(1025),
  ])('the key %j is refused by every call', async (key) => {
    const { provider } = bench;
    const good = { bucket: await bench.bucket(), key: 'good' };
    const bad = { ...good, key };
    await provider.put(good, bytes('good'), type);
    const invalid = refused('INVALID_PLACE');
    await expect(provider.put(bad, bytes('x'), type)).rejects.toEqual(invalid);
    await expect(provider.get(bad)).rejects.toEqual(invalid);
    await expect(provider.head(bad)).rejects.toEqual(invalid);
    await expect(provider.delete(bad)).rejects.toEqual(invalid);
    await expect(provider.copy(good, bad)).rejects.toEqual(invalid);
    await expect(provider.copy(bad, good)).rejects.toEqual(invalid);
    await expect(provider.multipart.begin(bad, type)).rejects.toEqual(invalid);
  });

  test.each(['', '..', 'a', '../x', 'UPPER', 'a/b', 'a..b', '.tmp', 'x'.repeat(64)])(
    'the bucket %j is refused by every call',
    async (bucket) => {
      const { provider } = bench;
      const invalid = refused('INVALID_PLACE');
      await expect(provider.createBucket(bucket)).rejects.toEqual(invalid);
      await expect(provider.bucketExists(bucket)).rejects.toEqual(invalid);
      await expect(provider.deleteBucket(bucket)).rejects.toEqual(invalid);
      await expect(provider.list(bucket, '')).rejects.toEqual(invalid);
      await expect(provider.put({ bucket, key: 'a' }, bytes('x'), type)).rejects.toEqual(invalid);
    },
  );
}
