/** Making, reading, renaming, moving and deleting teams. Row, relations and event are one transaction. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import type { OptionalModule } from '../../../../host/module.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid, PenstockError } from '../../../../kernel/errors.ts';
import type { AuthorizationService } from '../../../authorization/index.ts';
import type { StorageService } from '../../../storage/index.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent } from '../../events.ts';
import { teamSchema } from '../../schemas.ts';
import { membership, parenthood, type TeamAccess } from './access.ts';
import {
  listTeams,
  renderTeam,
  type TeamFilter,
  type TeamPage,
  type TeamView,
} from './list-queries.ts';
import { heightOf, lineage, lockTeam, namesInTheWay, type TeamRow } from './queries.ts';

/* Where teams stand: below which parent, how deep, and what becomes of those below one that goes. */

/** Levels of teams. Checks follow up to 25 steps; records and their folders need some of them. */
export const maxLevels = 10;

/** The team, which nobody else changes until the transaction ends; throws 404. */
export async function requireTeam(transaction: Transaction, teamId: string): Promise<TeamRow> {
  const team = await lockTeam(transaction, teamId);
  if (!team) throw authErrors.TEAM_NOT_FOUND();
  return team;
}

/** Sub-teams of a team that goes stand beside the other teams of their makers, whose names are unique. Throws 409. */
async function requireRoomForSubTeams(transaction: Transaction, teamId: string): Promise<void> {
  const [name] = await namesInTheWay(transaction, teamId);
  if (name === undefined) return;
  const message = `The sub-team "${name}" cannot become a team of its own, since there is one of that name: rename it first`;
  throw authErrors.TEAM_EXISTS({ message });
}

/** The parent must be there, and not so deep that `height` more levels would be too many. Answers it and those above. */
async function requireParent(
  transaction: Transaction,
  parentId: string,
  height: number,
): Promise<readonly string[]> {
  if (!(await lockTeam(transaction, parentId)))
    throw invalid('parentTeam', 'relation', 'there is no such team');
  const above = await lineage(transaction, parentId, maxLevels);
  if (above.length + height > maxLevels)
    throw invalid('parentTeam', 'depth', `teams can be at most ${maxLevels} levels deep`);
  return above;
}

interface Move {
  readonly teamId: string;
  /** `null`: none. */
  readonly parentTeam: string | null;
}

/** Gives a team's relations another parent, or none. Alone among all moves, so that no two of them can close a circle. */
async function moveTeam(
  transaction: Transaction,
  caller: Caller,
  { teamId, parentTeam }: Move,
  { relate, unrelate }: AuthorizationService,
): Promise<void> {
  await transaction.query({ text: 'lock table "app"."Team" in share row exclusive mode' });
  const team = await requireTeam(transaction, teamId);
  if (team.parentTeam === parentTeam) return;
  if (parentTeam !== null) {
    const above = await requireParent(
      transaction,
      parentTeam,
      await heightOf(transaction, teamId, maxLevels),
    );
    if (above.includes(teamId))
      throw invalid('parentTeam', 'circle', 'a team cannot be below itself');
  }
  if (team.parentTeam !== null) await unrelate(caller, [parenthood(team.parentTeam, teamId)]);
  if (parentTeam !== null) await relate(caller, [parenthood(parentTeam, teamId)]);
}

export interface NewTeam {
  readonly name: string;
  readonly parentTeam?: string | undefined;
  readonly isDefault?: boolean | undefined;
  /** The user who makes it on the client surface; an operator's team unless set. */
  readonly madeBy?: string | undefined;
}

/** `null` takes the team out of its parent; what is left out stays. */
interface TeamChange {
  readonly name?: string | undefined;
  readonly isDefault?: boolean | undefined;
  readonly parentTeam?: string | null | undefined;
  /** Null makes a user's team an operator's. */
  readonly madeBy?: null | undefined;
}

/** JSON text, as the record engine renders teams. */
export interface Teams {
  list(filter: TeamFilter, page: TeamPage, view: ViewOptions): Promise<string>;
  /** Throws 404. */
  get(teamId: string, view: ViewOptions): Promise<string>;
  /** Without asking for rights. `owner`: the user who owns it from the start. */
  create(caller: Caller, team: NewTeam, owner?: string): Promise<string>;
  change(caller: Caller, teamId: string, change: TeamChange): Promise<string>;
  /** Its sub-teams become teams of their own. Throws 412 for the default team. */
  remove(caller: Caller, teamId: string): Promise<void>;
}

/** Whether parents are shown as records, and for whom. */
interface ViewOptions {
  readonly populateFor?: Caller | undefined;
}

interface Dependencies
  extends Pick<Kernel, 'database' | 'events' | 'records' | 'schemas' | 'permissions'> {
  readonly access: TeamAccess;
  readonly storage: OptionalModule<StorageService>;
}

