import fc from 'fast-check';
import { expect, it } from 'vitest';
import { turnsDuring } from '../../test/support/turns.ts';
import { canonicalText, canonicalTextInSlices, checksumInSlices, checksumOf } from './canonical.ts';

it('has the same text and the same checksum in slices as at once', async () => {
  const json = fc.jsonValue({ maxDepth: 7 });
  const withHoles = fc.array(fc.oneof(json, fc.constant(undefined)));
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(json, withHoles, fc.dictionary(fc.nat().map(String), json)),
      async (value) => {
        expect(await canonicalTextInSlices(value)).toBe(canonicalText(value));
        expect(await checksumInSlices(value)).toBe(checksumOf(value));
      },
    ),
  );
  const gaps = { b: undefined, a: { 10: 1, 9: [undefined, null] } };
  expect(await canonicalTextInSlices(gaps)).toBe(canonicalText(gaps));
});

it('leaves others their turn between the parts of what is large', async () => {
  const value = { modules: { database: Array.from({ length: 30 }, (_, i) => ({ name: i })) } };
  expect(await turnsDuring(() => checksumInSlices(value))).toBeGreaterThanOrEqual(30);
});
