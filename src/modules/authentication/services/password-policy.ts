/**
 * Which new passwords are accepted (NIST SP 800-63B, ASVS 6.2): long enough, not well known, not made
 * of the account's own name. No rules about kinds of characters, and nothing is cut off.
 */
import { authErrors } from '../errors.ts';
import { isGuessable } from './guessable.ts';

export interface PasswordPolicy {
  /** Characters (code points). */
  readonly minLength: number;
  readonly blockCommon: boolean;
}

/** Characters that any password may have at most, so that hashing costs a bounded amount. Schemas enforce it. */
export const maxPasswordLength = 1024;

/** What the policy holds against the password, or nothing. `names` are the account's address and user name. */
export function weakness(password: string, names: readonly (string | null | undefined)[], policy: PasswordPolicy): string | undefined {
  const text = password.normalize('NFKC');
  const characters = [...text];
  if (characters.length < policy.minLength) return `use at least ${policy.minLength} characters`;
  if (new Set(characters).size < 3) return 'this repeats the same characters';
  if (policy.blockCommon && isGuessable(text)) return 'this is one of the passwords that are tried first';
  if (namesOf(names).includes(text.toLowerCase())) return 'this is the name of the account';
  return undefined;
}

/** Throws WEAK_PASSWORD; `path` names the input field in the answer. */
export function requireStrong(
  password: string,
  names: readonly (string | null | undefined)[],
  policy: PasswordPolicy,
  path = 'password',
): void {
  const message = weakness(password, names, policy);
  if (message) throw authErrors.WEAK_PASSWORD({ message: `${path}: ${message}`, errors: [{ path, rule: 'password', message }] });
}

const namesOf = (names: readonly (string | null | undefined)[]): string[] =>
  names.flatMap((name) => (name ? [name.toLowerCase(), name.toLowerCase().split('@', 1)[0] ?? ''] : []));
