/** What the kernel asks of permissions: for callers, about records. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type {
  AskedRows,
  LostRelation,
  Owner,
  PermissionEngine,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import { limits } from '../engine/limits.ts';
import { recordDependencies } from '../engine/record-dependencies.ts';
import { everybodysRole } from '../engine/rule-callers.ts';
import { authorizationErrors } from '../errors.ts';
import { admitsVisitors, isIncluded } from '../model/expansion-rules.ts';
import {
  everybody,
  ownerRelation,
  parseObject,
  parseSubject,
  type SubjectRef,
} from '../model/grammar.ts';
import { grantRelation, type Model } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { missingForRecords, servesRecords } from '../record-tuples.ts';
import { rolesByIds } from '../role-queries.ts';
import type { Checks } from './checks.ts';
import { actorOf, isTrusted, subjectOf, userSubject } from './checks.ts';
import { recordDefinition } from './definitions/built-in.ts';
import type { Definitions } from './definitions/definitions.ts';
import type { Models } from './definitions/models.ts';
import type { OwnerAssignments } from './owner-assignment.ts';
import { createRecordCreation } from './record-creation.ts';
import type { HeldRoles } from './roles.ts';
import { createRowPredicates, noRows, type RowPredicates } from './row-predicates.ts';
import type { Tuples } from './tuples.ts';

interface Dependencies {
  readonly database: Database;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
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

interface PredicateRequest extends AskedRows {
  readonly caller: Caller;
  readonly action: string;
  readonly schema: string;
}

export function createPermissionEngine(dependencies: Dependencies): PermissionEngine {
  const { database, models, checks, definitions, ownerAssignments, heldRoles, tuples } =
    dependencies;

  const rows = createRowPredicates({ database, models });

  return {
    ...createRecordCreation({ ...dependencies, rows }),
    async check(caller, action, resource, scope) {
      if (isTrusted(caller)) return true;
      if (caller.kind !== 'user') return false;
      const subject = userSubject(caller);
      return checks.holds({ subject, action, resource: parseObject(resource, 'resource'), scope });
    },
    async could(caller, action, resource, lost) {
      if (isTrusted(caller)) return true;
      if (caller.kind !== 'user') return false;
      const { model } = await models.engine();
      const counted = lost.filter(
        (one) => isStillCounted(one) && leadsTo(model, one, caller.userId),
      );
      // With some of them it would be another question.
      if (counted.length > limits.goneTuples) return false;
      const contextual = counted.map(tupleOf);
      return checks.holds(
        { subject: userSubject(caller), action, resource: parseObject(resource, 'resource') },
        { contextual, gone: true },
      );
    },
    ...whichRows(dependencies, rows),
    async roles(caller) {
      if (caller.kind !== 'user') return noRoles;
      const held = await rolesByIds(database, await heldRoles(caller.userId));
      return new Set([everybodysRole, ...held.map(({ name }) => name)]);
    },
    ...whatDefinitionsSay(models),
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

/** Rows that callers may act on. */
function whichRows(
  { checks, models }: Pick<Dependencies, 'checks' | 'models'>,
  rows: RowPredicates,
): Pick<PermissionEngine, 'predicate' | 'cachedPredicate' | 'recordCheck'> {
  /** Who asks (`subjectOf`); a visitor is one of everybody where something may be public. */
  function readerOf(caller: Caller, asked: Asked): MaybePromise<SubjectRef> {
    const { action, scope } = asked;
    if (caller.kind !== 'anonymous' || action !== 'read' || scope !== undefined)
      return subjectOf(checks, caller, action, scope);
    return visitorOf(asked);
  }

  function predicateOf(
    of: RowPredicates['optimistic'],
    { caller, action, schema, scope, ids, orNone }: PredicateRequest,
  ): MaybePromise<RowPredicate> {
    const actor =
      orNone && caller.kind === 'user'
        ? actorOf(checks, caller, action, scope)
        : readerOf(caller, { action, schema, scope });
    return andThen(actor, (subject) => {
      if (!subject) return noRows;
      const found = of({ subject, action, type: schema, ids, orNone });
      return scope ? andThen(found, whileActing({ caller, action, scope })) : found;
    });
  }

  /** Rows of a scope, for as long as the caller may act for it. */
  const whileActing =
    ({ caller, action, scope }: Pick<PredicateRequest, 'caller' | 'action' | 'scope'>) =>
    (rows: RowPredicate): RowPredicate => ({
      ...rows,
      recheck: async () =>
        (await actorOf(checks, caller, action, scope)) !== undefined &&
        (rows.recheck === undefined || (await rows.recheck())),
    });

  async function visitorOf({ action, schema }: Asked): Promise<SubjectRef> {
    const { model } = await models.engine();
    const name = model.action(schema, action);
    if (!name || !admitsVisitors(model, name)) throw errors.UNAUTHORIZED();
    return everybody;
  }

  return {
    predicate: (caller, action, schema, asked = {}) =>
      predicateOf(rows.certain, { ...asked, caller, action, schema }),
    cachedPredicate: (caller, action, schema, asked = {}) =>
      predicateOf(rows.optimistic, { ...asked, caller, action, schema }),
    recordCheck: (caller, action, schema, id) =>
      checks.ofRecord({ subject: userSubject(caller), action, resource: { type: schema, id } }),
  };
}

