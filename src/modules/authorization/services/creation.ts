/**
 * Who may create records: where a type has the action `create`, it is asked of the record as it would be, with its owner
 * and the fields that are relations.
 */

import { codeOf } from '../../../kernel/database/failures.ts';
import { errors } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import type { Owner, RequireCreation } from '../../../kernel/permissions.ts';
import { engineErrors, limits } from '../engine/limits.ts';
import { askedOfNew } from '../engine/new-objects.ts';
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

/** Records that a refusal names. */
const MAX_NAMED = 20;

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
  readonly checks: Pick<Checks, 'allHold' | 'holds'>;
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
  const areAllowed = async (chunk: readonly SameRecords[]): Promise<readonly boolean[]> => {
    const asked = chunk.map(({ said }) => ({ said, resource: { type: name.type, id: newId() } }));
    const contextual = asked.flatMap(({ said, resource }) => said.map(tupleOn(resource)));
    const known = chunk.length === 1 ? askedOfNew(model, subject, name, contextual) : undefined;
    if (known !== undefined)
      return [typeof known === 'boolean' ? known : await checks.holds(known)];
    const questions = asked.map(({ resource }) => ({ subject, action: createAction, resource }));
    return checks.allHold(questions, { contextual });
  };
  return async (records, placeOf) => {
    const groups = Map.groupBy(records.keys(), (i) => JSON.stringify(saidBy(records[i] ?? {})));
    const all = [...groups.values()].map(
      (at): SameRecords => ({ at, said: saidBy(records[at[0] ?? 0] ?? {}) }),
    );
    if (all.some(({ said }) => said.length > limits.contextual)) return false;
    try {
      for (const chunk of chunksOf(all)) {
        const allowed = await areAllowed(chunk);
        const refusedAt = chunk.flatMap(({ at }, i) => (allowed[i] ? [] : at));
        if (refusedAt.length > 0) throw refused(name.type, placeOf && refusedAt.map(placeOf));
      }
      return true;
    } catch (error) {
      if (codeOf(error) === engineErrors.BREADTH_EXCEEDED.code) return false;
      throw error;
    }
  };
}

/** Records that say the same, by their indices. */
interface SameRecords {
  readonly at: readonly number[];
  readonly said: readonly Said[];
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
function chunksOf(records: readonly SameRecords[]): readonly (readonly SameRecords[])[] {
  const chunks: SameRecords[][] = [];
  let size = 0;
  for (const one of records) {
    const { said } = one;
    const last = chunks.at(-1);
    const fits =
      last !== undefined && last.length < limits.batch && size + said.length <= limits.contextual;
    size = fits ? size + said.length : said.length;
    if (fits) last.push(one);
    else chunks.push([one]);
  }
  return chunks;
}

function refused(type: string, places: readonly string[] | undefined) {
  const message = `You may not create this record: the action "${createAction}" of ${type} does not allow it`;
  const problems = places
    ?.slice(0, MAX_NAMED)
    .map((path) => ({ path, rule: 'access', message: 'you may not create this record' }));
  return errors.FORBIDDEN({ message, ...(problems && { errors: problems }) });
}
