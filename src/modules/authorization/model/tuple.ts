/** A tuple as the engine sees it: subject stands in relation to resource. */

import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import type { AllowedSubject } from './definition.ts';
import {
  formatObject,
  formatSubject,
  isEverybody,
  maxTupleBytes,
  type ObjectRef,
  type SubjectRef,
} from './grammar.ts';
import { grantedAction, type Model } from './model.ts';
import { attributeProblem } from './typed-rule.ts';

export interface Tuple {
  readonly subject: SubjectRef;
  readonly relation: string;
  readonly resource: ObjectRef;
  /** Name of the condition of the resource's type that must hold. */
  readonly condition?: string | undefined;
  /** What the condition may look at beside the request. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined;
  /** Its time is over, by the clock of the database. */
  readonly expired?: boolean | undefined;
}

/** `subject#relation@resource`, as the wire writes it. */
export const formatTuple = (tuple: Tuple): string =>
  `${formatSubject(tuple.subject)}#${tuple.relation}@${formatObject(tuple.resource)}`;

/** Tuples by the place where an evaluation looks for them. */
export interface TupleIndex {
  of(resource: ObjectRef, relation: string): readonly Tuple[];
}

/**
 * Indexes tuples. Of two stored ones that are equal, as where a record says its owner itself and a tuple with an end says
 * it too, the one that always counts does; one that counts for the question alone stands for a stored one.
 */
export function indexTuples(stored: Iterable<Tuple>, contextual: Iterable<Tuple> = []): TupleIndex {
  const byPlace = new Map<string, Map<string, Tuple>>();
  const bucketOf = ({ resource, relation }: Tuple): Map<string, Tuple> => {
    const place = placeOf(resource, relation);
    const bucket = byPlace.get(place) ?? new Map<string, Tuple>();
    byPlace.set(place, bucket);
    return bucket;
  };
  for (const tuple of stored) {
    const bucket = bucketOf(tuple);
    const subject = formatSubject(tuple.subject);
    const known = bucket.get(subject);
    if (known === undefined || !isLasting(known)) bucket.set(subject, tuple);
  }
  for (const tuple of contextual) bucketOf(tuple).set(formatSubject(tuple.subject), tuple);
  const indexed = new Map([...byPlace].map(([place, bucket]) => [place, [...bucket.values()]]));
  return { of: (resource, relation) => indexed.get(placeOf(resource, relation)) ?? [] };
}

const isLasting = ({ condition, expired }: Tuple): boolean => condition === undefined && !expired;

const placeOf = (resource: ObjectRef, relation: string): string =>
  `${resource.type}:${resource.id}#${relation}`;

/* Whether a tuple fits the definitions: asked before a write, and of every tuple that is loaded. */

/** True when the definitions allow the tuple; one that does not fit any more counts for nothing. */
export function fits(model: Model, { subject, relation, resource, condition }: Tuple): boolean {
  const definition = model.get(resource.type);
  if (!definition || (!isEverybody(subject) && !model.get(subject.type))) return false;
  const granted = grantedAction(relation);
  if (granted !== undefined)
    return isGrantable(subject) && condition === undefined && definition.actions.has(granted);
  return (definition.relations.get(relation) ?? []).some(
    (allowed) => allows(allowed, subject) && allowed.condition === condition,
  );
}

/** Actions are granted to objects, and to everybody of a type. */
const isGrantable = (subject: SubjectRef): boolean =>
  subject.relation === '' && !isEverybody(subject);

/**
 * True when an entry of a relation's list means this subject, whatever its condition. Where objects of a type may
 * stand, `Type:*` may, unless the relation is strict; an entry `Type:*` takes nothing else.
 */
export function allows(allowed: AllowedSubject, subject: SubjectRef): boolean {
  if (allowed.type !== '*' && allowed.type !== subject.type) return false;
  if (allowed.relation !== subject.relation) return false;
  if (allowed.wildcard) return subject.id === '*';
  return !allowed.strict || subject.id !== '*' || isEverybody(subject);
}

/** The 400 that says why a tuple does not fit; `undefined` when it does. */
export function tupleProblem(model: Model, tuple: Tuple): PenstockError | undefined {
  const { subject, resource, relation } = tuple;
  if (Buffer.byteLength(formatTuple(tuple)) > maxTupleBytes) {
    return invalid('subject', 'length', `the tuple is longer than ${maxTupleBytes} bytes`);
  }
  if (!isEverybody(subject) && !model.get(subject.type))
    return invalid('subject', 'type', `no type is called "${subject.type}"`);
  if (!model.get(resource.type))
    return invalid('resource', 'type', `no type is called "${resource.type}"`);
  if (fits(model, tuple)) return attributesProblem(model, tuple);
  const granted = grantedAction(relation);
  return granted === undefined
    ? relationProblem(model, tuple)
    : grantProblem(model, tuple, granted);
}

/** Values of a tuple have the types that its condition declares; without a condition they would limit nothing. */
function attributesProblem(
  model: Model,
  { resource, condition: name, attributes = {} }: Tuple,
): PenstockError | undefined {
  if (name === undefined)
    return Object.keys(attributes).length > 0
      ? invalid('attributes', 'condition', 'attributes belong to a condition: name it too')
      : undefined;
  const condition = model.condition(resource.type, name);
  if (condition?.kind !== 'rule') return undefined;
  const problem = attributeProblem(condition, attributes);
  return problem && invalid(problem.path, problem.rule, problem.message);
}

function grantProblem(model: Model, { subject, resource }: Tuple, action: string): PenstockError {
  if (!model.get(resource.type)?.actions.has(action)) {
    return invalid('permission', 'action', `"${action}" is not an action of ${resource.type}`);
  }
  if (!isGrantable(subject))
    return invalid(
      'subject',
      'type',
      'an action is granted to an object or to everybody of a type (User:*), not to a set, nor to visitors (*)',
    );
  return invalid('condition', 'condition', 'a direct grant takes no condition');
}

function relationProblem(model: Model, { subject, relation, resource }: Tuple): PenstockError {
  const subjects = model.get(resource.type)?.relations.get(relation);
  if (!subjects)
    return invalid('relation', 'relation', `"${relation}" is not a relation of ${resource.type}`);
  const place = `${resource.type}.${relation}`;
  const matching = subjects.filter((allowed) => allows(allowed, subject));
  if (matching.length === 0)
    return invalid('subject', 'type', `${place} takes ${describe(subjects)}, not this subject`);
  const conditions = matching.flatMap((allowed) =>
    allowed.condition === undefined ? [] : [`"${allowed.condition}"`],
  );
  return conditions.length === matching.length
    ? invalid(
        'condition',
        'condition',
        `${place} takes this subject only with the condition ${conditions.join(' or ')}`,
      )
    : invalid('condition', 'condition', `${place} takes this subject without this condition`);
}

const describe = (subjects: readonly AllowedSubject[]): string =>
  subjects.map(formatAllowed).join(', ') || 'nobody';

/** An entry of a relation's list, as an author writes it. */
const formatAllowed = ({ type, relation, wildcard, condition }: AllowedSubject): string =>
  `${type}${relation === '' ? '' : `#${relation}`}${wildcard ? ':*' : ''}${condition === undefined ? '' : ` with ${condition}`}`;
