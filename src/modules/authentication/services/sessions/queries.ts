/** The SQL of sessions and refresh tokens. Values are always parameters; times come back in ms since the epoch. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { identitySql, sql } from '../../../../kernel/database/sql.ts';
import type { Credentials } from '../../queries.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];
const ids = async (
  result: Promise<{ readonly rows: readonly { readonly id: string }[] }>,
): Promise<readonly string[]> => (await result).rows.map((row) => row.id);

/** A session as its tokens need it. */
export interface SessionRow {
  readonly id: string;
  readonly userId: string;
  readonly clientId: string;
  readonly complete: boolean;
  readonly authenticatedAt: number;
  /** The absolute end. */
  readonly expiresAt: number;
  /** When the present token pair was made. */
  readonly issuedAt: number;
  /** Id of the admin who opened it to act as the user. */
  readonly impersonatedBy?: string | null;
  /** What hooks add to its access tokens. */
  readonly claims?: Readonly<Record<string, unknown>> | null;
}

export interface NewSession {
  readonly id: string;
  /** The account as it was when it was decided what its sign-in still needs. */
  readonly account: Pick<
    Credentials,
    'userId' | 'hashedPassword' | 'email' | 'hasTwoFA' | 'requiresTwoFA'
  >;
  readonly clientId: string;
  readonly complete: boolean;
  readonly lifetimeMs: number;
  readonly idleMs: number;
  readonly address: string;
  readonly userAgent: string | null;
  readonly claims: Readonly<Record<string, unknown>> | null;
}

/**
 * Opens a session, unless the account was blocked, or its password, address or second factor changed since
 * it was read. The share lock on the account makes such a change that runs at the same time wait for us, or
 * us for it: it either sees the new session and ends it, or there is none.
 */
export const insertSession = (
  database: Queryable,
  { account, ...session }: NewSession,
): Promise<SessionRow | undefined> =>
  first(
    database.query<SessionRow>(identitySql`
      with account as (
        select "_id" from "app"."User"
        where "_id" = ${account.userId} and "active" and "hashedPassword" is not distinct from ${account.hashedPassword}
          and "email" is not distinct from ${account.email}
          and "hasTwoFA" = ${account.hasTwoFA} and "requiresTwoFA" = ${account.requiresTwoFA}
        for share
      )
      insert into penstock.sessions (id, user_id, client_id, complete, expires_at, ends_at, ip, user_agent, claims)
      select ${session.id}::uuid, "_id", ${session.clientId}, ${session.complete},
             now() + ${session.lifetimeMs}::double precision * interval '1 millisecond',
             now() + least(${session.idleMs}::double precision, ${session.lifetimeMs}::double precision) * interval '1 millisecond',
             ${session.address}, ${session.userAgent}, ${session.claims && JSON.stringify(session.claims)}::jsonb
      from account
      returning id, user_id as "userId", client_id as "clientId", complete, claims,
        (extract(epoch from authenticated_at) * 1000)::double precision as "authenticatedAt",
        (extract(epoch from expires_at) * 1000)::double precision as "expiresAt",
        (extract(epoch from created_at) * 1000)::double precision as "issuedAt"`),
  );

/**
 * Opens a session in which an admin acts as the user: short, without renewal, and never one of somebody who has just
 * proven themselves. Nothing when there is no such user, or they are blocked.
 */
