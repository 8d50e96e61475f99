/** The SQL of invitations to teams. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { TeamRole } from '../../schemas.ts';

/** An invitation as it is stored; nothing in it opens anything. */
export interface InviteRow {
  readonly id: string;
  readonly teamId: string;
  /** Canonical; null for a persistent invitation, which anybody with the token may use. */
  readonly email: string | null;
  readonly role: TeamRole;
  readonly userData: Readonly<Record<string, unknown>> | null;
  /** Null: an operator. */
  readonly invitedBy: string | null;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
}

const columns =
  'i.id, i.team_id as "teamId", i.email, i.role, i.user_data as "userData", i.invited_by as "invitedBy", i.created_at as "createdAt", i.expires_at as "expiresAt"';
const alive = '(i.expires_at is null or i.expires_at > now())';

export interface NewInvite {
  readonly id: string;
  readonly teamId: string;
  readonly email: string | null;
  readonly role: TeamRole;
  readonly userData: Readonly<Record<string, unknown>> | undefined;
  readonly hash: string;
  /** Hash of the token that only the mailbox gets. */
  readonly mailedHash: string | null;
  readonly invitedBy: string | null;
  /** Milliseconds; null for a persistent one. */
  readonly lifetimeMs: number | null;
}

/** Stores an invitation in place of an earlier one for the same team and address. */
export const putInvite = (database: Queryable, invite: NewInvite): Promise<unknown> =>
  database.query(sql`
    insert into penstock.team_invites (id, team_id, email, role, user_data, hash, mailed_hash, invited_by, expires_at)
    values (${invite.id}, ${invite.teamId}, ${invite.email}, ${invite.role},
            ${invite.userData === undefined ? null : JSON.stringify(invite.userData)}::jsonb, ${invite.hash}, ${invite.mailedHash},
            ${invite.invitedBy}, now() + ${invite.lifetimeMs}::double precision * interval '1 millisecond')
    on conflict (team_id, email) do update set
      id = excluded.id, role = excluded.role, user_data = excluded.user_data, hash = excluded.hash, mailed_hash = excluded.mailed_hash,
      invited_by = excluded.invited_by, expires_at = excluded.expires_at, created_at = now()`);

/** How an invitation is named: by one of its tokens, or by its id. */
export type InviteKey = { readonly hash: string } | { readonly id: string };

/** A living invitation as somebody presents it. */
export interface FoundInvite extends InviteRow {
  /** The token that names it went to the mailbox alone. */
  readonly mailed: boolean;
  /** False while the inviter is blocked. */
  readonly offered: boolean;
}

/** Looks without using up. Who acts on the answer locks the team first and looks again. */
export async function findInvite(
  database: Queryable,
  key: InviteKey,
): Promise<FoundInvite | undefined> {
  const [match, value] =
    'hash' in key ? ['(i.hash = $1 or i.mailed_hash = $1)', key.hash] : ['i.id = $1', key.id];
  const text = `select ${columns}, coalesce(i.mailed_hash = $2, false) as mailed, coalesce(u."active", true) as offered
    from penstock.team_invites i left join "app"."User" u on u."_id" = i.invited_by where ${match} and ${alive}`;
  return (
    await database.query<FoundInvite>({ text, values: [value, 'hash' in key ? key.hash : ''] })
  ).rows[0];
}

/** What the page of an invitation shows before anybody has signed in. */
export async function inviteFacts(
  database: Queryable,
  hash: string,
): Promise<{ email: string | null; userData: Record<string, unknown> | null } | undefined> {
  const text = `select i.email, i.user_data as "userData" from penstock.team_invites i where (i.hash = $1 or i.mailed_hash = $1) and ${alive}`;
  return (
    await database.query<{ email: string | null; userData: Record<string, unknown> | null }>({
      text,
      values: [hash],
    })
  ).rows[0];
}

/** Uses an addressed invitation up; false when somebody was faster. */
export async function takeInvite(database: Queryable, id: string): Promise<boolean> {
  return (await database.query(sql`delete from penstock.team_invites where id = ${id}`)).count > 0;
}

/** Which invitation of a team is meant: the one to an address, or a persistent one by its token or its id. */
export type Revocation = { readonly email: string } | { readonly persistent: InviteKey };

/** Ends an invitation; answers its role, or nothing when there is none. */
export async function revokeInvite(
  database: Queryable,
  teamId: string,
  which: Revocation,
): Promise<TeamRole | undefined> {
  const [match, value] = matchOf(which);
  const text = `delete from penstock.team_invites where team_id = $1 and ${match} returning role`;
  return (await database.query<{ role: TeamRole }>({ text, values: [teamId, value] })).rows[0]
    ?.role;
}

function matchOf(which: Revocation): readonly [condition: string, value: string] {
  if ('email' in which) return ['email = $2', which.email];
  return 'hash' in which.persistent
    ? ['email is null and hash = $2', which.persistent.hash]
    : ['email is null and id = $2', which.persistent.id];
}

/** Living invitations of a team, the newest first, and how many there are. */
export async function invitesOfTeam(
  database: Queryable,
  teamId: string,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly invites: readonly InviteRow[]; readonly count: number }> {
  const where = `i.team_id = $1 and ${alive}`;
  const text = `select ${columns} from penstock.team_invites i where ${where} order by i.created_at desc, i.id desc limit $2 offset $3`;
  const [page, count] = await Promise.all([
    database.query<InviteRow>({ text, values: [teamId, limit, skip] }),
    database.query<{ count: number }>({
      text: `select count(*)::integer as count from penstock.team_invites i where ${where}`,
      values: [teamId],
    }),
  ]);
  return { invites: page.rows, count: count.rows[0]?.count ?? 0 };
}

/** Living invitations to an address, the newest first; at most 200. Of inviters who are blocked there are none. */
export async function invitesToAddress(
  database: Queryable,
  email: string,
): Promise<readonly (InviteRow & { teamName: string })[]> {
  const text = `select ${columns}, t."name" as "teamName" from penstock.team_invites i join "app"."Team" t on t."_id" = i.team_id
    left join "app"."User" u on u."_id" = i.invited_by
    where i.email = $1 and ${alive} and coalesce(u."active", true) order by i.created_at desc, i.id desc limit 200`;
  return (await database.query<InviteRow & { teamName: string }>({ text, values: [email] })).rows;
}

/** Forgets what was offered to the addresses of these users, who are about to be deleted. */
export const forgetInvitesTo = (
  database: Queryable,
  userIds: readonly string[],
): Promise<unknown> =>
  database.query(sql`
    delete from penstock.team_invites where email in (select "email" from "app"."User" where "_id" = any(${userIds}::uuid[]))`);

/** Deletes up to `limit` invitations that have expired; answers how many. */
export async function purgeInvites(database: Queryable, limit: number): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.team_invites where id in (
      select id from penstock.team_invites where expires_at < now() order by expires_at limit ${limit}::integer)`);
  return count;
}
