/** The SQL of links that are counted and can be taken back (migrations.ts). Their secrets are kept as hashes. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { firstOf, statement } from './statement.ts';

export interface LinkRow {
  readonly _id: string;
  readonly fileId: string;
  readonly download: boolean;
  /** Nothing: as often as anybody likes. */
  readonly maxUses: number | null;
  readonly uses: number;
  readonly createdBy: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
  readonly lastUsedAt: Date | null;
}

const columns = `id as "_id", file_id as "fileId", download, max_uses as "maxUses", uses, created_by as "createdBy",
  created_at as "createdAt", expires_at as "expiresAt", last_used_at as "lastUsedAt"`;

export const insertLink = (
  database: Queryable,
  link: Pick<LinkRow, '_id' | 'fileId' | 'download' | 'maxUses' | 'createdBy'> & {
    readonly tokenHash: string;
    readonly expiresInSeconds: number;
    readonly scope: string | undefined;
  },
): Promise<LinkRow | undefined> =>
  firstOf(
    database.query<LinkRow>(
      statement(
        `insert into penstock.storage_links (id, file_id, token_hash, download, max_uses, created_by, expires_at, scope)
         values ($1::uuid, $2::uuid, $3, $4::boolean, $5::integer, $6, now() + $7::double precision * interval '1 second', $8) returning ${columns}`,
        [
          link._id,
          link.fileId,
          link.tokenHash,
          link.download,
          link.maxUses,
          link.createdBy,
          link.expiresInSeconds,
          link.scope ?? null,
        ],
      ),
    ),
  );

const usable = 'token_hash = $1 and expires_at > now() and (max_uses is null or uses < max_uses)';

/** A link, and for whom its maker had the right to share. */
export interface UsableLink extends LinkRow {
  readonly scope: string | null;
}

/** As long as it may still be used. */
export const usableLink = (
  database: Queryable,
  tokenHash: string,
): Promise<UsableLink | undefined> =>
  firstOf(
    database.query<UsableLink>(
      statement(`select ${columns}, scope from penstock.storage_links where ${usable}`, [
        tokenHash,
      ]),
    ),
  );

/** False for a user who is blocked or gone. */
export const isActiveUser = async (
  database: Queryable,
  { table }: Pick<CompiledSchema, 'table'>,
  userId: string,
): Promise<boolean> =>
  (
    await database.query(
      statement(`select from ${table} where "_id" = $1::uuid and "active"`, [userId]),
    )
  ).rows.length > 0;

/** Uses it once, if it may still be used: the row decides, for however many that try at once. */
export const useLink = (database: Queryable, tokenHash: string): Promise<LinkRow | undefined> =>
  firstOf(
    database.query<LinkRow>(
      statement(
        `update penstock.storage_links set uses = uses + 1, last_used_at = now() where ${usable} returning ${columns}`,
        [tokenHash],
      ),
    ),
  );

/** The newest first; without a file, those of all. */
export async function listLinks(
  database: Queryable,
  { skip, limit, fileId }: { skip: number; limit: number; fileId?: string | undefined },
): Promise<{ readonly rows: readonly LinkRow[]; readonly count: number }> {
  const where = 'expires_at > now() and ($1::uuid is null or file_id = $1::uuid)';
  const { rows } = await database.query<LinkRow>({
    text: `select ${columns} from penstock.storage_links where ${where} order by created_at desc, id desc offset $2 limit $3`,
    values: [fileId ?? null, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.storage_links where ${where}`,
    values: [fileId ?? null],
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** False when it is not there. `fileId`: only if it is one of that file. */
export const deleteLink = async (
  database: Queryable,
  id: string,
  fileId?: string,
): Promise<boolean> =>
  (
    await database.query(
      statement(
        'delete from penstock.storage_links where id = $1::uuid and ($2::uuid is null or file_id = $2::uuid) returning id',
        [id, fileId ?? null],
      ),
    )
  ).rows.length > 0;

export const deleteLinksOf = (database: Queryable, fileIds: readonly string[]): Promise<unknown> =>
  database.query(
    statement('delete from penstock.storage_links where file_id = any($1::uuid[])', [fileIds]),
  );

/** Forgets links whose time is over; answers how many. */
export const purgeLinks = async (database: Queryable): Promise<number> =>
  (
    await database.query(
      statement(
        `delete from penstock.storage_links where expires_at < now() - interval '7 days'`,
        [],
      ),
    )
  ).count;
