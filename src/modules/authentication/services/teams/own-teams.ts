/** What users do with teams: each call asks for the right that it needs, in the transaction that uses it. */
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { readWhile } from '../../../../kernel/read-while.ts';
import { authErrors } from '../../errors.ts';
import type { TeamAccess } from './access.ts';
import type { TeamPage } from './list-queries.ts';
import { rolesOf, teamById } from './queries.ts';
import { type NewTeam, requireTeam, type Teams } from './teams.ts';

export interface OwnTeams {
  /** A team without a parent belongs to the caller; one below another belongs to that, and to them if they say so. */
  create(
    caller: UserCaller,
    team: NewTeam & { readonly addCreatorToTeam?: boolean | undefined },
  ): Promise<string>;
  /** Those in which the caller has a role directly. */
  list(caller: UserCaller, page: TeamPage, populate: boolean): Promise<string>;
  get(caller: UserCaller, teamId: string, populate: boolean): Promise<string>;
  listBelow(caller: UserCaller, teamId: string, page: TeamPage): Promise<string>;
  rename(caller: UserCaller, teamId: string, name: string): Promise<string>;
  remove(caller: UserCaller, teamId: string): Promise<void>;
}

interface Dependencies {
  readonly database: Database;
  readonly teams: Teams;
  readonly access: TeamAccess;
}

export function createOwnTeams({ database, teams, access }: Dependencies): OwnTeams {
  return {
    async create(caller, { addCreatorToTeam = false, ...asked }) {
      await access.registered(caller);
      const input: NewTeam = { ...asked, madeBy: caller.userId };
      const { parentTeam } = input;
      if (parentTeam === undefined) return teams.create(caller, input, caller.userId);
      return database.transaction(async (transaction) => {
        await requireTeam(transaction, parentTeam);
        await access.require(caller, 'manageSubTeams', parentTeam);
        return teams.create(caller, input, addCreatorToTeam ? caller.userId : undefined);
      });
    },
    list: (caller, page, populate) =>
      teams.list({ ofUser: caller.userId }, page, populate ? { populateFor: caller } : {}),
    async get(caller, teamId, populate) {
      const ask = async () => {
        if (!(await teamById(database, teamId))) throw authErrors.TEAM_NOT_FOUND();
        if (await access.may(caller.userId, 'read', teamId)) return;
        if ((await rolesOf(database, teamId, [caller.userId])).size > 0) return;
        throw authErrors.TEAM_REFUSED();
      };
      return readWhile(ask, () => teams.get(teamId, populate ? { populateFor: caller } : {}));
    },
    async listBelow(caller, teamId, page) {
      await access.registered(caller);
      const ask = () => access.require(caller, 'viewSubTeams', teamId);
      return readWhile(ask, () => teams.list({ parent: teamId }, page, {}));
    },
    async rename(caller, teamId, name) {
      await access.registered(caller);
      return database.transaction(async (transaction) => {
        await requireTeam(transaction, teamId);
        await access.require(caller, 'manageSubTeams', teamId);
        return teams.change(caller, teamId, { name });
      });
    },
    async remove(caller, teamId) {
      await access.registered(caller);
      await database.transaction(async (transaction) => {
        await requireTeam(transaction, teamId);
        await access.require(caller, 'delete', teamId);
        await teams.remove(caller, teamId);
      });
    },
  };
}
