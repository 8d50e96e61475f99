/** The check of the 0.16 line: a permission of a role, a rule, or a relation may allow (spec/authorization.md 2.2). */

import type { RecordStore } from '../../../data/records/store.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid, PenstockError } from '../../../kernel/errors.ts';
import { isObjectId, parseObject } from '../model/grammar.ts';
import { roleAnswer } from '../role-queries.ts';
import type { Checks } from './checks.ts';
import type { HeldRoles } from './held-roles.ts';
import type { Models } from './models.ts';
import { everybodysRole } from './roles.ts';
import { conditionsHold, needsFacts, type RuleConditions, type RuleFacts } from './rule-conditions.ts';

export interface LegacyQuestion {
  readonly userId: string;
  /** Name of a type. */
  readonly resource: string;
  readonly action: string;
  /** Absent: only what holds for every resource counts. */
  readonly resourceId?: string | undefined;
}

export type LegacyCheck = (question: LegacyQuestion) => Promise<boolean>;

interface Dependencies {
  readonly database: Database;
  readonly records: RecordStore;
  readonly schemas: SchemaRegistry;
  readonly models: Models;
  readonly checks: Checks;
  readonly heldRoles: HeldRoles;
}

const asModule = system('authorization');

export function createLegacyCheck({ database, records, schemas, models, checks, heldRoles }: Dependencies): LegacyCheck {
  const read = async (schema: string, id: string | undefined): Promise<RuleFacts['record']> => {
    if (id === undefined || !schemas.get(schema)) return undefined;
    try {
      return JSON.parse((await records.get(asModule, schema, id)).json) as RuleFacts['record'];
    } catch (error) {
      if (error instanceof PenstockError && error.status === 404) return undefined;
      throw error;
    }
  };

  async function rulesAllow(rules: readonly RuleConditions[], { userId, resource, resourceId }: LegacyQuestion): Promise<boolean> {
    if (rules.some((conditions) => !needsFacts(conditions))) return true;
    if (rules.length === 0) return false;
    const [record, caller] = await Promise.all([read(resource, resourceId), read('User', userId)]);
    return rules.some((conditions) => conditionsHold(conditions, { record, caller }));
  }

  return async (question) => {
    const { userId, resource, action, resourceId } = question;
    if (resourceId !== undefined && !isObjectId(resourceId)) throw invalid('resourceId', 'id', 'holds no space and none of : # @ * ,');
    const { permissions, conditions } = await roleAnswer(database, {
      held: await heldRoles(userId),
      everybody: everybodysRole,
      resource,
      action,
    });
    if (covers(permissions, resource, action) || (await rulesAllow(conditions, question))) return true;
    const { model } = await models.engine();
    // Types that only roles and rules know are no error here.
    if (resourceId === undefined || !model.action(resource, action)) return false;
    const subject = { type: 'User', id: userId, relation: '' };
    return checks.can({ subject, action, resource: parseObject(`${resource}:${resourceId}`, 'resourceId') });
  };
}

/** `resource:action`, where `*` stands for any on either side. */
function covers(permissions: readonly string[], resource: string, action: string): boolean {
  const held = new Set(permissions);
  return [`${resource}:${action}`, `${resource}:*`, `*:${action}`, '*:*'].some((permission) => held.has(permission));
}
