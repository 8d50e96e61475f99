/** Accepts a new password: policy, list of leaked ones, hash. The one way to a stored password. */

import { createHash } from 'node:crypto';
import type { PenstockError } from '../../../kernel/errors.ts';
import { createOutboundFetch } from '../../../kernel/outbound.ts';
import { isCommonPassword, type PasswordHasher } from '../../../kernel/security/password-hasher.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';

/*
 * Recognises passwords that guessing starts with: those of the common list, also dressed up (digits and
 * signs around them, letters as digits), runs of the keyboard or the alphabet, and repetitions.
 */

const rows = [
  '12345678901234567890',
  'qwertyuiop',
  'asdfghjkl',
  'zxcvbnm',
  'qwertzuiop',
  'azertyuiop',
  'abcdefghijklmnopqrstuvwxyz',
  '1qaz2wsx3edc4rfv5tgb6yhn',
  '1q2w3e4r5t6y7u8i9o0p',
];
const lines = rows.flatMap((row) => [row, [...row].reverse().join('')]);
const letterOf = new Map(
  Object.entries({
    '0': 'o',
    '1': 'i',
    '3': 'e',
    '4': 'a',
    '5': 's',
    '7': 't',
    '@': 'a',
    $: 's',
    '!': 'i',
  }),
);

/** True when a guesser would come to it in the first minutes. */
function isGuessable(password: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  const bare = betweenLetters(text);
  return (
    [text, bare].some(
      (form) => isCommonPassword(form) || isCommonPassword(undisguised(form)) || isRuns(form),
    ) || isRepetition(text)
  );
}

/** From the first letter to the last one. */
function betweenLetters(text: string): string {
  const isLetter = (character: string): boolean => character >= 'a' && character <= 'z';
  const characters = [...text];
  const first = characters.findIndex(isLetter);
  return first < 0 ? '' : characters.slice(first, characters.findLastIndex(isLetter) + 1).join('');
}

/** The letters behind digits and signs: `p4ssw0rd` is `password`. */
const undisguised = (text: string): string =>
  [...text].map((character) => letterOf.get(character) ?? character).join('');

/** One stretch of the keyboard, or several in a row (`qwerasdf`). */
function isRuns(text: string): boolean {
  let rest = text;
  while (rest.length > 0) {
    const length = runLength(rest);
    if (length < 3) return false;
    rest = rest.slice(length);
  }
  return text.length > 0;
}

/** How many of the first characters stand side by side in one line. */
function runLength(text: string): number {
  let best = 0;
  for (const line of lines) {
    while (best < text.length && line.includes(text.slice(0, best + 1))) best += 1;
  }
  return best;
}

/** A text of up to four characters again and again: `abcabcabc`. */
function isRepetition(text: string): boolean {
  const period = (text + text).indexOf(text, 1);
  return period < text.length && period <= 4;
}

/*
 * Which new passwords are accepted (NIST SP 800-63B, ASVS 6.2): long enough, not well known, not made
 * of the account's own name or the name of the product. No rules about kinds of characters, and nothing
 * is cut off.
 */

interface PasswordPolicy {
  /** Characters (code points). */
  readonly minLength: number;
  readonly blockCommon: boolean;
  /** Names of the product and the like. */
  readonly contextWords?: readonly string[];
}

/** Characters that any password may have at most, so that hashing costs a bounded amount. Schemas enforce it. */
export const maxPasswordLength = 1024;

/** Shorter words are in too many good passwords by chance. */
const minWord = 4;
/** What must be left of a password without the words that a guesser knows. */
const minOwn = 4;

/** What the policy holds against the password, or nothing. `names` are the account's address and user name. */
export function weakness(
  password: string,
  names: readonly (string | null | undefined)[],
  policy: PasswordPolicy,
): string | undefined {
  const text = password.normalize('NFKC');
  const characters = [...text];
  if (characters.length < policy.minLength) return `use at least ${policy.minLength} characters`;
  if (new Set(characters).size < 3) return 'this repeats the same characters';
  if (policy.blockCommon && isGuessable(text))
    return 'this is one of the passwords that are tried first';
  const own = wordsOf(names);
  if (own.includes(text.toLowerCase())) return 'this is the name of the account';
  const words = [
    ...own,
    ...(policy.contextWords ?? []).map((word) => word.normalize('NFKC').toLowerCase()),
  ];
  if (isLittleMoreThan(text.toLowerCase(), words))
    return 'this is little more than the name of the account or of the product';
  return undefined;
}

