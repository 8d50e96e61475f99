/** The SQL of invitations to shared objects. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';

/** An invitation as it is stored; nothing in it opens anything. */
export interface ShareInvitation {
  readonly id: string;
  /** Canonical. */
  readonly email: string;
  readonly resourceType: string;
  readonly resourceId: string;
  readonly relation: string;
  readonly invitedBy: string;
  /** When what is given ends. */
  readonly shareEndsAt: Date | null;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

const columns = `i.id, i.email, i.resource_type as "resourceType", i.resource_id as "resourceId", i.relation,
  i.invited_by as "invitedBy", i.share_ends_at as "shareEndsAt", i.created_at as "createdAt", i.expires_at as "expiresAt"`;
/** Whoever is blocked invites nobody, and what ends before it is taken is no offer any more. */
const alive = `i.expires_at > now() and (i.share_ends_at is null or i.share_ends_at > now()) and exists (select from "app"."User" u where u."_id" = i.invited_by and u."active")`;

/** What somebody offers to whom. */
interface ShareOffer {
  readonly email: string;
  readonly resourceType: string;
  readonly resourceId: string;
  readonly relation: string;
  readonly invitedBy: string;
  /** ISO 8601. */
  readonly shareEndsAt: string | null;
}

export interface NewShareInvitation extends ShareOffer {
  readonly id: string;
  readonly hash: string;
  readonly lifetimeMs: number;
}

/** In place of an earlier one for the same object, relation and address. */
export async function putInvitation(
  database: Queryable,
  one: NewShareInvitation,
): Promise<ShareInvitation> {
  const { rows } = await database.query<ShareInvitation>(sql`
    insert into penstock.share_invitations as i (id, hash, email, resource_type, resource_id, relation, invited_by, share_ends_at, expires_at)
    values (${one.id}, ${one.hash}, ${one.email}, ${one.resourceType}, ${one.resourceId}, ${one.relation}, ${one.invitedBy},
      ${one.shareEndsAt}::timestamptz, now() + ${one.lifetimeMs}::double precision * interval '1 millisecond')
    on conflict (resource_type, resource_id, relation, email) do update set
      id = excluded.id, hash = excluded.hash, invited_by = excluded.invited_by, share_ends_at = excluded.share_ends_at,
      expires_at = excluded.expires_at, created_at = now()
    returning id, email, resource_type as "resourceType", resource_id as "resourceId", relation, invited_by as "invitedBy",
      share_ends_at as "shareEndsAt", created_at as "createdAt", expires_at as "expiresAt"`);
  const [stored] = rows;
  if (!stored) throw new Error('an invitation was not stored');
  return stored;
}

/** How an invitation is named: by its token, or by its id. */
export type InvitationKey = { readonly hash: string } | { readonly id: string };

/** Uses a living invitation to this address up; of many at once, one gets it. */
export async function takeInvitation(
  database: Queryable,
  key: InvitationKey,
  email: string,
): Promise<ShareInvitation | undefined> {
  const [match, value] = 'hash' in key ? ['i.hash', key.hash] : ['i.id', key.id];
  const text = `delete from penstock.share_invitations i where ${match} = $1 and i.email = $2 and ${alive} returning ${columns}`;
  return (await database.query<ShareInvitation>({ text, values: [value, email] })).rows[0];
}

export async function invitationById(
  database: Queryable,
  id: string,
): Promise<ShareInvitation | undefined> {
  const text = `select ${columns} from penstock.share_invitations i where i.id = $1`;
  return (await database.query<ShareInvitation>({ text, values: [id] })).rows[0];
}

/** False when somebody was faster. */
export const dropInvitation = async (database: Queryable, id: string): Promise<boolean> =>
  (await database.query(sql`delete from penstock.share_invitations where id = ${id}`)).count > 0;

/** Living invitations to an object, the newest first, and how many there are. */
export async function invitationsOf(
  database: Queryable,
  resource: { readonly type: string; readonly id: string },
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly invitations: readonly ShareInvitation[]; readonly count: number }> {
  const where = `i.resource_type = $1 and i.resource_id = $2 and ${alive}`;
  const values = [resource.type, resource.id];
  const text = `select ${columns} from penstock.share_invitations i where ${where} order by i.created_at desc, i.id desc limit $3 offset $4`;
  const [page, count] = await Promise.all([
    database.query<ShareInvitation>({ text, values: [...values, limit, skip] }),
    database.query<{ count: number }>({
      text: `select count(*)::integer as count from penstock.share_invitations i where ${where}`,
      values,
    }),
  ]);
  return { invitations: page.rows, count: count.rows[0]?.count ?? 0 };
}

/** Living invitations to an address, the newest first; at most 200. */
export async function invitationsTo(
  database: Queryable,
  email: string,
): Promise<readonly ShareInvitation[]> {
  const text = `select ${columns} from penstock.share_invitations i where i.email = $1 and ${alive} order by i.created_at desc, i.id desc limit 200`;
  return (await database.query<ShareInvitation>({ text, values: [email] })).rows;
}

/** How many invitations of a user live beside the one whose place this one takes; counting stops at `max`. */
export async function countOtherOpen(
  database: Queryable,
  one: ShareOffer,
  max: number,
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`
    select count(*)::integer as count from (
      select 1 from penstock.share_invitations where invited_by = ${one.invitedBy} and expires_at > now()
        and (resource_type, resource_id, relation, email) <> (${one.resourceType}::text, ${one.resourceId}::text, ${one.relation}::text, ${one.email}::text)
      limit ${max}) few`);
  return rows[0]?.count ?? 0;
}

/** One after the other for each user, until the transaction ends: what is counted then stays so. */
export const lockInvitationsBy = (database: Queryable, userId: string): Promise<unknown> =>
  database.query(
    sql`select pg_advisory_xact_lock(hashtextextended(${`penstock.share_invitations ${userId}`}, 0))`,
  );

/** Forgets what was offered to the addresses of these users, who are about to be deleted. */
export const forgetInvitationsTo = (
  database: Queryable,
  userIds: readonly string[],
): Promise<unknown> =>
  database.query(sql`
    delete from penstock.share_invitations where email in (select "email" from "app"."User" where "_id" = any(${userIds}::uuid[]))`);

/** Deletes up to `limit` invitations that have expired; answers how many. */
export async function purgeShareInvitations(database: Queryable, limit: number): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.share_invitations where id in (
      select id from penstock.share_invitations where expires_at < now() order by expires_at limit ${limit}::integer)`);
  return count;
}