export const insertImpersonation = (
  database: Queryable,
  session: Pick<NewSession, 'id' | 'clientId' | 'lifetimeMs' | 'address' | 'userAgent'> & {
    readonly userId: string;
    readonly adminId: string;
  },
): Promise<SessionRow | undefined> =>
  first(
    database.query<SessionRow>(identitySql`
      with account as (select "_id" from "app"."User" where "_id" = ${session.userId} and "active" for share)
      insert into penstock.sessions (id, user_id, client_id, complete, authenticated_at, expires_at, ends_at, ip, user_agent, impersonated_by)
      select ${session.id}::uuid, "_id", ${session.clientId}, true, 'epoch',
             now() + ${session.lifetimeMs}::double precision * interval '1 millisecond',
             now() + ${session.lifetimeMs}::double precision * interval '1 millisecond',
             ${session.address}, ${session.userAgent}, ${session.adminId}
      from account
      returning id, user_id as "userId", client_id as "clientId", complete, impersonated_by as "impersonatedBy",
        0::double precision as "authenticatedAt",
        (extract(epoch from expires_at) * 1000)::double precision as "expiresAt",
        (extract(epoch from created_at) * 1000)::double precision as "issuedAt"`),
  );

/** What every authenticated request must know about its session. */
export interface SessionState {
  readonly userId: string;
  readonly active: boolean;
  readonly revoked: boolean;
  /** The earlier of the absolute and the idle end, ms since the epoch. */
  readonly endsAt: number;
}

export const sessionState = (
  database: Queryable,
  sessionId: string,
): Promise<SessionState | undefined> =>
  first(
    database.query<SessionState>(identitySql`
      select s.user_id as "userId", u."active" as active, s.revoked_at is not null as revoked,
             (extract(epoch from s.ends_at) * 1000)::double precision as "endsAt"
      from penstock.sessions s join "app"."User" u on u."_id" = s.user_id where s.id = ${sessionId}`),
  );

export interface NewRefreshToken {
  readonly id: string;
  readonly hash: string;
  readonly sessionId: string;
  readonly generation: number;
  readonly lifetimeMs: number;
}

export const insertRefreshToken = (database: Queryable, token: NewRefreshToken): Promise<unknown> =>
  database.query(identitySql`
    insert into penstock.refresh_tokens (id, hash, session_id, generation, expires_at)
    select ${token.id}::uuid, ${token.hash}, id, ${token.generation}::integer,
           least(expires_at, now() + ${token.lifetimeMs}::double precision * interval '1 millisecond')
    from penstock.sessions where id = ${token.sessionId}`);

/** A presented refresh token with everything that decides about it. */
export interface PresentedToken extends SessionRow {
  readonly tokenId: string;
  readonly generation: number;
  readonly expired: boolean;
  readonly used: boolean;
  /** Used so recently that a second use may be an honest race of two tabs. */
  readonly inGrace: boolean;
  /** The session was revoked or has reached its end. */
  readonly over: boolean;
  readonly active: boolean;
}

/** Reads a presented token and locks it and its session: whoever comes second sees what the first has done. */
export const lockPresentedToken = (
  database: Queryable,
  hash: string,
  graceMs: number,
): Promise<PresentedToken | undefined> =>
  first(
    database.query<PresentedToken>(identitySql`
      select t.id as "tokenId", t.generation, t.expires_at <= now() as expired, t.used_at is not null as used,
             coalesce(t.used_at > now() - ${graceMs}::double precision * interval '1 millisecond', false) as "inGrace",
             s.revoked_at is not null or s.ends_at <= now() as over, u."active" as active,
             s.id, s.user_id as "userId", s.client_id as "clientId", s.complete, s.claims,
             (extract(epoch from s.authenticated_at) * 1000)::double precision as "authenticatedAt",
             (extract(epoch from s.expires_at) * 1000)::double precision as "expiresAt",
             (extract(epoch from now()::timestamptz(3)) * 1000)::double precision as "issuedAt"
      from penstock.refresh_tokens t
      join penstock.sessions s on s.id = t.session_id
      join "app"."User" u on u."_id" = s.user_id
      where t.hash = ${hash} for update of t, s`),
  );