/** What the definitions say by themselves, whoever asks. */
const whatDefinitionsSay = (
  models: Dependencies['models'],
): Pick<
  PermissionEngine,
  'knows' | 'admitsVisitors' | 'includes' | 'reachesThroughUsers' | 'dependenciesOf' | 'heldByUsers'
> => ({
  async knows(schema, action) {
    const { model } = await models.engine();
    return model.get(schema) ? model.action(schema, action) !== undefined : recordWords.has(action);
  },
  admitsVisitors(schema) {
    const model = models.known()?.model;
    const read = model?.action(schema, 'read');
    return !model || !read || admitsVisitors(model, read);
  },
  async includes(schema, held, given) {
    return isIncluded((await models.optimistic()).model, schema, held, given);
  },
  reachesThroughUsers: async () => reachesThroughUsers((await models.optimistic()).model),
  async dependenciesOf(schema) {
    return recordDependencies((await models.optimistic()).model, schema);
  },
  async heldByUsers(schema) {
    const definition = (await models.optimistic()).model.get(schema);
    return (
      definition !== undefined && (definition.shareable.size > 0 || definition.actions.has('move'))
    );
  },
});

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
    const lacks = missingForRecords(definition).join(', ');
    const message = `The resource definition ${schema} is there already, but lacks ${lacks}: records need the actions read, edit and delete, and the relation "${ownerRelation}" for User`;
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

/** Actions and relations that a type gets with row authorization. */
const recordWords: ReadonlySet<string> = new Set(
  [recordDefinition('', [])].flatMap(({ relations, permissions }) => [
    ...Object.keys(relations),
    ...Object.keys(permissions),
  ]),
);

function reachesThroughUsers(model: Model): boolean {
  const definition = model.get('User');
  return definition !== undefined && definition.relations.size + definition.actions.size > 0;
}

/** What names another user alone says nothing of this one. */
const leadsTo = (model: Model, { subject }: LostRelation, userId: string): boolean =>
  !/^User:[^#*]+$/.test(subject) || subject === `User:${userId}` || reachesThroughUsers(model);

/** What had ended by itself gave nothing. */
const isStillCounted = ({ expiresAt }: LostRelation): boolean =>
  expiresAt === undefined || Date.parse(expiresAt) > Date.now();

const tupleOf = (lost: LostRelation): Tuple => ({
  subject: parseSubject(lost.subject, 'subject'),
  relation: lost.relation ?? grantRelation(lost.permission ?? ''),
  resource: parseObject(lost.resource, 'resource'),
  condition: lost.condition,
  attributes: lost.attributes,
});

const noRoles: ReadonlySet<string> = new Set();

interface OwnerChange {
  readonly type: string;
  readonly ids: readonly string[];
  readonly owner: Owner;
}

/** Whoever owned them before does so no more. */
async function changeOwner(
  tuples: Pick<Tuples, 'write' | 'removeRelation'>,
  caller: Caller,
  { type, ids, owner }: OwnerChange,
): Promise<void> {
  const subject = { ...owner, relation: '' };
  await tuples.removeRelation(caller, { type, ids, relation: ownerRelation, except: subject });
  const owned = ids.map((id) => ({ subject, relation: ownerRelation, resource: { type, id } }));
  await tuples.write(caller, owned);
}
