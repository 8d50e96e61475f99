/** The SQL of the platform as an OpenID provider. Values are always parameters. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { identitySql, sql } from '../../../../kernel/database/sql.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

// --- What the protocol keeps

export interface NewItem {
  readonly key: string;
  readonly kind: string;
  readonly payload: string;
  readonly uid: string | null;
  readonly grantKey: string | null;
  readonly userId: string | null;
  readonly clientId: string | null;
  readonly lifetimeSeconds: number;
}

export const putItem = (database: Queryable, item: NewItem): Promise<unknown> =>
  database.query(identitySql`
    insert into penstock.openid_items (key, kind, payload, uid, grant_key, user_id, client_id, expires_at)
    values (${item.key}, ${item.kind}, ${item.payload}, ${item.uid}, ${item.grantKey}, ${item.userId}::uuid, ${item.clientId},
      now() + ${item.lifetimeSeconds}::double precision * interval '1 second')
    on conflict (key) do update set payload = excluded.payload, uid = excluded.uid, grant_key = excluded.grant_key,
      user_id = excluded.user_id, client_id = excluded.client_id, expires_at = excluded.expires_at`);

export interface Item {
  readonly key: string;
  readonly payload: string;
  readonly consumed: boolean;
}

/** By its key, or by the id of a session of a browser. What belongs to a blocked user is not there. */
export const findItem = (
  database: Queryable,
  kind: string,
  by: 'key' | 'uid',
  value: string,
): Promise<Item | undefined> =>
  first(
    database.query<Item>({
      text: finders[kind === 'Session' ? 'session' : 'other'][by],
      values: [kind, value],
      class: 'identity',
    }),
  );

const itemStatement = (by: 'key' | 'uid', from: string, and: string): string =>
  `select i.key, i.payload, i.consumed_at is not null as consumed from penstock.openid_items i ${from}
    where i.kind = $1 and i.${by} = $2 and i.expires_at > now() and ${and}`;

const account = 'left join "app"."User" u on u."_id" = i.user_id';
/** A session of a browser lives as long as the session of the platform that it was opened with. */
const session = `${account} left join penstock.openid_sessions l on l.uid = i.uid left join penstock.sessions s on s.id = l.session_id`;
const living = `(i.user_id is null or (u."active" and s.user_id = i.user_id and s.revoked_at is null and s.ends_at > now()))`;
const ofLiving = '(i.user_id is null or u."active")';

const finders = {
  session: {
    key: itemStatement('key', session, living),
    uid: itemStatement('uid', session, living),
  },
  other: {
    key: itemStatement('key', account, ofLiving),
    uid: itemStatement('uid', account, ofLiving),
  },
} as const;

/** Marks an item as used; false when it was already. Of parallel callers one gets true. */
export const consumeItem = async (database: Queryable, key: string): Promise<boolean> =>
  (
    await database.query(
      identitySql`update penstock.openid_items set consumed_at = now() where key = ${key} and consumed_at is null`,
    )
  ).count > 0;

export const removeItem = (database: Queryable, key: string): Promise<unknown> =>
  database.query(identitySql`delete from penstock.openid_items where key = ${key}`);

/** A grant with everything that was given for it. */
export const removeGrant = (database: Queryable, grantKey: string): Promise<unknown> =>
  database.query(
    identitySql`delete from penstock.openid_items where grant_key = ${grantKey} or key = ${grantKey}`,
  );

/** The same for the grant of an item that was used twice. */
export const removeGrantOf = (database: Queryable, key: string): Promise<unknown> =>
  database.query(identitySql`
    with used as (select grant_key from penstock.openid_items where key = ${key} and grant_key is not null)
    delete from penstock.openid_items i using used where i.grant_key = used.grant_key or i.key = used.grant_key`);

/** Everything that a user has at an app. */
export const removeItemsOf = (
  database: Queryable,
  userId: string,
  clientId: string,
): Promise<unknown> =>
  database.query(
    sql`delete from penstock.openid_items where user_id = ${userId}::uuid and client_id = ${clientId}`,
  );

