/**
 * One mailbox, one account: https://github.com/advisories/GHSA-7rqj-j65f-68wh (validated before it was
 * normalised) and OWASP ASVS 5.0 section 6.3.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalEmail } from './identifiers.ts';

test.each([
  ['Ada@Example.com', 'ada@example.com'],
  ['ADA+news@EXAMPLE.COM', 'ada+news@example.com'],
  ['\uff41\uff44\uff41@example.com', 'ada@example.com'],
  ['\u212aate@example.com', 'kate@example.com'],
  ['o\u2019brien'.replace('\u2019', "'").concat('@example.ie'), "o'brien@example.ie"],
  ['info@M\u00fcnchen.example', 'info@xn--mnchen-3ya.example'],
  ['info@mu\u0308nchen.example', 'info@xn--mnchen-3ya.example'],
])('%s is stored as %s', (text, canonical) => {
  expect(canonicalEmail(text)).toBe(canonical);
  expect(canonicalEmail(canonical)).toBe(canonical);
});

test.each([
  '',
  'ada',
  '@example.com',
  'ada@',
  'ada@localhost',
  'ada@example.com.',
  'ada@example..com',
  'ada@-example.com',
  'ada@127.0.0.1',
  'ada@0x7f.1',
  'ada@[127.0.0.1]',
  'ada@example.com:25',
  'ada@example.com/x',
  'ada@evil.com@example.com',
  'ada\uff20evil.com@example.com',
  'ada\ufe6bexample.com',
  'ada\uff20example.com',
  '"ada lovelace"@example.com',
  'ada lovelace@example.com',
  ' ada@example.com',
  'ada@example.com ',
  'ada\u0000@example.com',
  'ada\u200b@example.com',
  'ad\u0131@example.com',
  '\u0430da@example.com',
  '.ada@example.com',
  'ada.@example.com',
  'a..da@example.com',
  `${'a'.repeat(65)}@example.com`,
  `ada@${'a'.repeat(64)}.com`,
  `ada@${'abcdefgh.'.repeat(30)}com`,
  'a'.repeat(65_536),
])('%j is refused with 400 that names the field', (text) => {
  expect(() => canonicalEmail(text)).toThrowError(
    expect.objectContaining({
      status: 400,
      code: 'EMAIL_INVALID',
      errors: [expect.objectContaining({ path: 'email', rule: 'email' })],
    }),
  );
});

test('whatever is accepted is in its canonical form afterwards, and in plain ASCII', () => {
  const local = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
  const domain = fc.oneof(
    fc.domain(),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).map((label) => `${label}.com`),
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.emailAddress(),
        fc.tuple(local, domain).map((parts) => parts.join('@')),
      ),
      (text) => {
        const canonical = attempt(text);
        if (canonical === undefined) return;
        expect(canonical).toMatch(/^[!-?A-~]+@[a-z0-9.-]+$/);
        expect(canonicalEmail(canonical)).toBe(canonical);
        expect(canonicalEmail(canonical.toUpperCase())).toBe(canonical);
      },
    ),
    { numRuns: 2000 },
  );
});

function attempt(text: string): string | undefined {
  try {
    return canonicalEmail(text);
  } catch {
    return undefined;
  }
}
