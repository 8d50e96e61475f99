/** What the kernel asks of permissions: for callers, about records. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import type {
  CachedOwner,
  LostRelation,
  Owner,
  PermissionEngine,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import type { Engine, ResourceQuestion } from '../engine/engine.ts';
import type { DatabaseSnapshot } from '../engine/grant-cache/change-tracker.ts';
import { limits } from '../engine/limits.ts';
import { rulesOf } from '../engine/record-rules.ts';
import { authorizationErrors } from '../errors.ts';
import { admitsVisitors } from '../model/expansion-rules.ts';
import {
  everybody,
  type ObjectRef,
  parseObject,
  parseSubject,
  type SubjectRef,
} from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
import { ownerRelation } from '../model/record-field.ts';
import type { Tuple } from '../model/tuple.ts';
import { servesRecords, takesOwner } from '../record-tuples.ts';
import { rolesByIds } from '../role-queries.ts';
import type { Checks } from './checks.ts';
import { createAction, creationCheck, creationOf, placingFields } from './creation.ts';
import { recordDefinition } from './definitions/built-in.ts';
import type { Definitions } from './definitions/definitions.ts';
import type { Models } from './definitions/models.ts';
import type { OwnerAssignments } from './owner-assignment.ts';
import { changeOwner } from './owner-change.ts';
import { everybodysRole, type HeldRoles } from './roles.ts';
import type { Tuples } from './tuples.ts';

/*
 * Predicates for the record engine. What a subject reaches and which definitions
 * are in force is remembered; one statement asks whether that still holds, and
 * travels beside the statement that uses it.
 */

interface RowPredicates {
  /** True now. */
  certain(question: ResourceQuestion): Promise<RowPredicate>;
  /** True if it is confirmed, when that can be asked. */
  optimistic(question: ResourceQuestion): Promise<RowPredicate>;
}

interface RowPredicateParts {
  readonly database: Database;
  readonly models: Models;
}

function createRowPredicates({ database, models }: RowPredicateParts): RowPredicates {
  /** From the database alone. */
  const fresh = async (question: ResourceQuestion): Promise<RowPredicate> =>
    ask(await models.engine(), question);

  function ask(
    engine: Engine,
    question: ResourceQuestion,
    catchUp?: () => Promise<DatabaseSnapshot>,
  ): Promise<RowPredicate> {
    if (!engine.model.action(question.type, question.action))
      throw question.action === moveAction ? unmovable(question.type) : unprepared(question);
    return engine.predicate(database, question, catchUp);
  }

  async function optimistic(question: ResourceQuestion): Promise<RowPredicate> {
    // A transaction sees what it wrote itself, which nobody else may see.
    if (database.inTransaction()) return fresh(question);
    const engine = await models.optimistic();
    try {
      return await ask(engine, question, models.catchUp);
    } catch {
      // What failed may have failed because of what is remembered.
      return fresh(question);
    }
  }

  return {
    optimistic,
    async certain(question) {
      if (database.inTransaction()) return fresh(question);
      const { engine, moment } = await models.now();
      // What is still kept at this moment, or read after it.
      const {
        confirm,
        guard: _,
        ...predicate
      } = await ask(engine, question, () => Promise.resolve(moment));
      return confirm === undefined || (await confirm()) ? predicate : fresh(question);
    },
  };
}

const unprepared = ({ type, action }: ResourceQuestion) =>
  errors.UNAVAILABLE({
    message: `The resource definition ${type} does not say who may ${action} its records`,
  });

/** The action that says who may give records another owner. Without it, operators only. */
const moveAction = 'move';

const unmovable = (type: string) =>
  errors.FORBIDDEN({
    message: `Records of ${type} are moved by operators only: its resource definition has no action "${moveAction}"`,
  });

