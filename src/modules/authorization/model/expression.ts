/**
 * What an action means, as a small closed tree. A plain list in a definition is
 * a union; the object form adds intersection and exclusion.
 */
export type Expression =
  | { readonly kind: 'none' }
  | { readonly kind: 'everyone' }
  /** Whoever stands in this relation. */
  | { readonly kind: 'relation'; readonly relation: string }
  /** Whoever may do another action of the same type. */
  | { readonly kind: 'action'; readonly action: string }
  /** Whoever may do `target` on the object that stands in this relation; with `all`, on every such object (and there is one). */
  | { readonly kind: 'arrow'; readonly relation: string; readonly target: string; readonly all: boolean }
  | { readonly kind: 'union'; readonly of: readonly Expression[] }
  | { readonly kind: 'intersection'; readonly of: readonly Expression[] }
  | { readonly kind: 'exclusion'; readonly base: Expression; readonly subtract: Expression };

/** The expressions that an expression is made of. */
export function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'union':
    case 'intersection':
      return expression.of;
    case 'exclusion':
      return [expression.base, expression.subtract];
    default:
      return [];
  }
}

/** The expression as an author would write it, for explanations. */
export function format(expression: Expression): string {
  switch (expression.kind) {
    case 'none':
      return 'nobody';
    case 'everyone':
      return '*';
    case 'relation':
      return expression.relation;
    case 'action':
      return `${expression.action}`;
    case 'arrow':
      return `${expression.relation}->${expression.target}${expression.all ? ' (all)' : ''}`;
    case 'union':
      return expression.of.map(format).join(' or ');
    case 'intersection':
      return `(${expression.of.map(format).join(' and ')})`;
    case 'exclusion':
      return `(${format(expression.base)} but not ${format(expression.subtract)})`;
  }
}
