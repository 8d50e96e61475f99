/** Phone numbers in the one form in which they are stored and compared: E.164. */
import { factorErrors } from '../../factor-errors.ts';

const shape = /^\+[1-9]\d{6,14}$/;

/**
 * The number without spaces, dashes and brackets. Throws PHONE_NOT_USABLE for one that no phone of
 * its country has by its length, and for countries that are not among `countries` (two letters; none: all). `path` names the input field.
 */
export async function usablePhoneNumber(text: string, countries: readonly string[], path = 'phone'): Promise<string> {
  // The tables of all countries are loaded when the first number comes.
  const { parsePhoneNumberFromString } = await import('libphonenumber-js/min');
  const parsed = parsePhoneNumberFromString(text);
  // Not `isValid`: what countries give out changes faster than such tables do.
  const isUsable = parsed?.isPossible() === true && parsed.ext === undefined && shape.test(parsed.number);
  if (!isUsable) throw refused(path, 'format', 'write the number with its country, like +306900000000');
  const isAllowed = countries.length === 0 || (parsed.country !== undefined && countries.includes(parsed.country));
  if (!isAllowed) throw refused(path, 'country', 'numbers of this country cannot be used here');
  return parsed.number;
}

const refused = (path: string, rule: string, message: string) =>
  factorErrors.PHONE_NOT_USABLE({ message: `${path}: ${message}`, errors: [{ path, rule, message }] });

/** The number with all but its first and last two digits hidden. */
export const maskedPhoneNumber = (number: string): string =>
  `${number.slice(0, 3)}${'*'.repeat(Math.max(0, number.length - 5))}${number.slice(-2)}`;