const asModule = system('authentication');
const schemaName = teamSchema.name;

export function createTeams(dependencies: Dependencies): Teams {
  const { database, events, records, schemas, permissions, access, storage } = dependencies;
  const compiled = (): CompiledSchema => {
    const schema = schemas.get(schemaName);
    if (!schema) throw errors.UNAVAILABLE();
    return schema;
  };
  const view = async ({ populateFor }: ViewOptions): Promise<TeamView> => {
    if (populateFor === undefined) return { schema: compiled() };
    if (populateFor.kind !== 'user') return { schema: compiled(), parent: 'all' };
    return {
      schema: compiled(),
      parent: await permissions.engine?.predicate(populateFor, 'read', schemaName),
    };
  };

  return {
    list: async (filter, page, options) => listTeams(database, await view(options), filter, page),
    async get(teamId, options) {
      const json = await renderTeam(database, await view(options), teamId);
      if (json === undefined) throw authErrors.TEAM_NOT_FOUND();
      return json;
    },
    create: (caller, team, owner) => create(dependencies, caller, team, owner),
    change: (caller, teamId, change) =>
      writing(() =>
        database.transaction(async (transaction) => {
          const { parentTeam } = change;
          if (parentTeam === undefined) await requireTeam(transaction, teamId);
          else await moveTeam(transaction, caller, { teamId, parentTeam }, access.authorization());
          const { json } = await records.update(asModule, schemaName, teamId, fieldsOf(change));
          await events.emit(transaction, caller, teamEvent('update', teamId));
          return json;
        }),
      ),
    remove: (caller, teamId) =>
      writing(() =>
        database.transaction(async (transaction) => {
          const { isDefault } = await requireTeam(transaction, teamId);
          if (isDefault) throw authErrors.DEFAULT_TEAM_PROTECTED();
          await requireRoomForSubTeams(transaction, teamId);
          // The record engine takes the relations of the team away in the same statement.
          await records.remove(asModule, schemaName, teamId);
          await storage.current()?.forgetOwners(transaction, [`${schemaName}:${teamId}`]);
          await events.emit(transaction, caller, teamEvent('delete', teamId));
        }),
      ),
  };
}

function create(
  { database, records, access, events }: Dependencies,
  caller: Caller,
  input: NewTeam,
  owner: string | undefined,
): Promise<string> {
  return writing(() =>
    database.transaction(async (transaction) => {
      if (input.parentTeam !== undefined) await requireParent(transaction, input.parentTeam, 1);
      const { id, json } = await records.create(asModule, schemaName, fieldsOf(input));
      const owners = [
        ...(input.parentTeam === undefined ? [] : [parenthood(input.parentTeam, id)]),
        ...(owner === undefined ? [] : [membership(owner, 'owner', id)]),
      ];
      await access.authorization().relate(caller, owners);
      await events.emit(transaction, caller, teamEvent('create', id));
      return json;
    }),
  );
}

function fieldsOf({
  name,
  isDefault,
  parentTeam,
  madeBy,
}: NewTeam | TeamChange): Record<string, unknown> {
  return {
    ...(name === undefined ? {} : { name: teamName(name) }),
    ...(isDefault === undefined ? {} : { isDefault }),
    ...(parentTeam === undefined ? {} : { parentTeam }),
    ...(madeBy === undefined ? {} : { madeBy }),
  };
}

/** Controls, line ends, and signs that nobody sees but that turn the text around. */
const hiddenSigns = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u;

/** Names are compared as they look: normalised, and without spaces at the ends. */
export function teamName(text: string): string {
  const name = text.normalize('NFC').trim();
  if (name === '' || hiddenSigns.test(name))
    throw invalid('name', 'pattern', 'write a name of visible characters');
  return name;
}

/** Gives the conflicts of the rules that the schema language cannot say (migrations/teams.ts) their own errors. */
async function writing<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw conflictOf(error) ?? error;
  }
}

function conflictOf(error: unknown): PenstockError | undefined {
  const cause = error instanceof PenstockError ? error.cause : undefined;
  const constraint =
    typeof cause === 'object' && cause !== null && 'constraint' in cause
      ? cause.constraint
      : undefined;
  const conflict = (
    factory: typeof authErrors.TEAM_EXISTS,
    path: string,
    message: string,
  ): PenstockError => factory({ errors: [{ path, rule: 'unique', message }], cause: error });
  if (constraint === 'teams_by_name' || constraint === 'teams_root_names')
    return conflict(authErrors.TEAM_EXISTS, 'name', 'there is a team of this name at this place');
  if (constraint === 'teams_default')
    return conflict(
      authErrors.DEFAULT_TEAM_EXISTS,
      'isDefault',
      'another team is the default already',
    );
  return undefined;
}
