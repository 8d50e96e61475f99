/**
 * Recognises passwords that guessing starts with: those of the common list, also dressed up (digits and
 * signs around them, letters as digits), runs of the keyboard or the alphabet, and repetitions.
 */
import { isCommonPassword } from '../../../kernel/security/common-passwords.ts';

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
const letterOf = new Map(Object.entries({ '0': 'o', '1': 'i', '3': 'e', '4': 'a', '5': 's', '7': 't', '@': 'a', $: 's', '!': 'i' }));

/** True when a guesser would come to it in the first minutes. */
export function isGuessable(password: string): boolean {
  const text = password.normalize('NFKC').toLowerCase();
  const bare = betweenLetters(text);
  return [text, bare].some((form) => isCommonPassword(form) || isCommonPassword(undisguised(form)) || isRuns(form)) || isRepetition(text);
}

/** From the first letter to the last one. */
function betweenLetters(text: string): string {
  const isLetter = (character: string): boolean => character >= 'a' && character <= 'z';
  const characters = [...text];
  const first = characters.findIndex(isLetter);
  return first < 0 ? '' : characters.slice(first, characters.findLastIndex(isLetter) + 1).join('');
}

/** The letters behind digits and signs: `p4ssw0rd` is `password`. */
const undisguised = (text: string): string => [...text].map((character) => letterOf.get(character) ?? character).join('');

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
