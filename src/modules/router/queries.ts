/** The SQL of apps ("security clients"). */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

export const platforms = [
  'WEB',
  'ANDROID',
  'IOS',
  'IPADOS',
  'WINDOWS',
  'MACOS',
  'LINUX',
  'CLI',
] as const;
export type Platform = (typeof platforms)[number];

/** An app without its secret. */
export interface ClientRow {
  readonly _id: string;
  readonly clientId: string;
  readonly platform: Platform;
  /** Of pages: where they may come from. */
  readonly domain: string | null;
  readonly alias: string;
  readonly notes: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly lastUsedAt: Date | null;
}

const columns =
  'id as "_id", client_id as "clientId", platform, domain, alias, notes, created_at as "createdAt", updated_at as "updatedAt", last_used_at as "lastUsedAt"';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export interface NewClientRow
  extends Pick<ClientRow, 'clientId' | 'platform' | 'domain' | 'alias' | 'notes'> {
  readonly id: string;
  readonly secretHash: string;
}

/** `undefined` when the alias is taken. */
export const insertClient = (
  database: Queryable,
  client: NewClientRow,
): Promise<ClientRow | undefined> =>
  first(
    database.query<ClientRow>({
      text: `insert into penstock.security_clients (id, client_id, secret_hash, platform, domain, alias, notes)
        values ($1, $2, $3, $4, $5, $6, $7) on conflict (alias) do nothing returning ${columns}`,
      values: [
        client.id,
        client.clientId,
        client.secretHash,
        client.platform,
        client.domain,
        client.alias,
        client.notes,
      ],
    }),
  );

/** In the order in which they came. */
export async function listClients(
  database: Queryable,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly clients: readonly ClientRow[]; readonly count: number }> {
  const text = `select ${columns} from penstock.security_clients order by id limit $1 offset $2`;
  const [page, count] = await Promise.all([
    database.query<ClientRow>({ text, values: [limit, skip] }),
    database.query<{ count: number }>({
      text: 'select count(*)::integer as count from penstock.security_clients',
    }),
  ]);
  return { clients: page.rows, count: count.rows[0]?.count ?? 0 };
}

export async function countClients(database: Queryable): Promise<ReadonlyMap<Platform, number>> {
  const { rows } = await database.query<{ platform: Platform; count: number }>(
    sql`select platform, count(*)::integer as count from penstock.security_clients group by platform`,
  );
  return new Map(rows.map(({ platform, count }) => [platform, count]));
}

/** Reads for a change: nobody else changes it until the transaction ends. */
export const lockClient = (transaction: Queryable, id: string): Promise<ClientRow | undefined> =>
  first(
    transaction.query<ClientRow>({
      text: `select ${columns} from penstock.security_clients where id = $1 for update`,
      values: [id],
    }),
  );

/** Writes what can be changed; an alias that is taken is refused by the database (23505). */
export const updateClient = (
  database: Queryable,
  id: string,
  { domain, alias, notes }: Pick<ClientRow, 'domain' | 'alias' | 'notes'>,
): Promise<ClientRow | undefined> =>
  first(
    database.query<ClientRow>({
      text: `update penstock.security_clients set domain = $2, alias = $3, notes = $4, updated_at = now() where id = $1 returning ${columns}`,
      values: [id, domain, alias, notes],
    }),
  );

/** Gives a new secret; the one until now stays good for `keepMs`. */
export const replaceSecret = (
  database: Queryable,
  id: string,
  hash: string,
  keepMs: number,
): Promise<ClientRow | undefined> =>
  first(
    database.query<ClientRow>({
      text: `update penstock.security_clients set previous_hash = secret_hash,
          previous_until = now() + $3::double precision * interval '1 millisecond', secret_hash = $2, updated_at = now()
        where id = $1 returning ${columns}`,
      values: [id, hash, keepMs],
    }),
  );

/** Answers its client id. */
export const deleteClient = async (database: Queryable, id: string): Promise<string | undefined> =>
  (
    await first(
      database.query<{ clientId: string }>(
        sql`delete from penstock.security_clients where id = ${id} returning client_id as "clientId"`,
      ),
    )
  )?.clientId;

/** What decides whether a request comes from an app. */
export interface ClientProof {
  readonly platform: Platform;
  readonly domain: string | null;
  readonly secretHash: string;
  readonly previousHash: string | null;
  /** Ms since the epoch. */
  readonly previousUntil: number | null;
}

export const clientProof = (
  database: Queryable,
  clientId: string,
): Promise<ClientProof | undefined> =>
  first(
    database.query<ClientProof>(sql`
      select platform, domain, secret_hash as "secretHash", previous_hash as "previousHash",
        (extract(epoch from previous_until) * 1000)::double precision as "previousUntil"
      from penstock.security_clients where client_id = ${clientId}`),
  );

/** Notes that an app was used. */
export const touchClient = (database: Queryable, clientId: string): Promise<unknown> =>
  database.query(
    sql`update penstock.security_clients set last_used_at = now() where client_id = ${clientId}`,
  );
