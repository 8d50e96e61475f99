/**
 * Actions that are granted directly. A definition may say that whoever changes a record reads it, and then a change asks
 * for nothing more; who was granted the change alone is no case of that. The first grant of an action is therefore a change
 * of the definitions, which every node has taken in before anybody has the grant
 * (docs/decisions/519-first-direct-grants-are-changes-of-definitions.md).
 */
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { grantedAction } from '../model/model.ts';
import type { TimedTuple } from '../queries.ts';
import type { Models } from './definitions/models.ts';
import { addGranted, repeatVersion } from './definitions/queries.ts';

/** Notes which of these grants are the first of their action. That what is refused then is noted too costs speed alone. */
export async function noteGrants(
  models: Pick<Models, 'change' | 'optimistic'>,
  caller: Caller,
  tuples: readonly Pick<TimedTuple, 'relation' | 'resource'>[],
): Promise<void> {
  const grants = tuples.flatMap(({ relation, resource: { type } }) => {
    const action = grantedAction(relation);
    return action === undefined ? [] : [{ type, action }];
  });
  if (grants.length === 0) return;
  const { model } = await models.optimistic();
  const first = grants.filter(({ type, action }) => !model.get(type)?.granted.has(action));
  if (first.length === 0) return;
  const actor = callerKey(caller);
  await models.change(
    async (transaction, stored) => {
      for (const type of new Set(first.map((grant) => grant.type))) {
        const defined = stored.get(type)?.permissions ?? {};
        const actions = first.flatMap((grant) =>
          grant.type === type && Object.hasOwn(defined, grant.action) ? [grant.action] : [],
        );
        if (actions.length === 0) continue;
        await addGranted(transaction, type, actions);
        // Also where another node has just noted it: this one's nodes know it when this answers.
        await repeatVersion(transaction, type, actor);
      }
    },
    async () => undefined,
  );
}