/** Ends all that an app has of anybody; what users have agreed to shrinks to what it may still ask for. */
export async function narrowGiven(
  database: Queryable,
  clientId: string,
  scopes: readonly string[],
): Promise<void> {
  await database.query(sql`delete from penstock.openid_items where client_id = ${clientId}`);
  await database.query(sql`
    update penstock.openid_consents set scopes = array(select unnest(scopes) intersect select unnest(${scopes}::text[]))
    where client_id = ${clientId} and not scopes <@ ${scopes}::text[]`);
}

/** Deletes up to `limit` items that have ended, and bindings of sessions that nothing refers to; answers how many. */
export async function purgeOpenid(database: Queryable, limit: number): Promise<number> {
  const items = await database.query(sql`
    delete from penstock.openid_items where key in (
      select key from penstock.openid_items where expires_at < now() - interval '1 hour' limit ${limit}::integer)`);
  await database.query(
    sql`delete from penstock.openid_client_secrets where expires_at < now() - interval '7 days'`,
  );
  return items.count;
}

// --- Sessions of browsers

export const bindSession = (
  database: Queryable,
  uid: string,
  sessionId: string,
): Promise<unknown> =>
  database.query(identitySql`
    insert into penstock.openid_sessions (uid, session_id) values (${uid}, ${sessionId}::uuid)
    on conflict (uid) do update set session_id = excluded.session_id`);

export const boundSession = (
  database: Queryable,
  uid: string,
): Promise<{ readonly sessionId: string; readonly userId: string } | undefined> =>
  first(
    database.query<{ sessionId: string; userId: string }>(identitySql`
      select s.id as "sessionId", s.user_id as "userId"
      from penstock.openid_sessions l join penstock.sessions s on s.id = l.session_id where l.uid = ${uid}`),
  );

/** An app that renews its tokens keeps the session going, like a renewal of the session's own tokens. */
export const keepSession = (database: Queryable, uid: string, idleMs: number): Promise<unknown> =>
  database.query(identitySql`
    update penstock.sessions s set last_used_at = now(),
      ends_at = greatest(s.ends_at, least(s.expires_at, now() + ${idleMs}::double precision * interval '1 millisecond'))
    from penstock.openid_sessions l where l.uid = ${uid} and s.id = l.session_id and s.revoked_at is null and s.ends_at > now()`);

// --- Consent

export const consentOf = async (
  database: Queryable,
  userId: string,
  clientId: string,
): Promise<readonly string[] | undefined> =>
  (
    await first(
      database.query<{ scopes: readonly string[] }>(identitySql`
        select scopes from penstock.openid_consents where user_id = ${userId}::uuid and client_id = ${clientId}`),
    )
  )?.scopes;

export const giveConsent = (
  database: Queryable,
  userId: string,
  clientId: string,
  scopes: readonly string[],
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.openid_consents (user_id, client_id, scopes) values (${userId}::uuid, ${clientId}, ${scopes}::text[])
    on conflict (user_id, client_id) do update set given_at = now(),
      scopes = (select array_agg(distinct one) from unnest(openid_consents.scopes || excluded.scopes) one)`);

export interface ConsentRow {
  readonly clientId: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly givenAt: Date;
}

export const consentsOf = async (
  database: Queryable,
  userId: string,
): Promise<readonly ConsentRow[]> =>
  (
    await database.query<ConsentRow>(sql`
      select client_id as "clientId", name, c.scopes, given_at as "givenAt"
      from penstock.openid_consents c join penstock.openid_clients using (client_id)
      where user_id = ${userId}::uuid order by name, client_id limit 1000`)
  ).rows;

export const withdrawConsent = async (
  database: Queryable,
  userId: string,
  clientId: string,
): Promise<boolean> =>
  (
    await database.query(
      sql`delete from penstock.openid_consents where user_id = ${userId}::uuid and client_id = ${clientId}`,
    )
  ).count > 0;

// --- Claims

/** A user as claims are made of it, with the fields that the operator chose. */
export const claimsRow = (
  database: Queryable,
  userId: string,
): Promise<Readonly<Record<string, unknown>> | undefined> =>
  first(
    database
      .query<{ user: Readonly<Record<string, unknown>> }>(identitySql`
        select to_jsonb(u) - 'hashedPassword' as user from "app"."User" u where "_id" = ${userId}::uuid and "active" and not "isAnonymous"`)
      .then(({ rows }) => ({ rows: rows.map(({ user }) => user) })),
  );
