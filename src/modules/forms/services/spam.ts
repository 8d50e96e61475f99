/** What tells programs from people without an account elsewhere: challenges that are solved, and signs in what they send. */
import { createHash } from 'node:crypto';
import { canonicalText } from '../../../kernel/canonical.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { randomToken, sameSecret } from '../../../kernel/security/tokens.ts';
import type { FormsConfig } from '../config.ts';
import type { FormDefinition } from '../definition/definition.ts';
import { fieldOf } from '../definition/definition.ts';
import { formErrors } from '../errors.ts';
import { takeChallenge } from '../queries/submissions.ts';
import type { FormParts } from './form-parts.ts';

/*
 * Proof of work: a signed challenge, whose solution costs the browser a moment and this server one hash. A challenge is
 * good for one submission of one form, for an hour, and tells when it was asked for.
 */

const LIFE_MS = 3_600_000;

export interface Challenge {
  /** To be sent back as it is. */
  readonly challenge: string;
  /** A solution is a number (as text) for which SHA-256 of `<puzzle>:<solution>` begins with so many zero bits. */
  readonly puzzle: string;
  readonly difficulty: number;
  readonly expiresAt: string;
}

/** A solved challenge. */
export interface Solved {
  readonly nonce: string;
  /** Milliseconds since the epoch. */
  readonly issuedAt: number;
}

export interface Challenges {
  open(formId: string): Challenge;
  /** Throws FORM_CHALLENGE_FAILED unless it was made for this form, is young enough and solved. */
  check(formId: string, challenge: string, solution: string): Solved;
  /** Takes its one use. Throws FORM_CHALLENGE_FAILED. */
  use(transaction: Queryable, solved: Solved): Promise<void>;
}

export function createChallenges({
  secrets,
  config,
}: Pick<FormParts, 'secrets' | 'config'>): Challenges {
  const sign = (facts: string): string => secrets.digest(facts, 'forms:challenge');
  return {
    open(formId) {
      const { difficulty } = config().spam;
      const nonce = randomToken(16);
      const now = Date.now();
      const facts = [formId, nonce, now, difficulty].join('.');
      return {
        challenge: `${facts}.${sign(facts)}`,
        puzzle: nonce,
        difficulty,
        expiresAt: new Date(now + LIFE_MS).toISOString(),
      };
    },
    check(formId, challenge, solution) {
      const [form = '', nonce = '', issued = '', bits = '', signature = '', more] =
        challenge.length > 400 ? [] : challenge.split('.');
      const facts = [form, nonce, issued, bits].join('.');
      const age = Date.now() - Number(issued);
      const isOurs = more === undefined && sameSecret(sign(facts), signature) && form === formId;
      if (!isOurs || age > LIFE_MS || !isSolution(nonce, solution, Number(bits)))
        throw formErrors.FORM_CHALLENGE_FAILED();
      return { nonce, issuedAt: Number(issued) };
    },
    async use(transaction, { nonce, issuedAt }) {
      // Kept until nobody can present it any more, on a node whose clock is a little behind either.
      const endsAt = new Date(issuedAt + 2 * LIFE_MS);
      if (!(await takeChallenge(transaction, nonce, endsAt)))
        throw formErrors.FORM_CHALLENGE_FAILED();
    },
  };
}

function isSolution(puzzle: string, solution: string, bits: number): boolean {
  if (!/^\d{1,15}$/.test(solution)) return false;
  const hash = createHash('sha256').update(`${puzzle}:${solution}`).digest();
  return hash.readUInt32BE(0) >>> (32 - bits) === 0;
}

/* Signs that a program has filled in a form. None of them refuses anything: who sends spam gets the same answer. */

/** Why a submission counts as spam; `lookupFailed` alone does not make it one. */
export type Signal = 'honeypot' | 'timing' | 'links' | 'repeated' | 'lookup' | 'lookupFailed';

export const isSpam = (signals: readonly string[]): boolean =>
  signals.some((signal) => signal !== 'lookupFailed');

interface Seen {
  readonly definition: FormDefinition;
  /** As they came. */
  readonly values: Readonly<Record<string, unknown>>;
  /** As they will be stored. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly solved: Solved | undefined;
}

/** What can be told from the submission alone. */
export function signalsOf(
  { honeypotField, minFillSeconds, maxLinks }: FormsConfig['spam'],
  { definition, values, data, solved }: Seen,
): Signal[] {
  const signals: Signal[] = [];
  // A field of that name which was there before the setting is a field.
  const trap = honeypotField === '' || fieldOf(definition, honeypotField) ? '' : honeypotField;
  if (
    trap !== '' &&
    Object.hasOwn(values, trap) &&
    ![undefined, null, ''].includes(values[trap] as null)
  )
    signals.push('honeypot');
  if (solved && Date.now() - solved.issuedAt < minFillSeconds * 1_000) signals.push('timing');
  if (linksIn(data) > maxLinks) signals.push('links');
  return signals;
}

function linksIn(data: Readonly<Record<string, unknown>>): number {
  const texts = Object.values(data)
    .flat()
    .filter((value) => typeof value === 'string');
  return texts.reduce((sum, text) => sum + (text.match(/https?:\/\//gi)?.length ?? 0), 0);
}

/** The content in one form, so that the same one is found again. */
export const contentOf = (data: Readonly<Record<string, unknown>>): string => canonicalText(data);