interface Dependencies {
  readonly database: Database;
  readonly tuples: Pick<Tuples, 'write' | 'removeRelation'>;
  readonly models: Models;
  readonly checks: Checks;
  readonly definitions: Definitions;
  readonly ownerAssignments: OwnerAssignments;
  readonly heldRoles: HeldRoles;
  /** Types that may stand in the relations of records. */
  readonly recordSubjects: () => readonly string[];
}

interface Asked {
  readonly action: string;
  readonly schema: string;
  readonly scope: string | undefined;
}

export function createPermissionEngine(dependencies: Dependencies): PermissionEngine {
  const { database, models, checks, definitions, ownerAssignments, heldRoles, tuples } =
    dependencies;

  const rows = createRowPredicates({ database, models });

  /** Who asks: the caller, or the scope that they may act for. Throws 401 and 403. */
  async function subjectOf(
    caller: Caller,
    action: string,
    scope: string | undefined,
  ): Promise<SubjectRef> {
    const subject = await checks.acting(userSubject(caller), action, scope);
    if (!subject)
      throw authorizationErrors.SCOPE_REFUSED({ message: `You may not ${action} for ${scope}` });
    return subject;
  }

  /** The same; a visitor is one of everybody where something may be public. */
  async function readerOf(caller: Caller, { action, schema, scope }: Asked): Promise<SubjectRef> {
    if (caller.kind !== 'anonymous' || action !== 'read' || scope !== undefined)
      return subjectOf(caller, action, scope);
    const { model } = await models.engine();
    const name = model.action(schema, action);
    if (!name || !admitsVisitors(model, name)) throw errors.UNAUTHORIZED();
    return everybody;
  }

  /** Records that the caller may create as they are. */
  const creatableRows = (caller: Caller, schema: string): Promise<RowPredicate> =>
    rows.certain({ subject: userSubject(caller), action: createAction, type: schema });

  return {
    async check(caller, action, resource, scope) {
      if (isTrusted(caller)) return true;
      if (caller.kind !== 'user') return false;
      const subject = userSubject(caller);
      return checks.can({ subject, action, resource: parseObject(resource, 'resource'), scope });
    },
    async could(caller, action, resource, lost) {
      if (isTrusted(caller)) return true;
      if (caller.kind !== 'user') return false;
      const contextual = lost.filter(stillCounted).slice(0, limits.contextual).map(tupleOf);
      return checks.can(
        { subject: userSubject(caller), action, resource: parseObject(resource, 'resource') },
        { contextual },
      );
    },
    async predicate(caller, action, schema, scope) {
      const subject = await readerOf(caller, { action, schema, scope });
      return rows.certain({ subject, action, type: schema });
    },
    async cachedPredicate(caller, action, schema, scope) {
      const subject = await readerOf(caller, { action, schema, scope });
      return rows.optimistic({ subject, action, type: schema });
    },
    async roles(caller) {
      if (caller.kind !== 'user') return noRoles;
      const held = await rolesByIds(database, await heldRoles(caller.userId));
      return new Set([everybodysRole, ...held.map(({ name }) => name)]);
    },
    knows: async (schema, action) =>
      (await models.engine()).model.action(schema, action) !== undefined,
    async owner(caller, schema, scope) {
      const { model } = await models.engine();
      const gate = creationOf(model, schema) ? 'read' : 'edit';
      const { type, id } =
        isTrusted(caller) && scope
          ? parseObject(scope, 'scope')
          : await subjectOf(caller, gate, scope);
      requireTakesOwner(model, schema, type);
      return ownerOf(model, schema, { type, id });
    },
    async cachedOwner(caller, schema) {
      if (caller.kind !== 'user' || database.inTransaction()) return undefined;
      const { model } = await models.optimistic();
      if (creationOf(model, schema) || !takesOwner(model.get(schema), 'User')) return undefined;
      const owner = ownerOf(model, schema, { type: 'User', id: caller.userId });
      return owner.inRecord && { owner, holds: sameDefinitions(model.revision) };
    },
    async creation(caller, schema, owner) {
      if (isTrusted(caller)) return undefined;
      const { model } = await models.engine();
      const name = creationOf(model, schema);
      if (!name) return undefined;
      // Values of a record are asked of the record itself.
      if (rulesOf(model, name).length > 0) return { after: () => creatableRows(caller, schema) };
      const subject = userSubject(caller);
      return { before: creationCheck({ checks, model, subject, owner, name }) };
    },
    async placement(caller, schema) {
      const { model } = await models.engine();
      if (isTrusted(caller) || !creationOf(model, schema)) return undefined;
      return {
        fields: placingFields(model, schema),
        predicate: () => creatableRows(caller, schema),
      };
    },
    changeOwner: (caller, schema, ids, owner) =>
      changeOwner(tuples, caller, { type: schema, ids, owner }),
    prepare: (caller, schema) => prepareRecords(dependencies, caller, schema),
    adopt: (schema, adoption) => ownerAssignments.start(schema, adoption),
    async abandon(caller, schema) {
      const { model } = await models.engine();
      if (model.get(schema)) await definitions.remove(caller, schema, { force: true });
    },
  };
}

