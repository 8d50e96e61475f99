/** How much a pattern grows to when its repetitions are written out, computed without writing them out. */
import { type Node, PatternFault } from './syntax.ts';

/** Instructions of the automaton of a pattern. Together with the length of a text it bounds the work of a match. */
const MAX_SIZE = 1_000;

/**
 * The instructions that `node` becomes. Throws `PatternFault` when they are too many. A part that consumes nothing
 * counts as one all the same: engines visit it as often as it is repeated.
 */
export function sizeOf(root: Node): number {
  const size = measured(root) + 1;
  if (size > MAX_SIZE) throw new PatternFault('the pattern is too large: use smaller repetitions');
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

const total = (nodes: readonly Node[]): number => nodes.reduce((sum, node) => sum + measured(node), 0);

const repeated = (once: number, { min, max }: { readonly min: number; readonly max: number }): number =>
  max === Number.POSITIVE_INFINITY ? min * once + once + 2 : min * once + (max - min) * (once + 1);
