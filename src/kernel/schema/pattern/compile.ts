/**
 * Matches patterns of input in linear time: a Thompson automaton that follows
 * all alternatives at once, so that no pattern and no text can make it slow
 * (guards against regular expression denial of service).
 */
import type { CharSet } from './char-set.ts';
import { type Node, PatternFault, readPattern } from './syntax.ts';

export { PatternFault } from './syntax.ts';

export interface CompiledPattern {
  readonly source: string;
  /** True when the pattern is found somewhere in the text, as `RegExp.test` would say. */
  matches(text: string): boolean;
}

/** Characters of a pattern. */
const MAX_SOURCE = 500;
/** Instructions of its automaton; with it, `MAX_TEXT` bounds the work of one match. */
const MAX_PROGRAM = 1_000;
/** Longest text, in UTF-16 units, that a field with a pattern may hold. */
export const MAX_TEXT = 10_000;

type Instruction =
  | { readonly op: 'set'; readonly set: CharSet }
  | { readonly op: 'start' | 'end' | 'match' }
  | { readonly op: 'split'; a: number; b: number };

const has = ({ ranges, negated }: CharSet, point: number): boolean => ranges.some(([from, to]) => point >= from && point <= to) !== negated;

function assemble(root: Node): readonly Instruction[] {
  const program: Instruction[] = [];
  const add = <I extends Instruction>(instruction: I): I => {
    if (program.push(instruction) > MAX_PROGRAM) throw new PatternFault('the pattern is too large: use smaller repetitions');
    return instruction;
  };
  const split = () => add({ op: 'split', a: program.length + 1, b: 0 });

  function choice(nodes: readonly Node[]): void {
    const exits: { a: number; b: number }[] = [];
    nodes.forEach((node, index) => {
      const last = index === nodes.length - 1;
      const fork = last ? undefined : split();
      emit(node);
      if (!fork) return;
      // A jump is a split with both ends at the same place.
      exits.push(split());
      fork.b = program.length;
    });
    for (const exit of exits) exit.a = exit.b = program.length;
  }

  function repeat(node: Node, min: number, max: number): void {
    for (let i = 0; i < min; i++) emit(node);
    if (max === Number.POSITIVE_INFINITY) {
      const start = program.length;
      const fork = split();
      emit(node);
      const back = split();
      back.a = back.b = start;
      fork.b = program.length;
      return;
    }
    const forks: { b: number }[] = [];
    for (let i = min; i < max; i++) {
      forks.push(split());
      emit(node);
    }
    for (const fork of forks) fork.b = program.length;
  }

  function emit(node: Node): void {
    if (node.kind === 'set') add({ op: 'set', set: node.set });
    else if (node.kind === 'sequence') node.nodes.forEach(emit);
    else if (node.kind === 'choice') choice(node.nodes);
    else if (node.kind === 'repeat') repeat(node.node, node.min, node.max);
    else add({ op: node.kind });
  }

  emit(root);
  add({ op: 'match' });
  return program;
}

/** Where the text is: what the assertions and the next step need. */
interface Position {
  readonly first: boolean;
  readonly last: boolean;
}

/** Follows everything that consumes no character; answers true when the end is among it. */
function follow(program: readonly Instruction[], threads: Set<number>, at: Position): boolean {
  // A Set iterates over what is added while it is walked, which is just what is needed here.
  for (const index of threads) {
    const step = program[index];
    if (!step) continue;
    if (step.op === 'match') return true;
    if (step.op === 'split') threads.add(step.a).add(step.b);
    else if ((step.op === 'start' && at.first) || (step.op === 'end' && at.last)) threads.add(index + 1);
  }
  return false;
}

function run(program: readonly Instruction[], text: string): boolean {
  const points = Array.from(text, (char) => char.codePointAt(0) ?? 0);
  let threads = new Set<number>();
  for (let i = 0; i <= points.length; i++) {
    threads.add(0);
    if (follow(program, threads, { first: i === 0, last: i === points.length })) return true;
    const point = points[i] ?? 0;
    const next = new Set<number>();
    for (const index of threads) {
      const step = program[index];
      if (step?.op === 'set' && has(step.set, point)) next.add(index + 1);
    }
    threads = next;
  }
  return false;
}

/** Compiles a pattern. Throws `PatternFault` with a sentence for its author. */
export function compilePattern(source: string): CompiledPattern {
  if (source.length > MAX_SOURCE) throw new PatternFault(`a pattern has at most ${MAX_SOURCE} characters`);
  const program = assemble(readPattern(source));
  return { source, matches: (text) => text.length <= MAX_TEXT && run(program, text) };
}
