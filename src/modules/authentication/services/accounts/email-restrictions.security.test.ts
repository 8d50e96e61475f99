/** Which addresses become accounts (spec/authentication.md 5.12): reserved and throw-away domains, lists by whole labels. */
import { expect, test } from 'vitest';
import { silentLog } from '../../../../../test/support/quiet.ts';
import { createEmailGate, refusal } from './identifiers.ts';

const off = {
  enabled: false,
  blockDisposableEmails: true,
  blockPlusAddressing: true,
  blockedAddresses: ['Spammer@Example.com'],
  blockedDomains: ['blocked.example', '@at.example', 'com', ' Padded.Example '],
  allowedAddresses: ['friend+list@blocked.example'],
  allowedDomains: ['partner.mailinator.com'],
};
const on = { ...off, enabled: true };

test.each(['x@anonymous.com', 'x@deep.er.anonymous.com'])(
  '%s is reserved, also while the rules are off',
  (email) => {
    expect(refusal(email, off)).toBe('reserved domain');
  },
);

test.each([
  ['ada+news@example.org', 'plus addressing'],
  ['spammer@example.com', 'blocked address'],
  ['x@blocked.example', 'blocked domain'],
  ['x@a.b.blocked.example', 'blocked domain'],
  ['x@at.example', 'blocked domain'],
  ['x@padded.example', 'blocked domain'],
  ['x@mailinator.com', 'disposable address'],
  ['x@some.new.name.mailinator.com', 'disposable address'],
])('%s is refused: %s', (email, reason) => {
  expect(refusal(email, on)).toBe(reason);
  expect(refusal(email, off)).toBeUndefined();
});

test.each([
  'ada@example.org',
  'x@evilblocked.example',
  'x@blocked.example.org',
  'x@notanonymous.com',
  'friend+list@blocked.example',
  'x@partner.mailinator.com',
  'ada@example.com',
])('%s is accepted', (email) => expect(refusal(email, on)).toBeUndefined());

test('the answer names the field and not the reason', () => {
  const gate = createEmailGate(() => on, silentLog);
  expect(() => gate('x@mailinator.com', 'newEmail')).toThrowError(
    expect.objectContaining({
      status: 400,
      code: 'EMAIL_NOT_ALLOWED',
      message: expect.not.stringContaining('dispos'),
      errors: [expect.objectContaining({ path: 'newEmail' })],
    }),
  );
});
