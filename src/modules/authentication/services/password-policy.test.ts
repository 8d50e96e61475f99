import { expect, test } from 'vitest';
import { requireStrong, weakness } from './passwords.ts';

const policy = { minLength: 8, blockCommon: true };

test.each([
  'short',
  'password',
  'Password1!',
  'P4ssw0rd',
  'p@ssword2026',
  '12345678',
  '87654321',
  'qwertyuiop',
  'qwerasdf',
  'abcdefgh',
  'aaaaaaaa',
  'abababab',
  '1a1a1a1a1a',
  'sunshine99',
  'ada@example.com',
  'ADA@EXAMPLE.COM',
  'adalovelace',
])('%s is refused', (password) => {
  expect(weakness(password, ['ada@example.com', 'adalovelace'], policy)).toBeTypeOf('string');
});

test.each([
  'correct horse battery staple',
  'tr0ub4dor&3',
  'zulu-hotel-5821',
  '\u03c0\u03b1\u03c3\u03c7\u03b1\u03bb\u03af\u03c4\u03c3\u03b1',
  'x7#kQ!p9',
])('%s is accepted', (password) => {
  expect(weakness(password, ['ada@example.com', null, undefined], policy)).toBeUndefined();
});

test('counts characters, not bytes or code units', () => {
  expect(weakness('\u{1f600}\u{1f601}\u{1f602}\u{1f603}', [], policy)).toContain('8 characters');
  expect(
    weakness(
      '\u{1f600}\u{1f601}\u{1f602}\u{1f603}\u{1f604}\u{1f605}\u{1f606}\u{1f607}',
      [],
      policy,
    ),
  ).toBeUndefined();
});

test('the list can be switched off, the length cannot', () => {
  expect(weakness('password', [], { ...policy, blockCommon: false })).toBeUndefined();
  expect(weakness('pass', [], { ...policy, blockCommon: false })).toBeTypeOf('string');
});

test('the answer names the input field and not the password', () => {
  expect(() => requireStrong('sunshine99', [], policy, 'newPassword')).toThrowError(
    expect.objectContaining({
      status: 400,
      code: 'PASSWORD_WEAK',
      message: expect.not.stringContaining('sunshine'),
      errors: [expect.objectContaining({ path: 'newPassword' })],
    }),
  );
});

test('a text of the greatest length is judged quickly', () => {
  expect(weakness('ab1'.repeat(341), [], policy)).toBeTypeOf('string');
  expect(weakness('abc123xyz-'.repeat(102), [], policy)).toBeUndefined();
});
