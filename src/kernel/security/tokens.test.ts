import { expect, test } from 'vitest';
import { randomToken, sameSecret, sha256 } from './tokens.ts';

test('random tokens are base64url of the asked size and never repeat', () => {
  const tokens = Array.from({ length: 1000 }, () => randomToken());
  expect(new Set(tokens).size).toBe(1000);
  for (const token of tokens) expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(randomToken(16)).toHaveLength(22);
});

test('sha256 is the published function', () => {
  expect(sha256('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

test('secrets are the same only when they are equal, whatever their lengths', () => {
  expect(sameSecret('a', 'a')).toBe(true);
  expect(sameSecret('', '')).toBe(true);
  expect(sameSecret('a', 'b')).toBe(false);
  expect(sameSecret('a', 'aa')).toBe(false);
});
