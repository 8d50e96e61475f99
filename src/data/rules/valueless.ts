/**
 * Parts of a rule that have no value whoever asks and whatever a record holds: a network of 33 bits, a day that is not in
 * the calendar, a division by zero. Nothing is compared with them: such a rule lets nobody in, and keeps nobody out.
 */
import { partsOf } from './compute.ts';
import { type Expression, isError, type Of } from './expression.ts';
import type { FunctionId } from './functions.ts';
import { type Known, reduceRule } from './reduce.ts';
import { RuleError } from './syntax.ts';
import type { RuleType } from './types.ts';
import { readValue, ValueError } from './values.ts';

/** Functions that read a value of a type from one of their texts. */
const readText: ReadonlyMap<FunctionId, readonly [argument: number, type: RuleType]> = new Map([
  ['momentOfText', [0, { kind: 'timestamp' }]],
  ['spanOfText', [0, { kind: 'duration' }]],
  ['ip', [0, { kind: 'ip' }]],
  ['ipaddress', [0, { kind: 'ip' }]],
  ['cidr', [0, { kind: 'cidr' }]],
  ['containsIPText', [1, { kind: 'ip' }]],
  ['inCidrText', [1, { kind: 'cidr' }]],
]);

const nothing: Known = { input: () => undefined };

/** What is wrong with one part of a rule, without those inside of it. */
export function valueless(part: Expression): RuleError | undefined {
  if (part.kind !== 'call' && part.kind !== 'index' && part.kind !== 'member') return undefined;
  const known = partsOf(part).map((one) => reduceRule(one, nothing));
  const unreadable = part.kind === 'call' ? unreadableText(part, known) : undefined;
  if (unreadable) return new RuleError('value', unreadable.at, unreadable.message);
  if (!known.every(({ kind }) => kind === 'constant')) return undefined;
  const found = reduceRule(part, nothing);
  return found.kind === 'open' && found.outcomes === isError
    ? new RuleError('value', part.at, `never has a value: ${reasons[part.kind]}`)
    : undefined;
}

const reasons = {
  call: 'it divides by zero, or leaves the range of its type',
  index: 'there is no such entry',
  member: 'there is no such entry',
};

function unreadableText(
  { function: id }: Of<'call'>,
  known: readonly Expression[],
): { readonly at: number; readonly message: string } | undefined {
  const [argument, type] = readText.get(id) ?? [];
  const text = argument === undefined ? undefined : known[argument];
  if (!type || text?.kind !== 'constant') return undefined;
  try {
    readValue(type, text.value, '');
    return undefined;
  } catch (error) {
    if (!(error instanceof ValueError)) throw error;
    return { at: text.at, message: `${JSON.stringify(text.value)} ${error.message}` };
  }
}
