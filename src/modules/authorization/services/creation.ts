/**
 * Who may create records: where a type has the action `create`, it is asked of the record as it would be, with its owner
 * and the fields that are relations.
 */

import { codeOf } from '../../../kernel/database/failures.ts';
import { errors } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import type { Owner, RequireCreation } from '../../../kernel/permissions.ts';
import { engineErrors, limits } from '../engine/limits.ts';
import { footprintOf } from '../engine/tuple-loading.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import { ownerRelation } from '../model/grammar.ts';
import type { FieldRelation, Model, Name } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import type { Checks } from './checks.ts';

/** The action that says who may create records of a type. Without it, whoever the schema lets. */
export const createAction = 'create';

/** The action, if the type has it. */
export function creationOf(model: Model, type: string): Name | undefined {
  const name = model.action(type, createAction);
  return name?.kind === 'action' ? name : undefined;
}

const nowhere: ReadonlySet<string> = new Set();

/** The fields of records by which `create` of their type says who may create. */
export function placingFields(model: Model, type: string): ReadonlySet<string> {
  const name = creationOf(model, type);
  if (!name) return nowhere;
  return model.derived(
    `placing fields ${type}`,
    () => new Set(fieldsOf(model, name).map(({ field }) => field.field)),
  );
}

interface Creation {
  readonly checks: Pick<Checks, 'allHold'>;
  readonly model: Model;
  readonly subject: SubjectRef;
  readonly owner: Owner;
  readonly name: Name;
}

/**
 * Asks for records that are about to be written; records that say the same are asked about once. Those that name very
 * much, or around which very much stands, are left to be asked as they are.
 */
export function creationCheck({ checks, model, subject, owner, name }: Creation): RequireCreation {
  const fields = fieldsOf(model, name);
  const own = { type: owner.type, id: owner.id, relation: '' };
  const saidBy = (record: Readonly<Record<string, unknown>>): readonly Said[] => [
    { subject: own, relation: ownerRelation },
    ...fields.flatMap((one) => saidByField(one, record)),
  ];
  const areAllowed = async (chunk: readonly (readonly Said[])[]): Promise<boolean> => {
    const asked = chunk.map((said) => ({ said, resource: { type: name.type, id: newId() } }));
    const contextual = asked.flatMap(({ said, resource }) => said.map(tupleOn(resource)));
    const questions = asked.map(({ resource }) => ({ subject, action: createAction, resource }));
    return (await checks.allHold(questions, { contextual })).every(Boolean);
  };
  return async (records) => {
    const said = [
      ...new Map(records.map(saidBy).map((one) => [JSON.stringify(one), one])).values(),
    ];
    if (said.some((one) => one.length > limits.contextual)) return false;
    try {
      for (const chunk of chunksOf(said)) if (!(await areAllowed(chunk))) throw refused(name.type);
      return true;
    } catch (error) {
      if (codeOf(error) === engineErrors.BREADTH_EXCEEDED.code) return false;
      throw error;
    }
  };
}

type Said = Pick<Tuple, 'subject' | 'relation'>;

const tupleOn =
  (resource: ObjectRef) =>
  (said: Said): Tuple => ({ ...said, resource });

/** The fields that the action can hang on. */
function fieldsOf(model: Model, name: Name): readonly FieldRelation[] {
  const { probes, follows } = footprintOf(model, name);
  const met = new Set([...probes, ...follows].map(([type, relation]) => `${type}.${relation}`));
  return model.fieldRelations.filter(
    ({ type, relation }) => type === name.type && met.has(`${type}.${relation}`),
  );
}

function saidByField(
  { relation, field }: FieldRelation,
  record: Readonly<Record<string, unknown>>,
): readonly Said[] {
  const value = record[field.field];
  const ids = (Array.isArray(value) ? value : [value]).filter(
    (id): id is string => typeof id === 'string' && isId(id),
  );
  return [...new Set(ids)].map((id) => ({
    subject: { type: field.type, id: id.toLowerCase(), relation: '' },
    relation,
  }));
}

/** As many records as one batch of questions takes, with what they say. */
function chunksOf(
  records: readonly (readonly Said[])[],
): readonly (readonly (readonly Said[])[])[] {
  const chunks: (readonly Said[])[][] = [];
  let size = 0;
  for (const said of records) {
    const last = chunks.at(-1);
    const fits =
      last !== undefined && last.length < limits.batch && size + said.length <= limits.contextual;
    size = fits ? size + said.length : said.length;
    if (fits) last.push(said);
    else chunks.push([said]);
  }
  return chunks;
}

const refused = (type: string) =>
  errors.FORBIDDEN({
    message: `You may not create this record: the action "${createAction}" of ${type} does not allow it`,
  });
