/** What the kernel asks of permissions: for callers, about records. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import type { LostRelation, PermissionEngine } from '../../../kernel/permissions.ts';
import { limits } from '../engine/limits.ts';
import type { Tuple } from '../engine/tuple.ts';
import { authorizationErrors } from '../errors.ts';
import { parseObject, parseSubject, type SubjectRef } from '../model/grammar.ts';
import type { Model } from '../model/model.ts';
import { ownerRelation } from '../record-tuples.ts';
import { rolesByIds } from '../role-queries.ts';
import type { Adoptions } from './adoption.ts';
import { recordDefinition } from './built-in.ts';
import type { Checks } from './checks.ts';
import type { Definitions } from './definitions.ts';
import type { HeldRoles } from './held-roles.ts';
import type { Models } from './models.ts';
import { servesRecords, takesOwner } from './record-type.ts';
import { everybodysRole } from './roles.ts';
import { createRowPredicates } from './row-predicates.ts';

interface Dependencies {
  readonly database: Database;
  readonly models: Models;
  readonly checks: Checks;
  readonly definitions: Definitions;
  readonly adoptions: Adoptions;
  readonly heldRoles: HeldRoles;
  /** Types that may stand in the relations of records. */
  readonly recordSubjects: () => readonly string[];
}

export function createPermissionEngine(dependencies: Dependencies): PermissionEngine {
  const { database, models, checks, definitions, adoptions, heldRoles, recordSubjects } = dependencies;

  const rows = createRowPredicates({ database, models });

  /** Who asks: the caller, or the scope that he may act for. Throws 401 and 403. */
  async function subjectOf(caller: Caller, action: string, scope: string | undefined): Promise<SubjectRef> {
    const subject = await checks.acting(userSubject(caller), action, scope);
    if (!subject) throw authorizationErrors.SCOPE_REFUSED({ message: `You may not ${action} for ${scope}` });
    return subject;
  }

  return {
    async check(caller, action, resource, scope) {
      if (isTrusted(caller)) return true;
      if (caller.kind !== 'user') return false;
      return checks.can({ subject: userSubject(caller), action, resource: parseObject(resource, 'resource'), scope });
    },
    async could(caller, action, resource, lost) {
      if (isTrusted(caller)) return true;
      if (caller.kind !== 'user') return false;
      const contextual = lost.filter(stillCounted).slice(0, limits.contextual).map(tupleOf);
      return checks.can({ subject: userSubject(caller), action, resource: parseObject(resource, 'resource') }, { contextual });
    },
    async predicate(caller, action, schema, scope) {
      const subject = await subjectOf(caller, action, scope);
      return rows.certain({ subject, action, type: schema });
    },
    async believe(caller, action, schema, scope) {
      const subject = await subjectOf(caller, action, scope);
      return rows.believed({ subject, action, type: schema });
    },
    async roles(caller) {
      if (caller.kind !== 'user') return noRoles;
      const held = await rolesByIds(database, await heldRoles(caller.userId));
      return new Set([everybodysRole, ...held.map(({ name }) => name)]);
    },
    async owner(caller, schema, scope) {
      const { type, id } = isTrusted(caller) && scope ? parseObject(scope, 'scope') : await subjectOf(caller, 'edit', scope);
      const { model } = await models.engine();
      if (!takesOwner(model.get(schema), type)) {
        const message = `A ${type} cannot own records of ${schema}: its resource definition does not name ${type} under "${ownerRelation}"`;
        throw authorizationErrors.SCOPE_REFUSED({ message });
      }
      return { type, id };
    },
    async prepare(caller, schema) {
      const { model } = await models.engine();
      const definition = model.get(schema);
      if (!definition) await definitions.define(caller, recordDefinition(schema, knownSubjects(model, recordSubjects())));
      else if (!servesRecords(definition)) {
        const message = `The resource definition ${schema} is there already, but lacks the actions read, edit and delete, or the relation "${ownerRelation}" for User`;
        throw authorizationErrors.RESOURCE_UNFIT({ message });
      }
    },
    adopt: (schema, adoption) => adoptions.start(schema, adoption),
    async abandon(caller, schema) {
      const { model } = await models.engine();
      if (model.get(schema)) await definitions.remove(caller, schema, { force: true });
    },
  };
}

/** Throws 409 for types that the setting names and nobody has defined: the schema itself is not at fault. */
function knownSubjects(model: Model, subjects: readonly string[]): readonly string[] {
  const unknown = subjects.filter((type) => type !== '*' && !model.get(type));
  if (unknown.length === 0) return subjects;
  const message = `The setting recordSubjects of the module authorization names ${unknown.join(', ')}, which no resource definition knows`;
  throw authorizationErrors.RESOURCE_UNFIT({ message });
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
