/** Writing and reading relation tuples and direct grants: checked against the definitions, then one statement. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { modulesOfCaller, requireAuthority } from '../../../kernel/authority.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors, invalid, type PenstockError } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import type { ObjectDirectory } from '../../../kernel/pipeline/input-authority.ts';
import { authorizationErrors } from '../errors.ts';
import { grantedAction, type Model } from '../model/model.ts';
import { formatTuple } from '../model/tuple.ts';
import {
  findTuple,
  listTuples,
  type StoredTuple,
  type TimedTuple,
  type TupleFilter,
  type TupleKind,
  type TuplePage,
} from '../queries.ts';
import { lockShares } from '../share-queries.ts';
import {
  deleteExactly,
  deleteRelation,
  deleteTuple,
  deleteTuples,
  type RelationOfObjects,
} from '../tuple-removals.ts';
import { holdDefinitions, type Models } from './definitions/models.ts';
import { noteGrants } from './granted-actions.ts';
import {
  clearExactly,
  clearMatching,
  clearRelation,
  hasColumns,
  tuplesInRecords,
  writeInRecords,
} from './owners-in-records.ts';
import {
  type FieldRelationId,
  fieldRelationId,
  findFieldRelation,
  firstInRecords,
  listRelations,
} from './relation-list.ts';
import { inTheRecord, matchProblem, writeProblem } from './tuple-problems.ts';
import { createTupleWriter } from './tuple-writer.ts';

export interface Tuples {
  /** Idempotent: a tuple that is there keeps its id. All or nothing. Throws 400 for one that the definitions do not allow. */
  write(caller: Caller, tuples: readonly TimedTuple[]): Promise<readonly StoredTuple[]>;
  /** Throws 404. */
  get(id: string): Promise<StoredTuple>;
  list(
    kind: TupleKind,
    filter: TupleFilter,
    page: TuplePage,
  ): Promise<{ readonly tuples: readonly StoredTuple[]; readonly count: number }>;
  /** Throws 404. */
  remove(caller: Caller, id: string): Promise<void>;
  /** Removes exactly these, whether they are there or not; answers how many there were. */
  removeAll(caller: Caller, tuples: readonly TimedTuple[]): Promise<number>;
  /** Removes a relation of some objects, except one subject of it; answers how many there were. */
  removeRelation(caller: Caller, gone: RelationOfObjects): Promise<number>;
  /** Removes all that match. Throws 400 for a filter that names neither subject nor resource. */
  removeMatching(caller: Caller, kind: TupleKind, filter: TupleFilter): Promise<Removed>;
}

interface Removed {
  readonly deleted: number;
  /** Fields of records say what matches too: it stays until the records are changed. */
  readonly inRecords: boolean;
}

interface Dependencies {
  readonly database: Database;
  readonly events: Events;
  readonly models: Models;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
}

/**
 * Within a transaction of somebody else no change of a definition commits before it: what is written would be seen
 * by nobody who could find that it does not fit any more.
 */
async function modelFor(
  { database, models }: Pick<Dependencies, 'database' | 'models'>,
  tuples: readonly TimedTuple[],
): Promise<Model> {
  if (database.inTransaction()) {
    await holdDefinitions(database);
    return (await models.engine()).model;
  }
  const { model } = await models.optimistic();
  // What is refused must not be refused for what this node has not heard of yet.
  return tuples.every((tuple) => writeProblem(model, tuple) === undefined)
    ? model
    : (await models.engine()).model;
}

/** The definitions may have changed while the tuples were written: what does not fit them is taken back. */
async function requireStillFit(
  { database, models }: Pick<Dependencies, 'database' | 'models'>,
  caller: Caller,
  before: Model,
  stored: readonly StoredTuple[],
): Promise<void> {
  const { model } = await models.engine();
  if (model === before) return;
  // The type may have been deleted and defined anew, which forgets what was noted.
  await noteGrants(models, caller, stored);
  const invalid = stored.filter((tuple) => writeProblem(model, tuple) !== undefined);
  const inRecords = invalid.filter(({ source }) => source === 'record');
  await clearExactly(database, before, inRecords, callerKey(caller));
  for (const { id, relation, source } of invalid) {
    if (source === 'record') continue;
    await deleteTuple(
      database,
      grantedAction(relation) === undefined ? 'relation' : 'permission',
      id,
      callerKey(caller),
    );
  }
  if (invalid.length > 0)
    throw errors.CONFLICT({
      message: 'The resource definition changed at this moment; try again',
    });
}

