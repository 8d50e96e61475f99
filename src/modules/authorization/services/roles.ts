/** Roles and rules of the 0.16 line (spec/authorization.md 2.2). Who holds a role is a tuple, as everything else. */
import { isDeepStrictEqual } from 'node:util';
import type { RecordStore } from '../../../data/records/store.ts';
import { type Caller, callerKey, system } from '../../../kernel/caller.ts';
import type { Database, Queryable, Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import type { Engine, Page } from '../engine/engine.ts';
import { everybodysRole, heldRole } from '../engine/rule-callers.ts';
import { authorizationErrors } from '../errors.ts';
import type { SubjectRef } from '../model/grammar.ts';
import {
  deleteRole,
  insertRole,
  listRoles,
  type RoleChange,
  type RoleFilter,
  type RoleRow,
  roleById,
  roleByName,
  rolesByIds,
  updateRole,
} from '../role-queries.ts';
import { deleteTuples, deleteTuplesOfObject } from '../tuple-removals.ts';
import type { Models } from './definitions/models.ts';
import type { Tuples } from './tuples.ts';

/*
 * Which roles of the 0.16 line a user holds. The engine is asked, as about everything else: sets, direct grants, expiry,
 * conditions, and what an operator made of the definition of `Role` count for roles as they count for any question.
 */

/** Ids of the roles; the one that everybody holds is not among them unless it was given. */
export type HeldRoles = (userId: string) => Promise<readonly string[]>;

const { type, action } = heldRole;
const pageSize = 1000;

interface HeldRoleParts {
  readonly database: Queryable;
  readonly models: Pick<Models, 'ask'>;
}

export const createHeldRoles =
  ({ database, models }: HeldRoleParts): HeldRoles =>
  (userId) =>
    models.ask(async (engine) => {
      // Nobody holds a role where an operator has taken the action away.
      if (!engine.model.action(type, action)) return [];
      const held = await allPages(engine, database, { type: 'User', id: userId, relation: '' });
      // Relations about roles that never were may be called anything.
      return held.filter(isId);
    });

async function allPages(
  engine: Engine,
  database: Queryable,
  subject: SubjectRef,
): Promise<readonly string[]> {
  const held: string[] = [];
  let page: Page<string> | undefined;
  do {
    const from: { cursor?: string } = page?.cursor === undefined ? {} : { cursor: page.cursor };
    page = await engine.listResources(
      database,
      { subject, action, type },
      { limit: pageSize, ...from },
    );
    held.push(...page.items);
  } while (page.cursor !== undefined);
  return held;
}

export interface NewRole {
  readonly name: string;
  readonly description?: string | undefined;
  readonly permissions?: readonly string[] | undefined;
}

export interface Roles {
  list(filter: RoleFilter): ReturnType<typeof listRoles>;
  /** Throws 409 when the name is taken. */
  create(caller: Caller, role: NewRole): Promise<RoleRow>;
  update(caller: Caller, id: string, change: RoleChange): Promise<RoleRow>;
  /** Takes the role from everybody who holds it, with its rules. */
  remove(caller: Caller, id: string): Promise<void>;
  /** The roles that a user holds, also through a team; the implicit one is not among them. Throws 404. */
  ofUser(userId: string): Promise<readonly RoleRow[]>;
  /** Throws 404 for an unknown user or role. */
  assign(caller: Caller, userId: string, nameOrId: string): Promise<RoleRow>;
  revoke(caller: Caller, userId: string, nameOrId: string): Promise<void>;
  /** Makes the two roles that are always there. */
  install(): Promise<void>;
}

interface Dependencies {
  readonly database: Database;
  readonly events: Events;
  readonly records: RecordStore;
  readonly tuples: Tuples;
  readonly heldRoles: HeldRoles;
}

const builtInRoles: ReadonlyMap<string, NewRole> = new Map([
  ['admin', { name: 'admin', description: 'May do everything', permissions: ['*:*'] }],
  [everybodysRole, { name: everybodysRole, description: 'Every signed-in user', permissions: [] }],
]);

export const isBuiltInRole = (name: string): boolean => builtInRoles.has(name);

/** Whether a role is as the platform brings it. */
export function isUntouchedRole({
  name,
  description,
  permissions,
}: Pick<RoleRow, 'name' | 'description' | 'permissions'>): boolean {
  const first = builtInRoles.get(name);
  return (
    first !== undefined &&
    first.description === description &&
    isDeepStrictEqual(first.permissions, permissions)
  );
}

const asModule = system('authorization');

function requireRole(role: RoleRow | undefined): RoleRow {
  if (!role) throw authorizationErrors.ROLE_NOT_FOUND();
  return role;
}

/** Who holds which role: given and taken as relations. */
function createRoleAssignments({
  database,
  events,
  records,
  tuples,
  heldRoles,
}: Dependencies): Pick<Roles, 'ofUser' | 'assign' | 'revoke'> {
  const named = async (nameOrId: string): Promise<RoleRow> =>
    requireRole(
      (await roleByName(database, nameOrId)) ??
        (isId(nameOrId) ? await roleById(database, nameOrId) : undefined),
    );
  /** The id as relations write it. */
  const requireUser = async (userId: string): Promise<string> =>
    (await records.get(asModule, 'User', userId)).id;

  return {
    async ofUser(userId) {
      return rolesByIds(database, await heldRoles(await requireUser(userId)));
    },
    async assign(caller, userId, nameOrId) {
      const user = await requireUser(userId);
      const role = await named(nameOrId);
      await tuples.write(caller, [assignment(user, role.id)]);
      return role;
    },
    async revoke(caller, userId, nameOrId) {
      const user = await requireUser(userId);
      const { id, name } = await named(nameOrId);
      const gone = await deleteTuples(
        database,
        'relation',
        assignment(user, id),
        callerKey(caller),
      );
      if (gone === 0 && name !== everybodysRole)
        throw authorizationErrors.ROLE_NOT_FOUND({ message: 'The user was not given this role' });
      database.afterCommit(() => events.wake());
    },
  };
}

export function createRoles(dependencies: Dependencies): Roles {
  const { database, events } = dependencies;
  const tell = (
    transaction: Transaction,
    caller: Caller,
    topic: string,
    id: string,
  ): Promise<void> =>
    events.emit(transaction, caller, { topic: `authorization:${topic}`, ids: [id] });

  return {
    ...createRoleAssignments(dependencies),
    list: (filter) => listRoles(database, filter),
    create: (caller, { name, description = '', permissions = [] }) =>
      database.transaction(async (transaction) => {
        const role = await insertRole(transaction, { id: newId(), name, description, permissions });
        if (!role) throw nameTaken(name);
        await tell(transaction, caller, 'create:role', role.id);
        return role;
      }),
    update: (caller, id, change) =>
      database
        .transaction(async (transaction) => {
          const { name } = requireRole(await roleById(transaction, id));
          if (change.name !== undefined && change.name !== name && builtInRoles.has(name)) {
            throw invalid('name', 'builtIn', `the role "${name}" keeps its name`);
          }
          const role = requireRole(await updateRole(transaction, id, change));
          await tell(transaction, caller, 'update:role', id);
          return role;
        })
        .catch((error: unknown) => {
          throw codeOf(error) === '23505' ? nameTaken(change.name ?? '') : error;
        }),
    remove: (caller, id) =>
      database.transaction(async (transaction) => {
        const role = requireRole(await roleById(transaction, id));
        if (builtInRoles.has(role.name))
          throw invalid('roleId', 'builtIn', `the role "${role.name}" is part of the platform`);
        await deleteRole(transaction, role.id);
        await deleteTuplesOfObject(transaction, { type: 'Role', id: role.id }, callerKey(caller));
        await tell(transaction, caller, 'delete:role', role.id);
      }),

    async install() {
      for (const { name, description = '', permissions = [] } of builtInRoles.values()) {
        await insertRole(database, { id: newId(), name, description, permissions });
      }
    },
  };
}

const assignment = (userId: string, roleId: string) => ({
  subject: { type: 'User', id: userId, relation: '' },
  relation: 'assignee',
  resource: { type: 'Role', id: roleId },
});

const nameTaken = (name: string): PenstockError =>
  authorizationErrors.ROLE_EXISTS({
    errors: [{ path: 'name', rule: 'unique', message: `a role "${name}" exists already` }],
  });
