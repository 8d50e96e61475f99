/** Rules of the 0.16 line: whoever holds a role may do an action, where conditions hold (spec/authorization.md 2.2). */
import { requireAuthority } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { newId } from '../../../kernel/ids.ts';
import type { ObjectDirectory } from '../../../kernel/pipeline/input-authority.ts';
import { authorizationErrors } from '../errors.ts';
import { invalidDefinition } from '../model/definition.ts';
import {
  deleteRule,
  hasTwin,
  insertRule,
  listRules,
  type RuleFilter,
  type RuleRow,
  roleByName,
  ruleById,
  updateRule,
} from '../role-queries.ts';
import { conditionProblems } from './rule-conditions.ts';

export interface RuleInput {
  readonly resource: string;
  readonly action: string;
  /** Name of a role. */
  readonly role: string;
  readonly conditions?: Readonly<Record<string, unknown>> | undefined;
}

/** All throw 403 for types of modules that the caller may not touch, 404 for an unknown rule, 400 for an unknown role and for conditions that are not sound, and 409 for a rule that is there. */
export interface Rules {
  list(filter: RuleFilter): ReturnType<typeof listRules>;
  create(caller: Caller, rule: RuleInput): Promise<RuleRow>;
  update(caller: Caller, id: string, change: Partial<RuleInput>): Promise<RuleRow>;
  remove(caller: Caller, id: string): Promise<void>;
}

export function createRules({
  database,
  events,
  objects,
}: {
  readonly database: Database;
  readonly events: Events;
  readonly objects: Pick<ObjectDirectory, 'type'>;
}): Rules {
  const requireAuthorityOver = (caller: Caller, resources: readonly (string | undefined)[]): void =>
    requireAuthority(caller, ...resources.flatMap((resource = '') => objects.type(resource) ?? []));

  const tell = (
    transaction: Transaction,
    caller: Caller,
    what: string,
    id: string,
  ): Promise<void> =>
    events.emit(transaction, caller, { topic: `authorization:${what}:rule`, ids: [id] });

  return {
    list: (filter) => listRules(database, filter),
    create: (caller, { role, conditions = {}, resource, action }) =>
      database.transaction(async (transaction) => {
        requireAuthorityOver(caller, [resource]);
        requireSound(conditions);
        const id = newId();
        await insertRule(transaction, {
          id,
          roleId: await roleIdOf(transaction, role),
          resource,
          action,
          conditions,
        });
        await tell(transaction, caller, 'create', id);
        return requireOnly(transaction, id);
      }),
    update: (caller, id, { role, conditions, resource, action }) =>
      database.transaction(async (transaction) => {
        if (conditions) requireSound(conditions);
        const before = await requireRule(transaction, id);
        requireAuthorityOver(caller, [before.resource, resource]);
        await updateRule(transaction, id, {
          ...(role === undefined ? {} : { roleId: await roleIdOf(transaction, role) }),
          ...(resource === undefined ? {} : { resource }),
          ...(action === undefined ? {} : { action }),
          ...(conditions === undefined ? {} : { conditions }),
        });
        await tell(transaction, caller, 'update', id);
        return requireOnly(transaction, id);
      }),
    remove: (caller, id) =>
      database.transaction(async (transaction) => {
        requireAuthorityOver(caller, [(await requireRule(transaction, id)).resource]);
        if (!(await deleteRule(transaction, id))) throw authorizationErrors.RULE_NOT_FOUND();
        await tell(transaction, caller, 'delete', id);
      }),
  };
}

async function requireRule(transaction: Transaction, id: string): Promise<RuleRow> {
  const rule = await ruleById(transaction, id);
  if (!rule) throw authorizationErrors.RULE_NOT_FOUND();
  return rule;
}

/** The rule as it is now; 409 when another one says the same. */
async function requireOnly(transaction: Transaction, id: string): Promise<RuleRow> {
  if (await hasTwin(transaction, id)) throw authorizationErrors.RULE_EXISTS();
  return requireRule(transaction, id);
}

async function roleIdOf(transaction: Transaction, name: string): Promise<string> {
  const role = await roleByName(transaction, name);
  if (!role) throw invalid('role', 'exists', `there is no role "${name}"`);
  return role.id;
}

function requireSound(conditions: Readonly<Record<string, unknown>>): void {
  const problems = conditionProblems(conditions);
  if (problems.length > 0) throw invalidDefinition(problems);
}
