/** Roles as state: all but those that the platform brings and nobody has changed. Who holds them is data. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import type { StateChange, StateDocument, StateType } from '../../../kernel/state/state.ts';
import { NewRoleShape } from '../operations/roles.ts';
import { listRoles, type RoleRow, roleByName } from '../role-queries.ts';
import { isBuiltInRole, isUntouchedRole, type NewRole, type Roles } from '../services/roles.ts';

/** Rows of one reading; far more than anybody keeps. */
export const ALL = { skip: 0, limit: 100_000 } as const;

export const roleState = (database: Database, roles: Roles): StateType => ({
  module: 'authorization',
  type: 'roles',
  priority: 6,
  document: NewRoleShape,
  keyOf: ({ name }) => String(name),
  async export() {
    const { roles: stored } = await listRoles(database, { ...ALL, sort: 'name' });
    return stored.filter((role) => !isUntouchedRole(role)).map(documentOf);
  },
  complete: async (_caller, documents) => documents.map(({ document }) => documentOf(document as StateDocument & NewRole)),
  isRemovable: ({ name }) => !isBuiltInRole(String(name)),
  apply: (caller, changes) =>
    database.transaction(async (transaction) => {
      for (const change of changes) await applyOne(roles, caller, change, await roleByName(transaction, change.key));
    }),
});

async function applyOne(roles: Roles, caller: Caller, { after }: StateChange, stored: RoleRow | undefined): Promise<void> {
  if (after && stored) await roles.update(caller, stored.id, after);
  else if (after) await roles.create(caller, after as StateDocument & NewRole);
  else if (stored) await roles.remove(caller, stored.id);
}

const documentOf = ({ name, description = '', permissions = [] }: NewRole): StateDocument => ({ name, description, permissions });
