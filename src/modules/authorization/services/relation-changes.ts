/** Many different relations written and deleted together, if what was expected holds: all of it or nothing. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { errors, invalid, type PenstockError } from '../../../kernel/errors.ts';
import { formatObject } from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
import { formatTuple } from '../model/tuple.ts';
import {
  holdMatching,
  lockObjects,
  type StoredTuple,
  type TimedTuple,
  type TupleFilter,
  type TupleKind,
} from '../queries.ts';
import { holdDefinitions, type Models } from './definitions/models.ts';
import { noteGrants } from './granted-actions.ts';
import { holdInRecords } from './relation-list.ts';
import { deleteProblem, nameProblem, writeProblem } from './tuple-problems.ts';
import type { Tuples } from './tuples.ts';

/** What must be there, or must not, for anything to be written. */
export interface Precondition {
  readonly kind: TupleKind;
  readonly filter: TupleFilter;
  readonly exists: boolean;
}

export interface RelationChanges {
  readonly writes: readonly TimedTuple[];
  readonly deletes: readonly TimedTuple[];
  readonly preconditions: readonly Precondition[];
}

export interface RelationOutcome {
  /** In the order in which they were given. */
  readonly written: readonly StoredTuple[];
  /** How many of those to delete there were. */
  readonly deleted: number;
}

/** Throws 400 with the place of the problem, 409, and 412 with the place of the first precondition that does not hold. */
export type ChangeRelations = (
  caller: Caller,
  changes: RelationChanges,
) => Promise<RelationOutcome>;

interface Dependencies {
  readonly database: Database;
  readonly models: Models;
  readonly tuples: Pick<Tuples, 'write' | 'removeAll'>;
}

export function createRelationChanges({ database, models, tuples }: Dependencies): ChangeRelations {
  return async (caller, { writes, deletes, preconditions }) => {
    requireDistinct(writes, deletes);
    // Before the transaction, which would hold the definitions until its end.
    await noteGrants(models, caller, writes);
    return database.transaction(async (transaction) => {
      await holdDefinitions(transaction);
      const { model } = await models.engine();
      for (const [i, { filter }] of preconditions.entries())
        requirePossible(`preconditions.${i}`, nameProblem(model, filter));
      await lockNamed(transaction, { writes, deletes, preconditions });
      await requirePreconditions(transaction, model, preconditions);
      for (const [i, tuple] of writes.entries())
        requirePossible(`writes.${i}`, writeProblem(model, tuple));
      for (const [i, tuple] of deletes.entries())
        requirePossible(
          `deletes.${i}`,
          nameProblem(model, tuple) ?? deleteProblem(model, tuple.resource.type, tuple.relation),
        );
      const deleted = await tuples.removeAll(caller, deletes);
      return { written: await tuples.write(caller, writes), deleted };
    });
  };
}

/** Throws the problem with its place in the request. */
function requirePossible(place: string, refusal: PenstockError | undefined): void {
  const [problem] = refusal?.errors ?? [];
  if (problem) throw invalid(`${place}.${problem.path}`, problem.rule, problem.message);
}

/** Each relation is named once: what becomes of one that is written and deleted would be a matter of order. */
function requireDistinct(writes: readonly TimedTuple[], deletes: readonly TimedTuple[]): void {
  const seen = new Map<string, string>();
  for (const [list, all] of [
    ['writes', writes],
    ['deletes', deletes],
  ] as const) {
    for (const [i, tuple] of all.entries()) {
      const [text, place] = [formatTuple(tuple), `${list}.${i}`];
      const before = seen.get(text);
      if (before !== undefined) throw invalid(place, 'unique', `is the same as ${before}`);
      seen.set(text, place);
    }
  }
}

/**
 * That something is not there is held among calls with preconditions, by a lock on every object that they name, in one
 * order for all. What one writes another may want absent of the resource, or of the subject.
 */
async function lockNamed(
  transaction: Queryable,
  { writes, deletes, preconditions }: RelationChanges,
): Promise<void> {
  if (preconditions.length === 0) return;
  const objects = [
    ...writes.flatMap(({ resource, subject }) => [resource, subject]),
    ...deletes.map(({ resource }) => resource),
    ...preconditions.flatMap(({ filter }) => filter.resource ?? filter.subject ?? []),
  ].map(formatObject);
  await lockObjects(transaction, [...new Set(objects)].sort());
}

/** What is there stays until the commit, stored or said by a record. */
async function requirePreconditions(
  transaction: Queryable,
  model: Model,
  preconditions: readonly Precondition[],
): Promise<void> {
  for (const [i, { kind, filter, exists }] of preconditions.entries()) {
    const isThere =
      (await holdMatching(transaction, kind, filter)) ||
      (kind === 'relation' && (await holdInRecords(transaction, model, filter)));
    if (isThere === exists) continue;
    const message = exists ? 'there is no such relation' : 'there is such a relation';
    throw errors.PRECONDITION_FAILED({
      message: `preconditions.${i}: ${message}; nothing was changed`,
      errors: [{ path: `preconditions.${i}`, rule: exists ? 'exists' : 'absent', message }],
    });
  }
}
