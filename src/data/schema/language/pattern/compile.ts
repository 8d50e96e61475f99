/**
 * Patterns of input, matched in linear time by RE2 (re2js): it follows all alternatives at once, so that no pattern
 * and no text can make it slow (guards against regular expression denial of service). Nothing of the input reaches
 * it as it is: the pattern is read by syntax.ts, measured by size.ts, and written anew.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { errors } from '../../../../kernel/errors.ts';
import {
  currentAccount,
  type RequestAccount,
} from '../../../../kernel/request-account/request-account.ts';
import type { CharSet } from './character-classes.ts';
import { type Node, PatternError, readPattern } from './syntax.ts';

/* How much a pattern grows to when its repetitions are written out, computed without writing them out. */

/** Instructions of the automaton of a pattern. Together with the length of a text it bounds the work of a match. */
const MAX_SIZE = 1_000;

/**
 * The instructions that `node` becomes. Throws `PatternError` when they are too many. A part that consumes nothing
 * counts as one all the same: engines visit it as often as it is repeated.
 */
export function sizeOf(root: Node): number {
  const size = measured(root) + 1;
  if (size > MAX_SIZE) throw new PatternError('the pattern is too large: use smaller repetitions');
  return size;
}

function measured(node: Node): number {
  switch (node.kind) {
    case 'sequence':
      return total(node.nodes);
    case 'choice':
      return total(node.nodes) + 2 * (node.nodes.length - 1);
    case 'repeat':
      return repeated(Math.max(1, measured(node.node)), node);
    default:
      return 1;
  }
}

const total = (nodes: readonly Node[]): number =>
  nodes.reduce((sum, node) => sum + measured(node), 0);

const repeated = (
  once: number,
  { min, max }: { readonly min: number; readonly max: number },
): number =>
  max === Number.POSITIVE_INFINITY ? min * once + once + 2 : min * once + (max - min) * (once + 1);

/* What one request may spend on matching patterns, over all its texts: values of lists, records of a batch. */

/**
 * Steps of automata for each byte that the request may send. An ordinary pattern has 10 to 50 instructions, and
 * most bytes of a request are no part of a text with a pattern.
 */
const STEPS_PER_BYTE = 64;

const spent = new WeakMap<RequestAccount, number>();

/** Throws 400. Work of the platform's own has no account, and no budget. */
function spendSteps(steps: number): void {
  const account = currentAccount();
  if (!account) return;
  const total = (spent.get(account) ?? 0) + steps;
  spent.set(account, total);
  if (total > STEPS_PER_BYTE * account.limits.bytesIn) {
    throw errors.INVALID_ARGUMENTS({
      message: 'The request has too much text for fields with a pattern: split it',
    });
  }
}

export interface CompiledPattern {
  readonly source: string;
  /**
   * True when the pattern is found somewhere in the text, as `RegExp.test` would say; never in a text that is
   * longer than `maxText`. Throws 400 when the request has used up what it may spend on patterns.
   */
  matches(text: string): boolean;
  /** Longest text, in UTF-16 units, that is looked at. */
  readonly maxText: number;
}

/** Longest text, in UTF-16 units, that a field with a pattern may hold. */
const MAX_TEXT = 10_000;
/** Instructions times UTF-16 units of one match: some 50 ms in the worst case. */
const MAX_STEPS = 2_000_000;

/** Automata that are kept; one that is not costs a millisecond. Their states grow to some MB when texts are hostile. */
const automata = new LRUCache<string, RE2JS>({ max: 250 });

function automatonOf(source: string, node: Node): RE2JS {
  const known = automata.get(source);
  if (known) return known;
  const automaton = RE2JS.compile(written(node));
  automata.set(source, automaton);
  return automaton;
}

/** Throws `PatternError` with a sentence for its author. */
export function compilePattern(source: string): CompiledPattern {
  const node = readPattern(source);
  const size = sizeOf(node);
  automatonOf(source, node);
  const maxText = Math.min(MAX_TEXT, Math.floor(MAX_STEPS / size));
  return {
    source,
    maxText,
    matches(text) {
      if (text.length > maxText) return false;
      spendSteps(size * text.length);
      return automatonOf(source, node).test(text);
    },
  };
}

/** In the syntax of RE2. */
function written(node: Node): string {
  switch (node.kind) {
    case 'start':
      return '\\A';
    case 'end':
      return '\\z';
    case 'boundary':
      return '\\b';
    case 'inside':
      return '\\B';
    case 'set':
      return bracket(node.set);
    case 'sequence':
      return node.nodes.map(written).join('');
    case 'choice':
      return `(?:${node.nodes.map(written).join('|')})`;
    case 'repeat':
      return `(?:${written(node.node)})${times(node)}`;
  }
}

function times({ min, max }: { readonly min: number; readonly max: number }): string {
  if (max === Number.POSITIVE_INFINITY) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`;
  return `{${min},${max}}`;
}

const LAST = 0x10ffff;

function bracket({ ranges, negated }: CharSet): string {
  // RE2 has no empty bracket: every character, or none.
  if (ranges.length === 0)
    return negated ? `[\\x{0}-\\x{${LAST.toString(16)}}]` : `[^\\x{0}-\\x{${LAST.toString(16)}}]`;
  const parts = ranges.map(([from, to]) => `\\x{${from.toString(16)}}-\\x{${to.toString(16)}}`);
  return `[${negated ? '^' : ''}${parts.join('')}]`;
}
