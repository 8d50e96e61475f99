/** How an action on an object is derived: from what, beside what else, and without what. */
import { type Expression, format } from './expression.ts';
import { grantRelation, type Model, type Name } from './model.ts';

/**
 * For each relation of the object, each grant, each rule (in quotes) and `*` the ways in which the action is derived from
 * it, in one order. They are equal where it means the same, however the definition writes it.
 */
export function derivationsOf(
  model: Model,
  { type, name }: Name,
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>();
  const visited = new Set<string>();
  const note = (relation: string, derivation: string): void => {
    const known = found.get(relation) ?? new Set();
    found.set(relation, known.add(derivation));
  };
  const visit = (expression: Expression, within: string): void => {
    switch (expression.kind) {
      case 'relation':
      case 'arrow':
        note(expression.relation, `${format(expression)}${within}`);
        return;
      case 'action':
        visitAction(expression.action, within);
        return;
      case 'union':
        for (const one of expression.of) visit(one, within);
        return;
      case 'intersection':
        for (const one of expression.of) {
          const others = expression.of.filter((other) => other !== one);
          visit(one, `${within} and ${sorted(others, ' and ')}`);
        }
        return;
      case 'exclusion':
        visit(expression.base, `${within} but not ${textOf(expression.subtract)}`);
        visit(expression.subtract, `${within} taken from ${textOf(expression.base)}`);
        return;
      default:
        note(format(expression), within);
    }
  };
  /** Actions may lead to one another in more ways than anybody could follow: in the same place once. */
  const visitAction = (action: string, within: string): void => {
    const key = `${action}${within}`;
    if (visited.has(key)) return;
    visited.add(key);
    note(grantRelation(action), within);
    const expression = model.expression({ type, kind: 'action', name: action });
    if (expression) visit(expression, within);
  };
  visitAction(name, '');
  return new Map([...found].map(([relation, all]) => [relation, [...all].sort()]));
}

/** The same for all ways to write it. */
function textOf(expression: Expression): string {
  switch (expression.kind) {
    case 'union':
      return `(${sorted(expression.of, ' or ')})`;
    case 'intersection':
      return `(${sorted(expression.of, ' and ')})`;
    case 'exclusion':
      return `(${textOf(expression.base)} but not ${textOf(expression.subtract)})`;
    default:
      return format(expression);
  }
}

const sorted = (expressions: readonly Expression[], between: string): string =>
  [...new Set(expressions.map(textOf))].sort().join(between);
