/**
 * What would have to be true for a denied question to be allowed: single changes, tried over the tuples that the answer
 * was found from, nearest to the question first.
 */
import { isId } from '../../../kernel/ids.ts';
import { childrenOf, type Expression, type RecordRule } from '../model/expression.ts';
import {
  formatObject,
  formatSubject,
  type ObjectRef,
  type SubjectRef,
  sameObject,
} from '../model/grammar.ts';
import { grantedAction, grantRelation, type Name } from '../model/model.ts';
import { actionsGiven } from '../model/sharing.ts';
import { formatTuple, type Tuple, type TupleIndex, tupleProblem } from '../model/tuple.ts';
import type { RuleSuggestion, Suggestion, TupleSuggestion } from './engine.ts';
import { type EvaluationState, evaluate, setBounds } from './evaluate.ts';
import { type Evaluation, type Node, no, yes } from './graph.ts';

/** Suggestions that are told. */
const MAX_TOLD = 5;
/** Changes that are tried; each is an evaluation of the whole question. */
const MAX_TRIED = 40;
/** Nodes times evaluations that one explanation may cost. */
const MAX_WORK = 40_000;

interface Denied {
  readonly state: EvaluationState;
  readonly object: ObjectRef;
  readonly name: Name;
}

/** Changes after which the question is allowed, as far as the tuples at hand can tell. */
export function suggestChanges(denied: Denied): readonly Suggestion[] {
  const { nodes } = denied.state;
  const budget = Math.min(MAX_TRIED, Math.floor(MAX_WORK / Math.max(nodes.size, 1)));
  const found: Suggestion[] = [];
  for (const candidate of candidatesOf(denied, budget)) {
    if (found.length >= MAX_TOLD) break;
    if (helps(denied, candidate)) found.push(candidate);
  }
  return found;
}

const helps = ({ state, object, name }: Denied, change: Suggestion): boolean =>
  evaluate({ ...state.evaluation, ...changedBy(state.evaluation, change) }, object, name).sure;

function changedBy(
  { tuples, rules }: Evaluation,
  change: Suggestion,
): Pick<Evaluation, 'tuples'> | Pick<Evaluation, 'rules'> {
  if (change.kind === 'rule') {
    const answer = { bounds: change.fits ? yes : no, missing: [] };
    const isMeant = (object: ObjectRef, rule: RecordRule): boolean =>
      rule.text === change.rule.text && sameObject(object, change.record);
    return {
      rules: {
        of: (subject, object, rule) =>
          isMeant(object, rule) ? answer : rules.of(subject, object, rule),
      },
    };
  }
  const { kind, tuple } = change;
  const changed =
    kind === 'delete' || (kind === 'field' && change.fits === false)
      ? withoutTuple(tuples, tuple)
      : withTuple(tuples, { ...tuple, condition: undefined });
  return { tuples: changed };
}

const isAt = (tuple: Tuple, resource: ObjectRef, relation: string): boolean =>
  tuple.relation === relation && sameObject(tuple.resource, resource);

const withTuple = (tuples: TupleIndex, added: Tuple): TupleIndex => ({
  of: (resource, relation) =>
    isAt(added, resource, relation)
      ? [...tuples.of(resource, relation).filter((one) => !isSame(one, added)), added]
      : tuples.of(resource, relation),
});

const withoutTuple = (tuples: TupleIndex, gone: Tuple): TupleIndex => ({
  of: (resource, relation) => tuples.of(resource, relation).filter((one) => !isSame(one, gone)),
});

const isSame = (one: Tuple, other: Tuple): boolean => formatTuple(one) === formatTuple(other);

/**
 * At most `budget` changes that are worth a try: nearest objects first, of one object the relations that give least and
 * then its rules. A grant is last, and is tried however many others there are.
 */
