/** Two names that look alike are never two accounts (Unicode TR 39, https://www.unicode.org/reports/tr39/): names are plain ASCII in one form. */
import { expect, test } from 'vitest';
import { canonicalUsername } from './identifiers.ts';

test.each([
  ['Ada.Lovelace', 'ada.lovelace'],
  ['GRACE_HOPPER-1', 'grace_hopper-1'],
  ['\uff41\uff44\uff41', 'ada'],
  ['\u212aate', 'kate'],
])('%s is stored as %s', (text, canonical) => expect(canonicalUsername(text)).toBe(canonical));

test.each([
  '\u0430da',
  'ad\u03b1',
  'ada\u200b',
  'a\u0308da',
  '\u00e4da',
  'ad\u0131',
  'ada\u202e',
  'ada\u0000',
  'ada lovelace',
  'ada@example.com',
  '.ada',
  'ada.',
  'a',
  'ad',
  '',
  'a'.repeat(65),
  '__proto__',
  'admin\n',
])('%j is refused with 400 that names the field', (text) => {
  expect(() => canonicalUsername(text)).toThrowError(
    expect.objectContaining({
      status: 400,
      code: 'USERNAME_INVALID',
      errors: [expect.objectContaining({ path: 'username' })],
    }),
  );
});
