/** Signs that a program has filled in a form. None of them refuses anything: who sends spam gets the same answer. */
import { canonicalText } from '../../../kernel/canonical.ts';
import type { FormsConfig } from '../config.ts';
import type { FormDefinition } from '../definition/definition.ts';
import { fieldOf } from '../definition/definition.ts';
import type { Solved } from './challenges.ts';

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