function candidatesOf({ state, object, name }: Denied, budget: number): readonly Suggestion[] {
  const places = [...state.nodes.values()].filter(({ given }) => !given);
  const steps = new Map<string, number>();
  for (const place of places)
    if (!steps.has(formatObject(place.object))) steps.set(formatObject(place.object), steps.size);
  const { model } = state.evaluation;
  /** How far it is, and how much it would give. */
  const rankOf = (place: Node): readonly [number, number] => [
    steps.get(formatObject(place.object)) ?? 0,
    place.name.kind === 'relation'
      ? actionsGiven(model.get(place.object.type), place.name.name).length
      : Number.POSITIVE_INFINITY,
  ];
  const nearest = places
    .map((place) => ({ place, rank: rankOf(place) }))
    .sort((a, b) => a.rank[0] - b.rank[0] || compareNumbers(a.rank[1], b.rank[1]))
    .map(({ place }) => place);
  const all = nearest.flatMap((place): readonly Suggestion[] =>
    place.name.kind === 'relation'
      ? changesAt(state, place.object, place.name.name)
      : rulesAt(state, place),
  );
  const grant: readonly Suggestion[] =
    name.kind === 'action'
      ? writes(state, {
          subject: state.evaluation.subject,
          relation: grantRelation(name.name),
          resource: object,
        })
      : [];
  return [...all.slice(0, Math.max(budget - grant.length, 0)), ...grant].slice(0, budget);
}

/** Of two infinite ones the difference is no number. */
const compareNumbers = (a: number, b: number): number => (a === b ? 0 : a - b);

/** Rules of an action about the record itself; those of other actions stand where these do. */
function rulesAt({ evaluation }: EvaluationState, { object, name }: Node): RuleSuggestion[] {
  const rulesIn = (expression: Expression): readonly RecordRule[] =>
    expression.kind === 'rule' ? [expression] : childrenOf(expression).flatMap(rulesIn);
  const expression = evaluation.model.expression(name);
  const rules = new Map((expression ? rulesIn(expression) : []).map((one) => [one.text, one]));
  return [...rules.values()].map((rule) => {
    const { bounds } = evaluation.rules.of(evaluation.subject, object, rule);
    return { kind: 'rule', record: object, rule, fits: !bounds.sure };
  });
}

function changesAt(
  state: EvaluationState,
  resource: ObjectRef,
  relation: string,
): readonly TupleSuggestion[] {
  const { subject, tuples } = state.evaluation;
  const here = tuples.of(resource, relation);
  const own = here.filter((tuple) => means(subject, tuple));
  const conditional = own
    .filter((tuple) => tuple.condition !== undefined && !tuple.expired)
    .map((tuple): TupleSuggestion => ({ kind: 'condition', tuple }));
  // Through a set the subject stands there too: together with others.
  const sets = here.filter(
    (tuple) =>
      tuple.subject.relation !== '' && !own.includes(tuple) && setBounds(state, tuple).possible,
  );
  return [
    ...conditional,
    ...writes(state, { subject, relation, resource }),
    ...[...own, ...sets].map((tuple) => removal(state, tuple)),
  ];
}

/** The tuple to delete, or the field that should say it no longer. */
function removal({ evaluation: { model } }: EvaluationState, tuple: Tuple): TupleSuggestion {
  const field = model.fieldOf(tuple.resource.type, tuple.relation);
  return field
    ? { kind: 'field', tuple, field: field.field, fits: false }
    : { kind: 'delete', tuple };
}

/** Whether the tuple is about this very subject, or about everybody of its type. */
const means = (subject: SubjectRef, tuple: Tuple): boolean =>
  formatSubject(tuple.subject) === formatSubject(subject) ||
  (tuple.subject.id === '*' && tuple.subject.type === subject.type && subject.relation === '');

/** The tuple to write, or the field to set; nothing where the definitions do not allow it. */
function writes({ evaluation: { model } }: EvaluationState, tuple: Tuple): TupleSuggestion[] {
  const field = model.fieldOf(tuple.resource.type, tuple.relation);
  if (field)
    return field.type === tuple.subject.type &&
      tuple.subject.relation === '' &&
      isId(tuple.subject.id) &&
      isId(tuple.resource.id)
      ? [{ kind: 'field', tuple, field: field.field, fits: true }]
      : [];
  return tupleProblem(model, tuple) === undefined ? [{ kind: 'write', tuple }] : [];
}

/** Whether a suggestion can be held against the question once more as a tuple that counts for it alone. */
export const canBeTried = (change: Suggestion): change is TupleSuggestion =>
  change.kind === 'write' &&
  (grantedAction(change.tuple.relation) !== undefined || change.tuple.condition === undefined);
