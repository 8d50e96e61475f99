/** From a condition to an SQL expression. What a test looks like is up to whoever knows the tables. */
import type { Tree } from './condition.ts';

/**
 * A `not` is carried down to the tests, where `is not true` makes "unknown" false: a condition and its opposite never
 * both miss a record.
 */
export function conditionSql<T extends { readonly kind: 'test' }>(
  tree: Tree<T>,
  testSql: (test: T) => string,
  negated = false,
): string {
  if (tree.kind === 'not') return conditionSql(tree.of, testSql, !negated);
  if (tree.kind === 'test') return negated ? `(${testSql(tree)}) is not true` : testSql(tree);
  const conjunction = (tree.kind === 'all') !== negated;
  if (tree.of.length === 0) return String(conjunction);
  const parts = tree.of.map((part) => conditionSql(part, testSql, negated));
  return `(${parts.join(conjunction ? ' and ' : ' or ')})`;
}
