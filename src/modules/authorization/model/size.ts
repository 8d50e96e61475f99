/**
 * How large an action becomes where rows are asked for it: actions that it refers to are put in, each time. Alternatives
 * stay small however many there are, because they become one lookup; intersections and exclusions of one another double
 * with each step, and no database could run what comes of a long chain of them.
 */
import type { Problem } from '../../../kernel/errors.ts';
import { childrenOf, type Expression, format } from './expression.ts';

/** Parts that one action may consist of in the end; far more than any rule that people can follow. */
const MOST_PARTS = 250;

/** Actions that are too large; they must not be defined by themselves. */
export function oversized(actions: ReadonlyMap<string, Expression>): Problem[] {
  const partsOf = counter(actions);
  const [first] = [...actions].filter(([, expression]) => partsOf(expression) > MOST_PARTS);
  if (!first) return [];
  const message = `consists of more than ${MOST_PARTS} parts when the actions that it refers to are put in`;
  return [{ path: `permissions.${first[0]}`, rule: 'size', message }];
}

/** Counts parts; what it found about an action is kept, so that it ends whatever refers to what. */
function counter(actions: ReadonlyMap<string, Expression>): (expression: Expression) => number {
  const known = new Map<string, number>();
  const ofAction = (name: string): number => {
    const expression = actions.get(name);
    const parts = known.get(name) ?? (expression ? partsOf(expression) : 1);
    known.set(name, parts);
    return parts;
  };
  /** One part: nothing but alternatives. */
  const partsOf = (expression: Expression): number => {
    if (expression.kind === 'action') return ofAction(expression.action);
    const children = [...new Map(childrenOf(expression).map((child) => [format(child), child])).values()];
    if (children.length === 0) return 1;
    const parts = children.map(partsOf);
    const isAlternatives = expression.kind === 'union' && parts.every((count) => count === 1);
    return isAlternatives ? 1 : parts.reduce((sum, count) => sum + count, 0);
  };
  return partsOf;
}
