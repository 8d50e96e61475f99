/** Where teams stand: below which parent, how deep, and what becomes of those below one that goes. */
import type { Caller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import type { AuthorizationService } from '../../../authorization/index.ts';
import { authErrors } from '../../errors.ts';
import { heightOf, lineage, lockTeam, namesInTheWay, type TeamRow } from '../../team-queries.ts';
import { parenthood } from './access.ts';

/** Levels of teams. Checks follow up to 25 steps; records and their folders need some of them. */
export const maxLevels = 10;

/** The team, which nobody else changes until the transaction ends; throws 404. */
export async function requireTeam(transaction: Transaction, teamId: string): Promise<TeamRow> {
  const team = await lockTeam(transaction, teamId);
  if (!team) throw authErrors.TEAM_NOT_FOUND();
  return team;
}

/** Sub-teams of a team that goes stand beside the other teams of their makers, whose names are unique. Throws 409. */
export async function requireRoomForSubTeams(transaction: Transaction, teamId: string): Promise<void> {
  const [name] = await namesInTheWay(transaction, teamId);
  if (name === undefined) return;
  const message = `The sub-team "${name}" cannot become a team of its own, since there is one of that name: rename it first`;
  throw authErrors.TEAM_EXISTS({ message });
}

/** The parent must be there, and not so deep that `height` more levels would be too many. Answers it and those above. */
export async function requireParent(transaction: Transaction, parentId: string, height: number): Promise<readonly string[]> {
  if (!(await lockTeam(transaction, parentId))) throw invalid('parentTeam', 'relation', 'there is no such team');
  const above = await lineage(transaction, parentId, maxLevels);
  if (above.length + height > maxLevels) throw invalid('parentTeam', 'depth', `teams can be at most ${maxLevels} levels deep`);
  return above;
}

export interface Move {
  readonly teamId: string;
  /** `null`: none. */
  readonly parentTeam: string | null;
}

/** Gives a team's relations another parent, or none. Alone among all moves, so that no two of them can close a circle. */
export async function moveTeam(
  transaction: Transaction,
  caller: Caller,
  { teamId, parentTeam }: Move,
  { relate, unrelate }: AuthorizationService,
): Promise<void> {
  await transaction.query({ text: 'lock table "app"."Team" in share row exclusive mode' });
  const team = await requireTeam(transaction, teamId);
  if (team.parentTeam === parentTeam) return;
  if (parentTeam !== null) {
    const above = await requireParent(transaction, parentTeam, await heightOf(transaction, teamId, maxLevels));
    if (above.includes(teamId)) throw invalid('parentTeam', 'circle', 'a team cannot be below itself');
  }
  if (team.parentTeam !== null) await unrelate(caller, [parenthood(team.parentTeam, teamId)]);
  if (parentTeam !== null) await relate(caller, [parenthood(parentTeam, teamId)]);
}
