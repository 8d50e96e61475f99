/** What a definition must say so that records of its name can be served (spec/authorization.md 5.6). */
import type { Definition } from '../model/definition.ts';
import { ownerRelation } from '../record-tuples.ts';

const recordActions = ['read', 'edit', 'delete'] as const;

/** True when an object of this type can own records. */
export const takesOwner = (definition: Definition | undefined, type: string): boolean =>
  (definition?.relations.get(ownerRelation) ?? []).some(
    (allowed) =>
      (allowed.type === type || allowed.type === '*') && allowed.relation === '' && !allowed.wildcard && allowed.condition === undefined,
  );

/** True when users can own records of the type, and it says who may read, edit and delete them. */
export const servesRecords = (definition: Definition): boolean =>
  takesOwner(definition, 'User') && recordActions.every((action) => definition.actions.has(action));
