/** The SQL of teams: rows, names and members of single ones. */

import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { countingRelations } from '../../../authorization/index.ts';
import { type TeamRole, teamRoles } from '../../schemas.ts';

/** What permissions and names need to know of a team. */
export interface TeamRow {
  readonly id: string;
  readonly name: string;
  readonly parentTeam: string | null;
  readonly isDefault: boolean;
  /** The user who made it on the client surface; null for an operator's team. */
  readonly madeBy: string | null;
}

const teamColumns = '"_id" as id, "name", "parentTeam", "isDefault", "madeBy"';

/** Reads a team and keeps others from changing it, its members and its invitations until the transaction ends. */
export async function lockTeam(
  transaction: Transaction,
  teamId: string,
): Promise<TeamRow | undefined> {
  const text = `select ${teamColumns} from "app"."Team" where "_id" = $1 for update`;
  return (await transaction.query<TeamRow>({ text, values: [teamId] })).rows[0];
}

/** The default team, kept from going away until the transaction ends; others may join it at the same time. */
export async function holdDefaultTeam(transaction: Transaction): Promise<TeamRow | undefined> {
  return (
    await transaction.query<TeamRow>({
      text: `select ${teamColumns} from "app"."Team" where "isDefault" for key share`,
    })
  ).rows[0];
}

export async function teamById(database: Queryable, teamId: string): Promise<TeamRow | undefined> {
  return (
    await database.query<TeamRow>({
      text: `select ${teamColumns} from "app"."Team" where "_id" = $1`,
      values: [teamId],
    })
  ).rows[0];
}

export async function allTeams(database: Queryable): Promise<readonly TeamRow[]> {
  return (await database.query<TeamRow>({ text: `select ${teamColumns} from "app"."Team"` })).rows;
}

/** Only one transaction at a time makes a default team. */
export async function lockDefaultTeam(transaction: Transaction): Promise<void> {
  await transaction.query({
    text: "select pg_advisory_xact_lock(hashtext('penstock.default-team'))",
  });
}

/** Whether an operator's team without a parent has this name. */
export async function isRootName(database: Queryable, name: string): Promise<boolean> {
  const query = sql`select 1 from "app"."Team" where "parentTeam" is null and "madeBy" is null and "name" = ${name}`;
  return (await database.query(query)).count > 0;
}

/** The team and those above it, from itself up; at most `limit`. */
export async function lineage(
  database: Queryable,
  teamId: string,
  limit: number,
): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string }>(sql`
    with recursive up(id, parent, level) as (
      select "_id", "parentTeam", 1 from "app"."Team" where "_id" = ${teamId}
      union all
      select t."_id", t."parentTeam", up.level + 1 from up join "app"."Team" t on t."_id" = up.parent where up.level < ${limit}::integer)
    select id from up order by level`);
  return rows.map(({ id }) => id);
}

/** Levels of teams below a team, itself included; counting stops at `limit`. */
export async function heightOf(
  database: Queryable,
  teamId: string,
  limit: number,
): Promise<number> {
  const { rows } = await database.query<{ height: number }>(sql`
    with recursive down(id, level) as (
      select ${teamId}::uuid, 1
      union all
      select t."_id", down.level + 1 from down join "app"."Team" t on t."parentTeam" = down.id where down.level < ${limit}::integer)
    select max(level)::integer as height from down`);
  return rows[0]?.height ?? 1;
}

/** Sub-teams whose name another team without a parent, of the same maker, has already. */
export async function namesInTheWay(
  database: Queryable,
  teamId: string,
): Promise<readonly string[]> {
  const { rows } = await database.query<{ name: string }>(sql`
    select c."name" from "app"."Team" c join "app"."Team" r on r."name" = c."name" and r."parentTeam" is null
      and r."madeBy" is not distinct from c."madeBy"
    where c."parentTeam" = ${teamId} and r."_id" <> ${teamId} limit 5`);
  return rows.map(({ name }) => name);
}

// --- Members

/** The highest direct role of each of these users on a team; users without one are left out. */
export async function rolesOf(
  database: Queryable,
  teamId: string,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, TeamRole>> {
  const text = `
    select subject_id as "userId", max(array_position($3::text[], relation)) as rank from ${countingRelations} r
    where resource_type = 'Team' and resource_id = $1 and subject_type = 'User' and subject_id = any($2::text[]) and relation = any($3::text[])
    group by subject_id`;
  const { rows } = await database.query<{ userId: string; rank: number }>({
    text,
    values: [teamId, userIds, teamRoles],
  });
  return new Map(
    rows.flatMap(({ userId, rank }) =>
      teamRoles[rank - 1] ? [[userId, teamRoles[rank - 1] as TeamRole] as const] : [],
    ),
  );
}

/** Users who own a team directly. */
export async function countOwners(database: Queryable, teamId: string): Promise<number> {
  const text = `select count(distinct subject_id)::integer as count from ${countingRelations} r
    where resource_type = 'Team' and resource_id = $1 and subject_type = 'User' and relation = 'owner'`;
  return (await database.query<{ count: number }>({ text, values: [teamId] })).rows[0]?.count ?? 0;
}

/** Notes that these members were added without being asked. */
export const noteUnasked = (
  database: Queryable,
  teamId: string,
  userIds: readonly string[],
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.team_unasked (team_id, user_id)
    select ${teamId}::uuid, id from unnest(${userIds}::uuid[]) as x(id) on conflict do nothing`);

/** They have asked for it themselves now, or are gone. */
export const forgetUnasked = (
  database: Queryable,
  teamId: string,
  userIds: readonly string[],
): Promise<unknown> =>
  database.query(
    sql`delete from penstock.team_unasked where team_id = ${teamId}::uuid and user_id = any(${userIds}::uuid[])`,
  );

/** Which of these users exist. */
export async function existingUsers(
  database: Queryable,
  userIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await database.query<{ id: string }>(
    sql`select "_id" as id from "app"."User" where "_id" = any(${userIds}::uuid[]) for key share`,
  );
  return new Set(rows.map(({ id }) => id));
}

/** What team routes need to know about the user who calls. */
export interface Person {
  readonly email: string | null;
  readonly username: string | null;
  readonly isVerified: boolean;
  readonly isAnonymous: boolean;
}

export async function personById(database: Queryable, userId: string): Promise<Person | undefined> {
  const { rows } = await database.query<Person>(
    sql`select "email", "username", "isVerified", "isAnonymous" from "app"."User" where "_id" = ${userId}`,
  );
  return rows[0];
}
