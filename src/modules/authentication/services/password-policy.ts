/**
 * Which new passwords are accepted (NIST SP 800-63B, ASVS 6.2): long enough, not well known, not made
 * of the account's own name or the name of the product. No rules about kinds of characters, and nothing
 * is cut off.
 */
import type { PenstockError } from '../../../kernel/errors.ts';
import { authErrors } from '../errors.ts';
import { isGuessable } from './guessable.ts';

export interface PasswordPolicy {
  /** Characters (code points). */
  readonly minLength: number;
  readonly blockCommon: boolean;
  /** Names of the product and the like. */
  readonly contextWords?: readonly string[];
}

/** Characters that any password may have at most, so that hashing costs a bounded amount. Schemas enforce it. */
export const maxPasswordLength = 1024;

/** Shorter words are in too many good passwords by chance. */
const leastWord = 4;
/** What must be left of a password without the words that a guesser knows. */
const leastOwn = 4;

/** What the policy holds against the password, or nothing. `names` are the account's address and user name. */
export function weakness(password: string, names: readonly (string | null | undefined)[], policy: PasswordPolicy): string | undefined {
  const text = password.normalize('NFKC');
  const characters = [...text];
  if (characters.length < policy.minLength) return `use at least ${policy.minLength} characters`;
  if (new Set(characters).size < 3) return 'this repeats the same characters';
  if (policy.blockCommon && isGuessable(text)) return 'this is one of the passwords that are tried first';
  const own = wordsOf(names);
  if (own.includes(text.toLowerCase())) return 'this is the name of the account';
  const words = [...own, ...(policy.contextWords ?? []).map((word) => word.normalize('NFKC').toLowerCase())];
  if (isLittleMoreThan(text.toLowerCase(), words)) return 'this is little more than the name of the account or of the product';
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
  if (message) throw weakPassword(message, path);
}

export const weakPassword = (message: string, path: string): PenstockError =>
  authErrors.WEAK_PASSWORD({ message: `${path}: ${message}`, errors: [{ path, rule: 'password', message }] });

/** The names themselves, and the parts of an address. */
const wordsOf = (names: readonly (string | null | undefined)[]): string[] =>
  names.flatMap((name) => {
    if (!name) return [];
    const [local = '', domain = ''] = name.toLowerCase().split('@', 2);
    return [name.toLowerCase(), local, ...domain.split('.')];
  });

function isLittleMoreThan(text: string, words: readonly string[]): boolean {
  const known = words.filter((word) => word.length >= leastWord).sort((a, b) => b.length - a.length);
  const own = known.reduce((rest, word) => rest.replaceAll(word, ''), text);
  return own.length < text.length && [...own].length < leastOwn;
}