/** No definition has changed since a revision. The value stands in a sub-select, where the planner does not look at it. */
const sameDefinitions = (revision: number): CachedOwner['holds'] => ({
  value: revision,
  text: (place) =>
    `not exists (select 1 from penstock.resource_definition_versions v where v.revision > (select ${place}::bigint))`,
});

/** The owner, and whether the record itself can say it: only ids as they are written in columns. */
const ownerOf = (model: Model, schema: string, { type, id }: ObjectRef): Owner => ({
  type,
  id,
  ...(model.columnOf(schema, ownerRelation) &&
    isId(id) &&
    id === id.toLowerCase() && { inRecord: true }),
});

function requireTakesOwner(model: Model, schema: string, type: string): void {
  if (takesOwner(model.get(schema), type)) return;
  const message = `A ${type} cannot own records of ${schema}: its resource definition does not name ${type} under "${ownerRelation}"`;
  throw authorizationErrors.SCOPE_REFUSED({ message });
}

/** Sees to a definition that can serve the records of a schema. Throws 409 for one that cannot. */
async function prepareRecords(
  { models, definitions, recordSubjects }: Dependencies,
  caller: Caller,
  schema: string,
): Promise<void> {
  const { model } = await models.engine();
  const definition = model.get(schema);
  if (!definition)
    await definitions.define(
      caller,
      recordDefinition(schema, knownSubjects(model, recordSubjects())),
    );
  else if (!servesRecords(definition)) {
    const message = `The resource definition ${schema} is there already, but lacks the actions read, edit and delete, or the relation "${ownerRelation}" for User`;
    throw authorizationErrors.RESOURCE_INCOMPATIBLE({ message });
  }
}

/** Throws 409 for types that the setting names and nobody has defined: the schema itself is not at fault. */
function knownSubjects(model: Model, subjects: readonly string[]): readonly string[] {
  const unknown = subjects.filter((type) => type !== '*' && !model.get(type));
  if (unknown.length === 0) return subjects;
  const message = `The setting recordSubjects of the module authorization names ${unknown.join(', ')}, which no resource definition knows`;
  throw authorizationErrors.RESOURCE_INCOMPATIBLE({ message });
}

/** What had ended by itself, or hangs on a condition that nobody can ask now, gave nothing. */
const stillCounted = ({ condition, expiresAt }: LostRelation): boolean =>
  condition === undefined && (expiresAt === undefined || Date.parse(expiresAt) > Date.now());

const tupleOf = ({ subject, relation, resource }: LostRelation): Tuple => ({
  subject: parseSubject(subject, 'subject'),
  relation,
  resource: parseObject(resource, 'resource'),
});

const noRoles: ReadonlySet<string> = new Set();

const isTrusted = (caller: Caller): boolean => caller.kind === 'admin' || caller.kind === 'system';

function userSubject(caller: Caller): SubjectRef {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return { type: 'User', id: caller.userId, relation: '' };
}