/** Throws PASSWORD_WEAK; `path` names the input field in the answer. */
export function requireStrong(
  password: string,
  names: readonly (string | null | undefined)[],
  policy: PasswordPolicy,
  path = 'password',
): void {
  const message = weakness(password, names, policy);
  if (message) throw weakPassword(message, path);
}

const weakPassword = (message: string, path: string): PenstockError =>
  authErrors.PASSWORD_WEAK({
    message: `${path}: ${message}`,
    errors: [{ path, rule: 'password', message }],
  });

/** The names themselves, and the parts of an address. */
const wordsOf = (names: readonly (string | null | undefined)[]): string[] =>
  names.flatMap((name) => {
    if (!name) return [];
    const [local = '', domain = ''] = name.toLowerCase().split('@', 2);
    return [name.toLowerCase(), local, ...domain.split('.')];
  });

function isLittleMoreThan(text: string, words: readonly string[]): boolean {
  const known = words.filter((word) => word.length >= minWord).sort((a, b) => b.length - a.length);
  const own = known.reduce((rest, word) => rest.replaceAll(word, ''), text);
  return own.length < text.length && [...own].length < minOwn;
}

/*
 * Looks a password up in a list of leaked ones without telling it: only the first five of forty
 * characters of its SHA-1 leave the platform, and the answer (hundreds of candidates, padded) is searched
 * here. The protocol is that of https://haveibeenpwned.com/API/v3#PwnedPasswords, which other services offer too.
 */

/** True for a password that was leaked. Throws BREACH_CHECK_UNAVAILABLE where the configuration wants that. */
type BreachCheck = (password: string) => Promise<boolean>;

const timeoutMs = 3000;
const maxBytes = 1024 * 1024;

export function createBreachCheck(
  config: () => AuthenticationConfig['passwords']['breached'],
  log: Logger,
): BreachCheck {
  // The address comes from an operator, who may run the list in their own network.
  const fetch = createOutboundFetch({ allowInternal: () => true, timeoutMs, maxBytes });

  const lookUp = async (url: string, password: string): Promise<boolean> => {
    const hash = createHash('sha1').update(password.normalize('NFKC')).digest('hex').toUpperCase();
    const response = await fetch(`${url}${hash.slice(0, 5)}`, {
      headers: { 'add-padding': 'true' },
    });
    if (response.status !== 200) throw new Error(`the service answered ${response.status}`);
    return isListed(await response.text(), hash.slice(5));
  };

  return async (password) => {
    const { enabled, url, failClosed } = config();
    if (!enabled) return false;
    try {
      return await lookUp(url, password);
    } catch (error) {
      log.warn(
        { err: error, refused: failClosed },
        'A new password could not be looked up in the list of leaked ones',
      );
      if (failClosed) throw authErrors.BREACH_CHECK_UNAVAILABLE({ retryAfter: 30, cause: error });
      return false;
    }
  };
}

/** Lines `<35 characters of the hash>:<count>`; padding has the count 0. */
const isListed = (lines: string, suffix: string): boolean =>
  lines.split('\n').some((line) => {
    const [candidate, count] = line.trim().split(':', 2);
    return candidate?.toUpperCase() === suffix && Number(count) > 0;
  });

/** Answers the hash; throws PASSWORD_WEAK. `names` are those of the account, `path` the input field in the answer. */
export type NewPassword = (
  password: string,
  names: readonly (string | null | undefined)[],
  path?: string,
) => Promise<string>;

interface Dependencies {
  readonly passwords: PasswordHasher;
  readonly isBreached: BreachCheck;
  readonly config: () => AuthenticationConfig['passwords'];
}

export const createNewPassword =
  ({ passwords, isBreached, config }: Dependencies): NewPassword =>
  async (password, names, path = 'password') => {
    requireStrong(password, names, config(), path);
    if (await isBreached(password))
      throw weakPassword('this password is in a list of leaked ones', path);
    return passwords.hash(password);
  };
