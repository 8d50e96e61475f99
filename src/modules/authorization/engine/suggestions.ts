/**
 * What would have to be true for a denied question to be allowed: single changes, tried over the tuples that the answer
 * was found from, nearest to the question first.
 */
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
import type { Suggestion } from './engine.ts';
import { type EvaluationState, evaluate } from './evaluate.ts';

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
  for (const candidate of candidatesOf(denied).slice(0, budget)) {
    if (found.length >= MAX_TOLD) break;
    if (helps(denied, candidate)) found.push(candidate);
  }
  return found;
}

function helps({ state, object, name }: Denied, { kind, tuple }: Suggestion): boolean {
  const { tuples } = state.evaluation;
  const changed =
    kind === 'delete'
      ? withoutTuple(tuples, tuple)
      : withTuple(tuples, { ...tuple, condition: undefined });
  return evaluate({ ...state.evaluation, tuples: changed }, object, name).sure;
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

/** Changes that are worth a try: nearest objects first, of one object the relations that give least, and grants last. */
function candidatesOf(denied: Denied): readonly Suggestion[] {
  const { state, object, name } = denied;
  const places = [...state.nodes.values()].filter(({ given }) => !given);
  const relations = places.filter((place) => place.name.kind === 'relation');
  const steps = new Map<string, number>();
  for (const place of places)
    if (!steps.has(formatObject(place.object))) steps.set(formatObject(place.object), steps.size);
  const { model } = state.evaluation;
  /** How far it is, and how much it would give. */
  const rankOf = (place: (typeof places)[number]): readonly [number, number] => [
    steps.get(formatObject(place.object)) ?? 0,
    actionsGiven(model.get(place.object.type), place.name.name).length,
  ];
  const nearest = relations
    .map((place) => ({ place, rank: rankOf(place) }))
    .sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1])
    .map(({ place }) => place);
  const all = nearest.flatMap((place) => changesAt(state, place.object, place.name.name));
  const grant: Suggestion[] =
    name.kind === 'action'
      ? writes(state, {
          subject: state.evaluation.subject,
          relation: grantRelation(name.name),
          resource: object,
        })
      : [];
  return [...all, ...grant];
}

function changesAt(
  state: EvaluationState,
  resource: ObjectRef,
  relation: string,
): readonly Suggestion[] {
  const { subject, tuples, model } = state.evaluation;
  const here = tuples.of(resource, relation);
  const conditional = here
    .filter((tuple) => tuple.condition !== undefined && !tuple.expired && means(subject, tuple))
    .map((tuple): Suggestion => ({ kind: 'condition', tuple }));
  const deletions = here
    .filter(
      (tuple) =>
        means(subject, tuple) && model.fieldOf(tuple.resource.type, relation) === undefined,
    )
    .map((tuple): Suggestion => ({ kind: 'delete', tuple }));
  return [...conditional, ...writes(state, { subject, relation, resource }), ...deletions];
}

/** Whether the tuple is about this very subject, or about everybody of its type. */
const means = (subject: SubjectRef, tuple: Tuple): boolean =>
  formatSubject(tuple.subject) === formatSubject(subject) ||
  (tuple.subject.id === '*' && tuple.subject.type === subject.type && subject.relation === '');

/** The tuple to write, or the field to set; nothing where the definitions do not allow it. */
function writes({ evaluation: { model } }: EvaluationState, tuple: Tuple): Suggestion[] {
  const field = model.fieldOf(tuple.resource.type, tuple.relation);
  if (field)
    return field.type === tuple.subject.type && tuple.subject.relation === ''
      ? [{ kind: 'field', tuple, field: field.field }]
      : [];
  return tupleProblem(model, tuple) === undefined ? [{ kind: 'write', tuple }] : [];
}

/** Whether a suggestion can be held against the question once more as a tuple that counts for it alone. */
export const canBeTried = ({ kind, tuple }: Suggestion): boolean =>
  kind === 'write' &&
  (grantedAction(tuple.relation) !== undefined || tuple.condition === undefined);
