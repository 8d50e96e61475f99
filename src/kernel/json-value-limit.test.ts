import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseBoundedJson, requireValueLimit } from './json-value-limit.ts';

/** Values as the count sees them: each list, each object, and each member after the first. */
function counted(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const members = Object.values(value);
  return (
    1 +
    Math.max(0, members.length - 1) +
    members.reduce((sum: number, member) => sum + counted(member), 0)
  );
}

test('counts what stands outside of texts, whatever the texts hold', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const bytes = Buffer.from(JSON.stringify(value));
      const values = counted(value);
      expect(() => requireValueLimit(bytes, 'It', values)).not.toThrow();
      if (values > 0)
        expect(() => requireValueLimit(bytes, 'It', values - 1)).toThrow(
          expect.objectContaining({ status: 413 }),
        );
    }),
    { numRuns: 1_000 },
  );
});

test.each(['', '"', '"\\', '["\\"', '[[[[[[', '"\\\\",,,,', '\u0000'])(
  'reads to the end of what is no JSON: %j',
  (text) => {
    expect(() => requireValueLimit(Buffer.from(text), 'It', 100)).not.toThrow();
  },
);

test('reads backslashes once: a text of nothing else takes no longer than another', () => {
  const quotes = '\\"'.repeat(500_000);
  expect(() => requireValueLimit(Buffer.from(`["${quotes}",1]`), 'It', 2)).not.toThrow();
});

test('parses what holds few values, however long it is', () => {
  const long = JSON.stringify(['a'.repeat(1_000_000)]);
  expect(parseBoundedJson(long, 'It')).toEqual(JSON.parse(long));
  expect(() => parseBoundedJson(`[${'0,'.repeat(500_000)}0]`, 'The result')).toThrow(
    expect.objectContaining({ status: 413, message: expect.stringContaining('The result holds') }),
  );
});

test('looks no further than the value that is too much', () => {
  let looks = 0;
  const bytes = new Proxy(Buffer.from(`[${','.repeat(10_000)}]`), {
    get(target, key) {
      if (typeof key === 'string' && /^[0-9]+$/.test(key)) looks += 1;
      return Reflect.get(target, key, target);
    },
  });
  expect(() => requireValueLimit(bytes, 'It', 100)).toThrow();
  expect(looks).toBeLessThan(200);
});
