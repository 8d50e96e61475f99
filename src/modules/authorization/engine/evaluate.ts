/**
 * The meaning of a check, over tuples that are loaded already. The nodes of the
 * question are resolved to their least fixed point, exclusions stratum by
 * stratum, so that cycles end and write order never matters. A question whose
 * bounds differ has no answer; it is never answered with "allowed".
 */
import { evaluateCondition } from '../model/condition.ts';
import type { Expression, RecordRule } from '../model/expression.ts';
import { formatSubject, isEverybody, type ObjectRef } from '../model/grammar.ts';
import { grantRelation, leadsArrows, type Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import {
  type Bounds,
  both,
  discover,
  type Evaluation,
  either,
  type Graph,
  isOwnSet,
  type Node,
  no,
  nodeKey,
  type Place,
  unknown,
  without,
  yes,
} from './graph.ts';

export interface Verdict extends Bounds {
  /** Context values that some condition on the way needs and that were not given. */
  readonly missing: ReadonlySet<string>;
  /** With its nodes resolved, for the explanation. */
  readonly state: EvaluationState;
}

/** Nodes with their bounds, and what was found out on the way. */
export interface EvaluationState {
  readonly evaluation: Evaluation;
  readonly nodes: Graph;
  readonly missing: Set<string>;
}

/** Settles the question "is the subject in `name` of `object`?". */
export function evaluate(evaluation: Evaluation, object: ObjectRef, name: Name): Verdict {
  const state: EvaluationState = {
    evaluation,
    nodes: discover(evaluation, { object, name }),
    missing: new Set(),
  };
  computeFixpoint(state);
  const { sure, possible } = nodeBounds(state, object, name);
  return { sure, possible, missing: state.missing, state };
}

/**
 * The same for questions of one subject. What several hang on (the folders above them) is resolved once; one that has no
 * answer is asked by itself, for the values that are missing for it alone.
 */
export function evaluateTogether<P extends Place>(
  evaluation: Evaluation,
  asked: readonly P[],
): ReadonlyMap<P, Verdict> {
  const alone = ({ object, name }: Place): Verdict => evaluate(evaluation, object, name);
  if (asked.length < 2) return new Map(asked.map((place) => [place, alone(place)]));
  const nodes: Graph = new Map();
  for (const place of asked) discover(evaluation, place, nodes);
  const state: EvaluationState = { evaluation, nodes, missing: new Set() };
  computeFixpoint(state, { bothWays: true });
  const verdict = (place: P): Verdict => {
    const { sure, possible } = nodeBounds(state, place.object, place.name);
    return sure === possible ? { sure, possible, missing: new Set(), state } : alone(place);
  };
  return new Map(asked.map((place) => [place, verdict(place)]));
}

/** The same for questions of any subjects, in their order. */
export function evaluateEach<Q extends Place & Pick<Evaluation, 'subject'>>(
  evaluation: Omit<Evaluation, 'subject'>,
  questions: readonly Q[],
): readonly Verdict[] {
  const bySubject = Map.groupBy(questions, ({ subject }) => formatSubject(subject));
  const verdicts = new Map<Q, Verdict>();
  for (const asked of bySubject.values())
    for (const { subject } of asked.slice(0, 1))
      for (const [one, verdict] of evaluateTogether({ ...evaluation, subject }, asked))
        verdicts.set(one, verdict);
  return questions.flatMap((one) => verdicts.get(one) ?? []);
}

/** `bothWays`: no order of the nodes is a good one, so that each round goes against the one before. */
function computeFixpoint(state: EvaluationState, { bothWays = false } = {}): void {
  const { model } = state.evaluation;
  // What lies far away is resolved first: fewer rounds.
  const nodes = [...state.nodes.values()].filter(({ given }) => !given).reverse();
  const byStratum = Map.groupBy(nodes, (node) => model.stratum(node.name));
  let rank = 0;
  for (const stratum of [...byStratum.keys()].sort((a, b) => a - b)) {
    const inOrder = byStratum.get(stratum) ?? [];
    for (let changed = true; changed; ) {
      changed = false;
      if (bothWays) inOrder.reverse();
      for (const node of inOrder) {
        if (!improve(state, node, rank + 1)) continue;
        changed = true;
        rank += 1;
      }
    }
  }
}

/** Bounds only ever grow within a stratum, so this ends. */
function improve(state: EvaluationState, node: Node, rank: number): boolean {
  if (node.bounds.sure) return false;
  const next = boundsOf(state, node);
  if (next === node.bounds) return false;
  node.bounds = next;
  node.rank = rank;
  return true;
}

function boundsOf(state: EvaluationState, { object, name }: Node): Bounds {
  if (isOwnSet(state.evaluation, object, name)) return yes;
  if (name.kind === 'relation') return relationBounds(state, object, name.name);
  const expression = state.evaluation.model.expression(name);
  const granted = directBounds(state, object, grantRelation(name.name));
  return expression && !granted.sure
    ? either([granted, expressionBounds(state, object, expression)])
    : granted;
}

/** Bounds of one expression on one object. */
export function expressionBounds(
  state: EvaluationState,
  object: ObjectRef,
  expression: Expression,
): Bounds {
  switch (expression.kind) {
    case 'none':
      return no;
    case 'everyone':
      return yes;
    case 'rule':
      return ruleBounds(state, object, expression);
    case 'relation':
      return nodeBounds(state, object, {
        type: object.type,
        kind: 'relation',
        name: expression.relation,
      });
    case 'action':
      return nodeBounds(state, object, {
        type: object.type,
        kind: 'action',
        name: expression.action,
      });
    case 'arrow':
      return arrowBounds(state, object, expression);
    case 'union':
      return either(expression.of.map((e) => expressionBounds(state, object, e)));
    case 'intersection':
      return both(expression.of.map((e) => expressionBounds(state, object, e)));
    case 'exclusion':
      return without(
        expressionBounds(state, object, expression.base),
        expressionBounds(state, object, expression.subtract),
      );
  }
}

function ruleBounds(state: EvaluationState, object: ObjectRef, rule: RecordRule): Bounds {
  const { subject, rules } = state.evaluation;
  const { bounds, missing } = rules.of(subject, object, rule);
  for (const value of missing) state.missing.add(value);
  return bounds;
}

/** Bounds of a resolved node. Every node that counts was discovered; nothing is allowed by one that was not. */
export function nodeBounds(state: EvaluationState, object: ObjectRef, name: Name): Bounds {
  const node = state.nodes.get(nodeKey(object, name));
  if (node) return node.bounds;
  return unknown;
}

function relationBounds(state: EvaluationState, object: ObjectRef, relation: string): Bounds {
  const direct = directBounds(state, object, relation);
  if (direct.sure) return direct;
  const sets = state.evaluation.tuples
    .of(object, relation)
    .filter((t) => t.subject.relation !== '');
  return either([direct, ...sets.map((tuple) => setBounds(state, tuple))]);
}

/** Whether the subject stands in a relation through the subject set of this tuple. */
export function setBounds(state: EvaluationState, tuple: Tuple): Bounds {
  const name = state.evaluation.model.member(tuple.subject.type, tuple.subject.relation);
  const stands = tupleBounds(state, tuple);
  return name && stands.possible ? both([stands, nodeBounds(state, tuple.subject, name)]) : no;
}

function directBounds(state: EvaluationState, object: ObjectRef, relation: string): Bounds {
  return either(directTuples(state, object, relation).map((tuple) => tupleBounds(state, tuple)));
}

/** Tuples that name the subject itself, everybody of its type, or everybody. */
export function directTuples(
  { evaluation }: EvaluationState,
  object: ObjectRef,
  relation: string,
): readonly Tuple[] {
  const { subject, tuples } = evaluation;
  return tuples.of(object, relation).filter(({ subject: s }) => {
    if (isEverybody(s)) return subject.relation === '';
    if (s.type !== subject.type || s.relation !== subject.relation) return false;
    return s.id === subject.id || (s.id === '*' && subject.relation === '');
  });
}

type Arrow = Extract<Expression, { kind: 'arrow' }>;

/** Tuples whose objects an arrow looks at. */
export const leadingTuples = (
  { evaluation }: EvaluationState,
  object: ObjectRef,
  arrow: Arrow,
): readonly Tuple[] =>
  evaluation.tuples
    .of(object, arrow.relation)
    .filter((tuple) => leadsArrows(evaluation.model, tuple));

/** Whether the subject has what an arrow asks for on the object of one tuple. */
export function targetBounds(state: EvaluationState, tuple: Tuple, arrow: Arrow): Bounds {
  const name = state.evaluation.model.action(tuple.subject.type, arrow.target);
  return name ? nodeBounds(state, tuple.subject, name) : no;
}

function arrowBounds(state: EvaluationState, object: ObjectRef, arrow: Arrow): Bounds {
  const leading = leadingTuples(state, object, arrow)
    .map((tuple) => ({ tuple, stands: tupleBounds(state, tuple) }))
    .filter(({ stands }) => stands.possible)
    .map(({ tuple, stands }) => ({ stands, target: targetBounds(state, tuple, arrow) }));
  const some = either(leading.map(({ stands, target }) => both([stands, target])));
  if (!arrow.all) return some;
  // "every": there is one that has it, and each that counts has it. One that does not count takes nothing away.
  return both([
    some,
    ...leading.map(({ stands, target }) => either([without(yes, stands), target])),
  ]);
}

/** Whether a tuple counts now: not expired, and its condition holds. */
export function tupleBounds(state: EvaluationState, tuple: Tuple): Bounds {
  const { bounds, missing } = tupleStanding(state.evaluation, tuple);
  for (const value of missing) state.missing.add(value);
  return bounds;
}

/** The same with the context values that it hangs on. */
export function tupleStanding(
  { model, context, now }: Evaluation,
  { expired, condition: name, attributes = {}, resource }: Tuple,
): { readonly bounds: Bounds; readonly missing: readonly string[] } {
  if (expired) return { bounds: no, missing: [] };
  if (name === undefined) return { bounds: yes, missing: [] };
  const condition = model.condition(resource.type, name);
  if (!condition) return { bounds: no, missing: [] };
  const { holds, possible, missing } = evaluateCondition(condition, { context, attributes, now });
  // What nobody can decide gives nothing, and what it takes away is taken away.
  return { bounds: holds ? yes : possible ? unknown : no, missing };
}
