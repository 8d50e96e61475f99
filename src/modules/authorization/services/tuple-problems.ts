/** What is wrong with tuples that operators write and delete, held against the definitions. */
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import type { RecordField } from '../model/definition.ts';
import { isEverybody } from '../model/grammar.ts';
import { grantedAction, type Model } from '../model/model.ts';
import { tupleProblem } from '../model/tuple.ts';
import type { TimedTuple, TupleFilter } from '../queries.ts';

/** Why a tuple cannot be stored: it does not fit, or a field of the record says it. */
export const writeProblem = (model: Model, tuple: TimedTuple): PenstockError | undefined =>
  deleteProblem(model, tuple.resource.type, tuple.relation) ?? tupleProblem(model, tuple);

/** Why a tuple cannot be deleted: a field of the record says it. */
export function deleteProblem(
  model: Model,
  type: string,
  relation: string,
): PenstockError | undefined {
  const field = model.fieldOf(type, relation);
  return field && inTheRecord('relation', { type, relation }, field);
}

/**
 * Why what is named can never have been written: a misspelt name would make a guard that always holds, or a revocation
 * that takes nothing away.
 */
export function nameProblem(
  model: Model,
  { subject, resource, relation }: Pick<TupleFilter, 'subject' | 'resource' | 'relation'>,
): PenstockError | undefined {
  if (subject && !isEverybody(subject) && !model.get(subject.type))
    return invalid('subject', 'type', `no type is called "${subject.type}"`);
  if (resource && !model.get(resource.type))
    return invalid('resource', 'type', `no type is called "${resource.type}"`);
  if (relation === undefined) return undefined;
  const granted = grantedAction(relation);
  const types = resource ? [resource.type] : model.types();
  const isKnown = types.some((type) =>
    granted === undefined
      ? model.get(type)?.relations.has(relation)
      : model.get(type)?.actions.has(granted),
  );
  if (isKnown) return undefined;
  const [path, kind] =
    granted === undefined ? ['relation', 'a relation'] : ['permission', 'an action'];
  const owner = resource?.type ?? 'any type';
  return invalid(path, path, `"${granted ?? relation}" is not ${kind} of ${owner}`);
}

/** The same for all that match: of no type that they can be about would anything be deleted. A filter names an object or a type. */
export function matchProblem(model: Model, filter: TupleFilter): PenstockError | undefined {
  const { subject, subjectType, resource, resourceType, relation } = filter;
  if ([subject, resource, subjectType, resourceType].every((part) => part === undefined)) {
    return invalid(
      'subject',
      'required',
      'give at least one of subject, resource, subjectType and resourceType',
    );
  }
  for (const [path, type] of Object.entries({ subjectType, resourceType }))
    if (type !== undefined && type !== '*' && !model.get(type))
      return invalid(path, 'type', `no type is called "${cutText(type, 64)}"`);
  const unknown = nameProblem(model, filter);
  if (unknown || relation === undefined) return unknown;
  const type = resource?.type ?? resourceType;
  const types = type === undefined ? model.types() : [type];
  const having = types.filter((one) => model.get(one)?.relations.has(relation));
  const [first] = having;
  return first !== undefined && having.every((one) => model.fieldOf(one, relation))
    ? deleteProblem(model, first, relation)
    : undefined;
}

/** The 400 for a relation that a field says. */
export const inTheRecord = (
  path: string,
  { type, relation }: { readonly type: string; readonly relation: string },
  field: RecordField | undefined,
): PenstockError =>
  invalid(
    path,
    'record',
    `${type}.${relation} is the field "${field?.field}" of the record: change the record`,
  );
