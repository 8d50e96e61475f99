/** The one form in which a user name is stored and compared. */
import { invalid } from '../../../kernel/errors.ts';
import { authErrors } from '../errors.ts';

const shape = /^[a-z0-9](?:[a-z0-9._-]{1,62})[a-z0-9]$/;
/** E.164: a plus sign, then up to 15 digits that do not start with zero. */
const e164 = /^\+[1-9]\d{6,14}$/;

/** Lower case and normalised; throws INVALID_USERNAME. */
export function canonicalUsername(text: string): string {
  const name = text.normalize('NFKC').toLowerCase();
  if (shape.test(name)) return name;
  const message = 'use 3 to 64 of the characters a-z, 0-9, dot, dash and underscore, with a letter or digit at both ends';
  throw authErrors.INVALID_USERNAME({ message: `username: ${message}`, errors: [{ path: 'username', rule: 'pattern', message }] });
}

/** A phone number without spaces, dashes and brackets; throws 400. */
export function canonicalPhoneNumber(text: string): string {
  const number = text.replace(/[\s()-]/g, '');
  if (!e164.test(number)) throw invalid('phoneNumber', 'format', 'write the number with its country, like +306900000000');
  return number;
}