/** Marks the presented token as used and lets its session rest anew; the successor is inserted beside it. */
export const useRefreshToken = (
  database: Queryable,
  use: {
    readonly tokenId: string;
    readonly sessionId: string;
    readonly idleMs: number;
    readonly address: string;
    readonly userAgent: string | null;
  },
): Promise<unknown> =>
  database.query(identitySql`
    with used as (update penstock.refresh_tokens set used_at = now() where id = ${use.tokenId})
    update penstock.sessions set last_used_at = now(), ip = ${use.address}, user_agent = ${use.userAgent},
      ends_at = least(expires_at, now() + ${use.idleMs}::double precision * interval '1 millisecond')
    where id = ${use.sessionId}`);

/** Which session a refresh token is of, used or not. */
export const sessionOfRefreshToken = (
  database: Queryable,
  hash: string,
): Promise<{ userId: string; sessionId: string } | undefined> =>
  first(
    database.query<{ userId: string; sessionId: string }>(identitySql`
      select s.user_id as "userId", s.id as "sessionId" from penstock.refresh_tokens t join penstock.sessions s on s.id = t.session_id
      where t.hash = ${hash}`),
  );

/** The successor of a used token, by the hash that follows from it. */
export const successor = (
  database: Queryable,
  hash: string,
): Promise<{ tokenId: string; used: boolean; issuedAt: number } | undefined> =>
  first(
    database.query<{ tokenId: string; used: boolean; issuedAt: number }>(identitySql`
      select id as "tokenId", used_at is not null as used, (extract(epoch from issued_at) * 1000)::double precision as "issuedAt"
      from penstock.refresh_tokens where hash = ${hash}`),
  );

/** Locks a session against being ended; nothing when it has ended. */
export const lockLiveSession = (
  transaction: Queryable,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
): Promise<{ id: string } | undefined> =>
  first(
    transaction.query<{ id: string }>(identitySql`
      select id from penstock.sessions
      where id = ${sessionId} and user_id = ${userId} and revoked_at is null and ends_at > now() for share`),
  );

/** Ends one session of that user; nothing when it is not theirs or has ended already. */
export const revokeSession = (
  database: Queryable,
  userId: string,
  sessionId: string,
  reason: string,
): Promise<readonly string[]> =>
  ids(
    database.query<{ id: string }>(identitySql`
      update penstock.sessions set revoked_at = now(), revoked_reason = ${reason}
      where id = ${sessionId} and user_id = ${userId} and revoked_at is null returning id`),
  );

/** Ends all sessions of these users, but for `except`. */
export const revokeSessions = (
  database: Queryable,
  userIds: readonly string[],
  reason: string,
  except: string | null = null,
): Promise<readonly string[]> =>
  ids(
    database.query<{ id: string }>(identitySql`
      update penstock.sessions set revoked_at = now(), revoked_reason = ${reason}
      where user_id = any(${userIds}::uuid[]) and revoked_at is null and id is distinct from ${except}::uuid returning id`),
  );

/** Ends the sessions in which this admin acts as users. */
export const revokeImpersonations = async (
  database: Queryable,
  adminId: string,
): Promise<readonly { readonly id: string; readonly userId: string }[]> =>
  (
    await database.query<{ id: string; userId: string }>(identitySql`
      update penstock.sessions set revoked_at = now(), revoked_reason = 'revoked'
      where impersonated_by = ${adminId} and revoked_at is null returning id, user_id as "userId"`)
  ).rows;

/** Ends the user's other sessions of the same client (`same`), or those of other clients. */
export const revokeByClient = (
  database: Queryable,
  session: { readonly id: string; readonly userId: string; readonly clientId: string },
  same: boolean,
): Promise<readonly string[]> =>
  ids(
    database.query<{ id: string }>(identitySql`
      update penstock.sessions set revoked_at = now(), revoked_reason = 'replaced'
      where user_id = ${session.userId} and revoked_at is null and id <> ${session.id} and (client_id = ${session.clientId}) = ${same}
      returning id`),
  );

/** Whether a user or an operator revoked the session: not its own logout, and not a later login that replaced it. */
export const wasRevokedDeliberately = async (
  database: Queryable,
  sessionId: string,
): Promise<boolean> =>
  (
    await database.query(identitySql`
      select 1 from penstock.sessions
      where id = ${sessionId}::uuid and revoked_at is not null and revoked_reason not in ('logout', 'replaced')`)
  ).count > 0;

