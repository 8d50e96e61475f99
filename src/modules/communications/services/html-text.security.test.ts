/**
 * Mails whose HTML makes the platform stand still (CWE-1333, inefficient regular expressions; Parse GHSA-mf3j-86qx-cq5j,
 * https://github.com/advisories/GHSA-mf3j-86qx-cq5j). Whoever searches each of these back does not end in time.
 */
import { expect, test } from 'vitest';
import { linksIn, plainText } from './content.ts';

/** Characters; as long as the longest body that a route takes. */
const length = 200_000;
const repeated = (text: string): string => text.repeat(Math.ceil(length / text.length));

test.each([
  ['<', 'no end of a tag'],
  ['<style>', 'elements that are not closed'],
  ['<style><title>', 'of several kinds'],
  ['<a ', 'links without an end'],
  ['<a href="x" ', 'links without an end, with addresses'],
  ['<a href="x">', 'links that are not closed'],
  ['<a href="x', 'addresses without an end'],
  ['</a>', 'ends of nothing'],
  [' \n', 'spaces and lines'],
  ['&amp', 'entities without an end'],
])('%j again and again: %s', (piece) => {
  expect(plainText(repeated(piece)).length).toBeLessThanOrEqual(length + piece.length);
  expect(linksIn(repeated(piece)).length).toBeLessThanOrEqual(length);
});
