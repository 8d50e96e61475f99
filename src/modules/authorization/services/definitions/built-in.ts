/** The definitions that the platform itself brings. */
import type { ActionUse } from '../../../../kernel/action-uses.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import { type DefinitionContent, type NewDefinition, sameContent } from './stored-definition.ts';

/** As much of `Definitions` as this needs. */
interface DefinitionWriter {
  get(idOrName: string): Promise<DefinitionContent>;
  all(): Promise<readonly DefinitionContent[]>;
  define(caller: Caller, definition: NewDefinition): Promise<unknown>;
  change(
    caller: Caller,
    idOrName: string,
    definition: Omit<NewDefinition, 'name'>,
  ): Promise<unknown>;
}

/** What a plain member of a team may do with the records that the team owns. */
export type TeamMemberAccess = 'none' | 'read' | 'edit';

const memberActions: Readonly<
  Record<TeamMemberAccess, { readonly read: readonly string[]; readonly edit: readonly string[] }>
> = {
  none: { read: [], edit: [] },
  read: { read: ['member'], edit: [] },
  edit: { read: ['member'], edit: ['member'] },
};

const readers = ['owner', 'readAll', 'editAll', 'owner->viewSubTeams', 'owner->manageSubTeams'];
const editors = ['owner', 'editAll', 'owner->manageSubTeams'];

/**
 * Source: spec/authentication.md section 4, and for plain members design.md section 9. `read` and `edit` are what
 * records of the team hang on (`owner->read`); what a parent passes on to its sub-teams, and who may run the team,
 * hangs on the actions beside them, so that a plain member gets the records of their team and nothing else.
 */
const teamPermissions = (access: TeamMemberAccess): NewDefinition['permissions'] => ({
  read: [...memberActions[access].read, ...readers],
  edit: [...memberActions[access].edit, ...editors],
  delete: ['owner', 'owner->manageSubTeams'],
  invite: editors,
  viewMembers: ['member', ...readers],
  viewSubTeams: readers,
  manageMembers: ['owner', 'owner->manageSubTeams'],
  manageSubTeams: editors,
  deleteOwners: ['owner', 'owner->deleteOwners'],
});

/** The permissions that the platform gives `Team` on its own until teams are switched on. A plain member sees the members. */
const plainReaders = ['owner', 'readAll', 'editAll', 'owner->read', 'owner->edit'];
const plainEditors = ['owner', 'editAll', 'owner->edit'];

const team: NewDefinition = {
  name: 'Team',
  relations: {
    member: ['User'],
    owner: ['User', 'Team'],
    readAll: ['User', 'Team'],
    editAll: ['User', 'Team'],
  },
  permissions: {
    read: plainReaders,
    edit: plainEditors,
    delete: ['owner', 'owner->edit'],
    invite: plainEditors,
    viewMembers: ['member', ...plainReaders],
    viewSubTeams: plainReaders,
    manageMembers: ['owner', 'owner->edit'],
    manageSubTeams: plainEditors,
    deleteOwners: ['owner', 'owner->deleteOwners'],
  },
  conditions: {},
  actAs: null,
  version: 1,
};

/**
 * Gives plain members of teams this much of their teams' records. Answers false, and changes nothing, where an
 * operator has written another definition of `Team`.
 */
export async function setTeamMemberAccess(
  definitions: DefinitionWriter,
  access: TeamMemberAccess,
): Promise<boolean> {
  if (!isPlatformTeam(await definitions.get(team.name))) return false;
  const { version: _, name, ...plain } = team;
  await definitions.change(system('teams.memberAccess'), name, {
    ...plain,
    permissions: teamPermissions(access),
  });
  return true;
}

/** Whether this is what the platform itself says about `Team`, for whatever plain members may do. */
const isPlatformTeam = (stored: DefinitionContent): boolean =>
  [
    team,
    ...(['none', 'read', 'edit'] as const).map((one) => ({
      ...team,
      permissions: teamPermissions(one),
    })),
  ].some((one) => sameContent(one, stored));

/** A role of the 0.16 line; holding it is a tuple, so that one engine and one changelog serve both. */
const role: NewDefinition = {
  name: 'Role',
  relations: { assignee: ['User'] },
  permissions: { hold: ['assignee'] },
  conditions: {},
  actAs: null,
  version: 1,
};

/** What roles hang on: a definition of `Role` does not lose it. */
export const roleUses: readonly ActionUse[] = [
  ...Object.keys(role.permissions),
  ...Object.keys(role.relations),
].map((action) => ({
  ...{ schema: role.name, action, module: 'authorization', type: 'roles', key: action },
  title: 'assigning roles',
}));

const user: NewDefinition = {
  name: 'User',
  relations: {},
  permissions: {},
  conditions: {},
  actAs: null,
  version: 1,
};

const builtIn: readonly NewDefinition[] = [user, team, role];
export const builtInNames: ReadonlySet<string> = new Set(builtIn.map(({ name }) => name));

/** Whether a definition is one that the platform brings, untouched by operators. */
export const isUntouched = (stored: DefinitionContent): boolean =>
  stored.name === team.name
    ? isPlatformTeam(stored)
    : builtIn.some((one) => one.name === stored.name && sameContent(one, stored));

/** Defines what is not defined yet. What an operator made of them stays. */
export async function defineBuiltIn(definitions: DefinitionWriter): Promise<void> {
  const known = new Set((await definitions.all()).map(({ name }) => name));
  for (const definition of builtIn) {
    if (!known.has(definition.name)) await definitions.define(system('authorization'), definition);
  }
}

/**
 * The definition of a schema with row authorization (spec/authorization.md 5.6), except that it names
 * the types that may stand in its relations (`subjects`, by configuration): with "any type" every
 * record could own every other one, and no list could be answered without following all of them.
 */
export const recordDefinition = (name: string, subjects: readonly string[]): NewDefinition => ({
  name,
  relations: { owner: [...subjects], editor: [...subjects], reader: [...subjects] },
  permissions: {
    read: ['reader', 'reader->read', 'editor', 'editor->read', 'owner', 'owner->read'],
    edit: ['editor', 'editor->edit', 'owner', 'owner->edit'],
    delete: ['editor', 'editor->delete', 'owner', 'owner->delete'],
  },
  conditions: {},
  actAs: null,
});