export function createTuples(dependencies: Dependencies): Tuples {
  const { database, events, models } = dependencies;
  const writeAll = createTupleWriter(dependencies);
  const announce = (): void => database.afterCommit(() => events.wake());

  return {
    async write(caller, tuples) {
      if (tuples.length === 0) return [];
      await noteGrants(models, caller, tuples);
      const model = await modelFor(dependencies, tuples);
      for (const [i, tuple] of tuples.entries())
        requireFit(writeProblem(model, tuple), tuples.length > 1 ? i : undefined);
      const written = await besideShares(database, model, tuples, () =>
        writeFitting(dependencies, writeAll, { caller, model, tuples }),
      );
      announce();
      await requireStillFit(dependencies, caller, model, [...written.values()]);
      return tuples.flatMap((tuple) => written.get(formatTuple(tuple)) ?? []);
    },
    async get(id) {
      const found = await findAny(dependencies, id);
      if (!found || found.relation.startsWith('can:'))
        throw authorizationErrors.RELATION_NOT_FOUND();
      return found;
    },
    list: async (kind, filter, page) =>
      kind === 'relation'
        ? listRelations(database, (await models.engine()).model, filter, page)
        : listTuples(database, kind, filter, page),
    ...createRemoval(dependencies, announce),
  };
}

/**
 * What operators give under a condition is not taken for a share by a user who shares the same at that moment: one comes
 * after the other.
 */
function besideShares<T>(
  database: Database,
  model: Model,
  tuples: readonly TimedTuple[],
  write: () => Promise<T>,
): Promise<T> {
  const limited = tuples.filter(
    ({ condition, relation, resource: { type } }) =>
      condition !== undefined && model.get(type)?.shareable.has(relation),
  );
  if (limited.length === 0) return write();
  return database.transaction(async (transaction) => {
    const objects = limited.map(({ resource }) => resource);
    await lockShares(transaction, objects);
    return write();
  });
}

/** True always, so that a record can say it. */
const isLasting = ({ condition, expiresAt }: TimedTuple): boolean =>
  condition === undefined && expiresAt === undefined;

interface FittingTuples {
  readonly caller: Caller;
  readonly model: Model;
  readonly tuples: readonly TimedTuple[];
}

/**
 * Owners are written where records say them, as far as these can; everything else is stored. All or nothing; answers what
 * is there then, by its text.
 */
async function writeFitting(
  { database }: Pick<Dependencies, 'database'>,
  writeAll: ReturnType<typeof createTupleWriter>,
  { caller, model, tuples }: FittingTuples,
): Promise<ReadonlyMap<string, StoredTuple>> {
  const before = await tuplesInRecords(database, model, tuples);
  const candidates = tuples.filter((tuple) => isLasting(tuple) && !before.has(formatTuple(tuple)));
  const narrowed = tuples.filter((tuple) => !isLasting(tuple) && before.has(formatTuple(tuple)));
  if (narrowed.length === 0 && !hasColumns(model, candidates)) {
    const rest = tuples.filter((tuple) => !before.has(formatTuple(tuple)));
    return new Map([...before, ...(await writeAll(caller, rest))]);
  }
  return database.transaction(async (transaction) => {
    const said = await writeInRecords(transaction, model, candidates, callerKey(caller));
    const inRecords = new Map([...before, ...said]);
    // Narrower than what the record says: that says it no longer.
    await clearExactly(transaction, model, narrowed);
    const rest = tuples.filter((tuple) => !isLasting(tuple) || !inRecords.has(formatTuple(tuple)));
    return new Map([...inRecords, ...(await writeAll(caller, rest))]);
  });
}

