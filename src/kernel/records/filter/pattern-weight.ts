/**
 * What PostgreSQL would have to do before it looks at the first text. It writes repetitions out, and then joins every
 * two places between which nothing has to stand: time and memory grow with the square of the parts that may be
 * missing, and faster with assertions (`^`, `$`, `\b`) among them. Measured on PostgreSQL 18: 200 such parts in a row
 * take 130 ms, 500 take a second; 120 repeated boundaries take five seconds; a loop of assertions takes minutes.
 */
import { type Node, PatternFault } from '../../schema/pattern/syntax.ts';

const MAX_SKIPS = 150;
/** Each becomes two lookarounds. */
const MAX_BOUNDARIES = 8;
const MAX_REPEATED_ASSERTIONS = 8;

interface Weight {
  /** Parts that may be missing, written out. */
  readonly skips: number;
  /** `\b` and `\B`, written out. */
  readonly boundaries: number;
  readonly assertions: number;
  /** Assertions within repetitions, written out. */
  readonly repeated: number;
  /** True when it can be found without any character. */
  readonly empty: boolean;
}

const nothing: Weight = { skips: 0, boundaries: 0, assertions: 0, repeated: 0, empty: true };

/** Throws `PatternFault`. */
export function requireLight(root: Node): void {
  const { skips, boundaries, repeated } = weighed(root);
  if (skips > MAX_SKIPS) throw new PatternFault('the pattern has too many parts that may be missing: use smaller repetitions of them');
  if (boundaries > MAX_BOUNDARIES)
    throw new PatternFault(`the pattern has more than ${MAX_BOUNDARIES} of \\b and \\B, repetitions included`);
  if (repeated > MAX_REPEATED_ASSERTIONS) throw new PatternFault('^, $, \\b and \\B are repeated too often here');
}

function weighed(node: Node): Weight {
  switch (node.kind) {
    case 'set':
      return { ...nothing, empty: false };
    case 'start':
    case 'end':
      return { ...nothing, skips: 2, assertions: 1 };
    case 'boundary':
    case 'inside':
      return { ...nothing, skips: 2, assertions: 1, boundaries: 1 };
    case 'sequence':
      return together(node.nodes, (parts) => parts.every(({ empty }) => empty));
    case 'choice':
      return together(node.nodes, (parts) => parts.some(({ empty }) => empty));
    case 'repeat':
      return repeated(weighed(node.node), node);
  }
}

function together(nodes: readonly Node[], empty: (parts: readonly Weight[]) => boolean): Weight {
  const parts = nodes.map(weighed);
  const sum = (of: (part: Weight) => number): number => parts.reduce((all, part) => all + of(part), 0);
  return {
    skips: sum(({ skips }) => skips),
    boundaries: sum(({ boundaries }) => boundaries),
    assertions: sum(({ assertions }) => assertions),
    repeated: sum((part) => part.repeated),
    empty: empty(parts),
  };
}

function repeated(once: Weight, { min, max }: { readonly min: number; readonly max: number }): Weight {
  const unbounded = max === Number.POSITIVE_INFINITY;
  if (unbounded && once.empty && once.assertions > 0) {
    throw new PatternFault('^, $, \\b and \\B cannot be repeated together with what may be missing');
  }
  const copies = unbounded ? min + 1 : max;
  // `x{0,n}` is written as one inside the other, which leaves a single way around all of them.
  const around = once.empty ? copies * Math.max(1, once.skips) : copies * once.skips;
  return {
    skips: around + (min === 0 ? 1 : 0),
    boundaries: copies * once.boundaries,
    assertions: copies * once.assertions,
    repeated: copies * once.assertions,
    empty: min === 0 || once.empty,
  };
}
