/**
 * The pattern language of the schema language, written as a pattern of PostgreSQL. It is built anew from
 * the parsed pattern, so that nothing of the input reaches the other dialect, and every set of
 * characters means the same on both sides.
 */
import type { CharSet } from '../../schema/pattern/char-set.ts';
import { compilePattern } from '../../schema/pattern/compile.ts';
import { type Node, PatternFault, readPattern } from '../../schema/pattern/syntax.ts';

/** PostgreSQL's limit of `{m,n}`. */
const MAX_REPEAT = 255;

/** Throws `PatternFault`. */
export function postgresPattern(source: string): string {
  // Also refuses what is too large.
  compilePattern(source);
  return `***:${written(readPattern(source))}`;
}

function written(node: Node): string {
  switch (node.kind) {
    case 'start':
      return '^';
    case 'end':
      return '$';
    case 'set':
      return bracket(node.set);
    case 'sequence':
      return node.nodes.map(written).join('');
    case 'choice':
      return `(?:${node.nodes.map(written).join('|')})`;
    case 'repeat':
      return repeated(node);
  }
}

function repeated({ node, min, max }: Extract<Node, { readonly kind: 'repeat' }>): string {
  const unbounded = max === Number.POSITIVE_INFINITY;
  if (min > MAX_REPEAT || (!unbounded && max > MAX_REPEAT)) throw new PatternFault(`a repetition is at most ${MAX_REPEAT} here`);
  const bounds = unbounded ? `{${min},}` : `{${min},${max}}`;
  return `(?:${written(node)})${bounds}`;
}

/** PostgreSQL's text has no NUL, and nothing beyond Unicode. */
function bracket({ ranges, negated }: CharSet): string {
  const parts = ranges.filter(([, to]) => to > 0).map(([from, to]) => `${escaped(Math.max(1, from))}-${escaped(to)}`);
  if (parts.length > 0) return `[${negated ? '^' : ''}${parts.join('')}]`;
  // Every character, or none.
  return negated ? `[${escaped(1)}-${escaped(0x10ffff)}]` : `[^${escaped(1)}-${escaped(0x10ffff)}]`;
}

const escaped = (point: number): string => `\\U${point.toString(16).padStart(8, '0')}`;
