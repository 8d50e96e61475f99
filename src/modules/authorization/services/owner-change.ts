/** Another owner for records that are there. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Owner } from '../../../kernel/permissions.ts';
import { ownerRelation } from '../model/record-field.ts';
import type { Tuples } from './tuples.ts';

interface OwnerChange {
  readonly type: string;
  readonly ids: readonly string[];
  readonly owner: Owner;
}

/** Whoever owned them before does so no more. */
export async function changeOwner(
  tuples: Pick<Tuples, 'write' | 'removeRelation'>,
  caller: Caller,
  { type, ids, owner }: OwnerChange,
): Promise<void> {
  const subject = { ...owner, relation: '' };
  await tuples.removeRelation(caller, { type, ids, relation: ownerRelation, except: subject });
  const owned = ids.map((id) => ({ subject, relation: ownerRelation, resource: { type, id } }));
  await tuples.write(caller, owned);
}
