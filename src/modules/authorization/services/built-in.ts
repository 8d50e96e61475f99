/** The definitions that the platform itself brings. */
import { system } from '../../../kernel/caller.ts';
import type { Definitions, NewDefinition } from './definitions.ts';

const readers = ['owner', 'readAll', 'editAll', 'owner->read', 'owner->edit'];
const editors = ['owner', 'editAll', 'owner->edit'];

/** Source: spec/authentication.md section 4. A plain member has no right but to see the members. */
const team: NewDefinition = {
  name: 'Team',
  relations: { member: ['User'], owner: ['User', 'Team'], readAll: ['User', 'Team'], editAll: ['User', 'Team'] },
  permissions: {
    read: readers,
    edit: editors,
    delete: ['owner', 'owner->edit'],
    invite: editors,
    viewMembers: ['member', ...readers],
    viewSubTeams: readers,
    manageMembers: ['owner', 'owner->edit'],
    manageSubTeams: editors,
    deleteOwners: ['owner', 'owner->deleteOwners'],
  },
  conditions: {},
  actAs: null,
  version: 1,
};

/** A role of the 0.16 line; holding it is a tuple, so that one engine and one changelog serve both. */
const role: NewDefinition = {
  name: 'Role',
  relations: { assignee: ['User'] },
  permissions: { hold: ['assignee'] },
  conditions: {},
  actAs: null,
  version: 1,
};

const user: NewDefinition = { name: 'User', relations: {}, permissions: {}, conditions: {}, actAs: null, version: 1 };

const builtIn: readonly NewDefinition[] = [user, team, role];
export const builtInNames: ReadonlySet<string> = new Set(builtIn.map(({ name }) => name));

/** Defines what is not defined yet. What an operator made of them stays. */
export async function defineBuiltIn(definitions: Definitions): Promise<void> {
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
