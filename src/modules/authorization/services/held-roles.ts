/**
 * Which roles of the 0.16 line a user holds. The engine is asked, as about everything else: sets, direct grants, expiry,
 * conditions, and what an operator made of the definition of `Role` count for roles as they count for any question.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { isId } from '../../../kernel/ids.ts';
import type { Engine, Page } from '../engine/engine.ts';
import type { SubjectRef } from '../model/grammar.ts';
import type { Models } from './models.ts';

/** Ids of the roles; the one that everybody holds is not among them unless it was given. */
export type HeldRoles = (userId: string) => Promise<readonly string[]>;

const type = 'Role';
const action = 'hold';
const pageSize = 1000;

interface Dependencies {
  readonly database: Queryable;
  readonly models: Pick<Models, 'ask'>;
}

export const createHeldRoles =
  ({ database, models }: Dependencies): HeldRoles =>
  (userId) =>
    models.ask(async (engine) => {
      // Nobody holds a role where an operator has taken the action away.
      if (!engine.model.action(type, action)) return [];
      const held = await allPages(engine, database, { type: 'User', id: userId, relation: '' });
      // Relations about roles that never were may be called anything.
      return held.filter(isId);
    });

async function allPages(engine: Engine, database: Queryable, subject: SubjectRef): Promise<readonly string[]> {
  const held: string[] = [];
  let page: Page<string> | undefined;
  do {
    const from: { cursor?: string } = page?.cursor === undefined ? {} : { cursor: page.cursor };
    page = await engine.listResources(database, { subject, action, type }, { limit: pageSize, ...from });
    held.push(...page.items);
  } while (page.cursor !== undefined);
  return held;
}