/** Stored tuples and what records say go together. */
function createRemoval(
  dependencies: Dependencies,
  announce: () => void,
): Pick<Tuples, 'remove' | 'removeAll' | 'removeRelation' | 'removeMatching'> {
  const { database, models } = dependencies;
  return {
    async remove(caller, id) {
      const inRecord = fieldRelationId(id);
      const gone = inRecord
        ? await clearInRecord(dependencies, inRecord, callerKey(caller))
        : await deleteTuple(database, 'relation', id, callerKey(caller));
      if (!gone) throw authorizationErrors.RELATION_NOT_FOUND();
      announce();
    },
    async removeAll(caller, tuples) {
      if (tuples.length === 0) return 0;
      const actor = callerKey(caller);
      const { model } = await models.engine();
      const count = await database.transaction(async (transaction) => {
        const stored = await deleteExactly(transaction, tuples, actor);
        return stored + (await clearExactly(transaction, model, tuples, actor));
      });
      announce();
      return count;
    },
    async removeRelation(caller, gone) {
      const actor = callerKey(caller);
      const { model } = await models.engine();
      const count = await database.transaction(async (transaction) => {
        const stored = await deleteRelation(transaction, gone, actor);
        return stored + (await clearRelation(transaction, model, gone, actor));
      });
      announce();
      return count;
    },
    async removeMatching(caller, kind, filter) {
      const actor = callerKey(caller);
      const { model } = await models.engine();
      requireFit(matchProblem(model, filter));
      const removed = await database.transaction(async (transaction): Promise<Removed> => {
        const stored = await deleteTuples(transaction, kind, filter, actor);
        if (kind === 'permission') return { deleted: stored, inRecords: false };
        const cleared = await clearMatching(transaction, model, filter, actor);
        const inRecords = (await firstInRecords(transaction, model, filter)) !== undefined;
        return { deleted: stored + cleared, inRecords };
      });
      announce();
      return removed;
    },
  };
}

type Reading = Pick<Dependencies, 'database' | 'models'>;

/** A stored tuple, or one that is a field. */
async function findAny(
  { database, models }: Reading,
  id: string,
): Promise<StoredTuple | undefined> {
  const inRecord = fieldRelationId(id);
  if (!inRecord) return findTuple(database, id);
  return findFieldRelation(database, (await models.engine()).model, inRecord);
}

/** Takes out what a record says beside stored tuples; false where it says nothing. Throws 400 for a relation that is a field. */
async function clearInRecord(
  { database, models }: Reading,
  inRecord: FieldRelationId,
  actor: string,
): Promise<boolean> {
  const { model } = await models.engine();
  const found = await findFieldRelation(database, model, inRecord);
  if (!found) return false;
  const field = model.fieldOf(inRecord.type, inRecord.relation);
  if (field) throw inTheRecord('id', inRecord, field);
  return (await clearExactly(database, model, [found], actor)) > 0;
}

/** Throws the problem; of several tuples, with the place of the one that has it. */
function requireFit(refusal: PenstockError | undefined, index?: number): void {
  if (!refusal) return;
  const [problem] = refusal.errors ?? [];
  if (index === undefined || !problem) throw refusal;
  const path = problem.path === 'resource' ? `resources.${index}` : problem.path;
  throw invalid(path, problem.rule, problem.message);
}

/*
 * Relations as operators write them, within the scopes of their tokens. What is written about a type that a module has
 * declared (the members of a `Team`) is that module's data; types that operators declare belong to whoever sets permissions.
 */

export function scopedTuples(tuples: Tuples, objects: Pick<ObjectDirectory, 'type'>): Tuples {
  const requireType = (caller: Caller, type: string): void => {
    const object = objects.type(type);
    if (object) requireAuthority(caller, object);
  };
  return {
    ...tuples,
    async write(caller, given) {
      for (const { resource } of given) requireType(caller, resource.type);
      return tuples.write(caller, given);
    },
    async removeAll(caller, gone) {
      for (const { resource } of gone) requireType(caller, resource.type);
      return tuples.removeAll(caller, gone);
    },
    async remove(caller, id) {
      if (modulesOfCaller(caller)) requireType(caller, (await tuples.get(id)).resource.type);
      await tuples.remove(caller, id);
    },
    async removeMatching(caller, kind, filter) {
      const type = filter.resource?.type ?? filter.resourceType;
      if (type !== undefined) requireType(caller, type);
      else if (modulesOfCaller(caller))
        throw invalid(
          'resourceType',
          'required',
          'a token that is narrowed to modules names the resource, or its type',
        );
      return tuples.removeMatching(caller, kind, filter);
    },
  };
}
