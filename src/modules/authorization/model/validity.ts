/** Whether a tuple fits the definitions: asked before a write, and of every tuple that is loaded. */
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import { formatTuple, type Tuple } from '../engine/tuple.ts';
import type { AllowedSubject } from './definition.ts';
import { maxTupleLength, type SubjectRef, sameObject } from './grammar.ts';
import { grantedAction, type Model } from './model.ts';

/** True when the definitions allow the tuple; one that does not fit any more counts for nothing. */
export function fits(model: Model, { subject, relation, resource, condition }: Tuple): boolean {
  const definition = model.get(resource.type);
  if (!definition || !model.get(subject.type)) return false;
  const granted = grantedAction(relation);
  if (granted !== undefined) return subject.relation === '' && condition === undefined && definition.actions.has(granted);
  return (definition.relations.get(relation) ?? []).some((allowed) => allows(allowed, subject) && allowed.condition === condition);
}

/**
 * True when an entry of a relation's list means this subject, whatever its condition. Where objects of a type may
 * stand, `Type:*` may; an entry `Type:*` takes nothing else.
 */
export function allows(allowed: AllowedSubject, subject: SubjectRef): boolean {
  if (allowed.type !== '*' && allowed.type !== subject.type) return false;
  return allowed.relation === subject.relation && (!allowed.wildcard || subject.id === '*');
}

/** The 400 that says why a tuple does not fit; `undefined` when it does. */
export function misfit(model: Model, tuple: Tuple): PenstockError | undefined {
  const { subject, resource, relation } = tuple;
  if (formatTuple(tuple).length > maxTupleLength) {
    return invalid('subject', 'length', `the tuple is longer than ${maxTupleLength} characters`);
  }
  if (subject.relation === '' && sameObject(subject, resource)) {
    return invalid('subject', 'self', 'an object cannot stand in a relation to itself');
  }
  if (!model.get(subject.type)) return invalid('subject', 'type', `no type is called "${subject.type}"`);
  if (!model.get(resource.type)) return invalid('resource', 'type', `no type is called "${resource.type}"`);
  if (fits(model, tuple)) return undefined;
  const granted = grantedAction(relation);
  return granted === undefined ? relationMisfit(model, tuple) : grantMisfit(model, tuple, granted);
}

function grantMisfit(model: Model, { subject, resource }: Tuple, action: string): PenstockError {
  if (!model.get(resource.type)?.actions.has(action)) {
    return invalid('permission', 'action', `"${action}" is not an action of ${resource.type}`);
  }
  if (subject.relation !== '')
    return invalid('subject', 'type', 'an action is granted to an object or to everybody of a type, not to a set');
  return invalid('condition', 'condition', 'a direct grant takes no condition');
}

function relationMisfit(model: Model, { subject, relation, resource }: Tuple): PenstockError {
  const subjects = model.get(resource.type)?.relations.get(relation);
  if (!subjects) return invalid('relation', 'relation', `"${relation}" is not a relation of ${resource.type}`);
  const place = `${resource.type}.${relation}`;
  const matching = subjects.filter((allowed) => allows(allowed, subject));
  if (matching.length === 0) return invalid('subject', 'type', `${place} takes ${describe(subjects)}, not this subject`);
  const wanted = matching.flatMap((allowed) => (allowed.condition === undefined ? [] : [`"${allowed.condition}"`]));
  return wanted.length === matching.length
    ? invalid('condition', 'condition', `${place} takes this subject only with the condition ${wanted.join(' or ')}`)
    : invalid('condition', 'condition', `${place} takes this subject without this condition`);
}

const describe = (subjects: readonly AllowedSubject[]): string => subjects.map(formatAllowed).join(', ') || 'nobody';

/** An entry of a relation's list, as an author writes it. */
const formatAllowed = ({ type, relation, wildcard, condition }: AllowedSubject): string =>
  `${type}${relation === '' ? '' : `#${relation}`}${wildcard ? ':*' : ''}${condition === undefined ? '' : ` with ${condition}`}`;
