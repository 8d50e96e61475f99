/** What a proof may lean on: nodes that were true before the one that is being explained. */
import type { Expression } from '../model/expression.ts';
import type { ObjectRef } from '../model/grammar.ts';
import type { Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import {
  type EvaluationState,
  expressionBounds,
  leadingTuples,
  targetBounds,
  tupleBounds,
} from './evaluate.ts';
import { nodeKey } from './graph.ts';

/** Where in an explanation we are. */
export interface Grounds {
  readonly state: EvaluationState;
  /** Nodes above this line. */
  readonly trail: ReadonlySet<string>;
}

export type Arrow = Extract<Expression, { kind: 'arrow' }>;

/** True when a proof of the node above may lean on this one: it was true earlier. */
function supports({ state, trail }: Grounds, object: ObjectRef, name: Name): boolean {
  const above = state.nodes.get([...trail].at(-1) ?? '');
  const node = state.nodes.get(nodeKey(object, name));
  return node?.bounds.sure === true && above !== undefined && node.rank < above.rank;
}

/** The same for a set of subjects. */
export const supportsSet = (grounds: Grounds, { subject }: Tuple): boolean => {
  const name = grounds.state.evaluation.model.member(subject.type, subject.relation);
  return name !== undefined && supports(grounds, subject, name);
};

/** True when the expression is true without leaning on the node that is being explained. */
export function isGrounded(grounds: Grounds, object: ObjectRef, expression: Expression): boolean {
  switch (expression.kind) {
    case 'relation':
      return supports(grounds, object, {
        type: object.type,
        kind: 'relation',
        name: expression.relation,
      });
    case 'action':
      return supports(grounds, object, {
        type: object.type,
        kind: 'action',
        name: expression.action,
      });
    case 'arrow':
      return expression.all || supportingTuple(grounds, object, expression) !== undefined;
    case 'union':
      return expression.of.some(
        (e) => expressionBounds(grounds.state, object, e).sure && isGrounded(grounds, object, e),
      );
    case 'intersection':
      return expression.of.every((e) => isGrounded(grounds, object, e));
    case 'exclusion':
      return isGrounded(grounds, object, expression.base);
    default:
      return true;
  }
}

/** A tuple over which the proof can go on. */
export function supportingTuple(
  grounds: Grounds,
  object: ObjectRef,
  arrow: Arrow,
): Tuple | undefined {
  const { state } = grounds;
  return leadingTuples(state, object, arrow).find((tuple) => {
    const name = state.evaluation.model.action(tuple.subject.type, arrow.target);
    return (
      name &&
      tupleBounds(state, tuple).sure &&
      targetBounds(state, tuple, arrow).sure &&
      supports(grounds, tuple.subject, name)
    );
  });
}