/** Sessions of users that are about to be deleted with them. */
export const sessionsOf = (
  database: Queryable,
  userIds: readonly string[],
): Promise<readonly string[]> =>
  ids(
    database.query<{ id: string }>(
      identitySql`select id from penstock.sessions where user_id = any(${userIds}::uuid[])`,
    ),
  );

/** A session as its owner sees it. */
export interface ListedSession {
  readonly _id: string;
  readonly clientId: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date;
  readonly expiresAt: Date;
  readonly ip: string | null;
  readonly userAgent: string | null;
  /** As the user calls the device; null until they do. */
  readonly name: string | null;
  /** An operator acts as the user in it. */
  readonly impersonated: boolean;
}

/** Names one live session of that user; answers it, or nothing when they have no such session. */
export const nameSession = (
  database: Queryable,
  {
    userId,
    sessionId,
    name,
  }: { readonly userId: string; readonly sessionId: string; readonly name: string },
): Promise<ListedSession | undefined> =>
  first(
    database.query<ListedSession>(identitySql`
      update penstock.sessions set name = ${name}
      where id = ${sessionId} and user_id = ${userId} and revoked_at is null and ends_at > now()
      returning id as "_id", client_id as "clientId", created_at as "createdAt", last_used_at as "lastUsedAt",
        ends_at as "expiresAt", ip, user_agent as "userAgent", name, impersonated_by is not null as impersonated`),
  );

/** The user of this session has just proven themselves again; nothing when it has ended. */
export const freshenSession = (
  transaction: Queryable,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
): Promise<SessionRow | undefined> =>
  first(
    transaction.query<SessionRow>(identitySql`
      update penstock.sessions set authenticated_at = now(), last_used_at = now()
      where id = ${sessionId} and user_id = ${userId} and complete and impersonated_by is null and revoked_at is null and ends_at > now()
      returning id, user_id as "userId", client_id as "clientId", complete, claims,
        (extract(epoch from authenticated_at) * 1000)::double precision as "authenticatedAt",
        (extract(epoch from expires_at) * 1000)::double precision as "expiresAt",
        (extract(epoch from now()::timestamptz(3)) * 1000)::double precision as "issuedAt"`),
  );

/** Live sessions, the last used first; at most 200. */
export const liveSessions = async (
  database: Queryable,
  userId: string,
): Promise<readonly ListedSession[]> =>
  (
    await database.query<ListedSession>(identitySql`
      select id as "_id", client_id as "clientId", created_at as "createdAt", last_used_at as "lastUsedAt",
             ends_at as "expiresAt", ip, user_agent as "userAgent", name,
             impersonated_by is not null as impersonated
      from penstock.sessions
      where user_id = ${userId} and revoked_at is null and ends_at > now()
      order by last_used_at desc, id desc limit 200`)
  ).rows;

/**
 * Deletes up to `limit` sessions that ended a week ago, and refresh tokens that expired a week ago: until
 * then a stolen one is still recognised. Answers how many rows went.
 */
export async function purge(database: Queryable, limit: number): Promise<number> {
  const sessions = await database.query(sql`
    delete from penstock.sessions where id in (
      select id from penstock.sessions where ends_at < now() - interval '7 days' limit ${limit}::integer)`);
  const tokens = await database.query(sql`
    delete from penstock.refresh_tokens where id in (
      select id from penstock.refresh_tokens where expires_at < now() - interval '7 days' limit ${limit}::integer)`);
  return sessions.count + tokens.count;
}

/** Users with at least one session that goes on. */
export async function countSignedIn(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    sql`select count(distinct user_id)::integer as count from penstock.sessions where revoked_at is null and ends_at > now()`,
  );
  return rows[0]?.count ?? 0;
}
