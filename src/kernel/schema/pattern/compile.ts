/**
 * Patterns of input, matched in linear time by RE2 (re2js): it follows all alternatives at once, so that no pattern
 * and no text can make it slow (guards against regular expression denial of service). Nothing of the input reaches
 * it as it is: the pattern is read by syntax.ts, measured by size.ts, and written anew.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { spendSteps } from './budget.ts';
import type { CharSet } from './char-set.ts';
import { sizeOf } from './size.ts';
import { type Node, readPattern } from './syntax.ts';

export { PatternFault } from './syntax.ts';

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

/** Throws `PatternFault` with a sentence for its author. */
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
  if (ranges.length === 0) return negated ? `[\\x{0}-\\x{${LAST.toString(16)}}]` : `[^\\x{0}-\\x{${LAST.toString(16)}}]`;
  const parts = ranges.map(([from, to]) => `\\x{${from.toString(16)}}-\\x{${to.toString(16)}}`);
  return `[${negated ? '^' : ''}${parts.join('')}]`;
}
