/** The SQL of the trash: files that were deleted and may come back (migrations.ts). Their bytes stay where they are. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { FileRow } from './files.ts';
import { firstOf, ofModules, statement } from './statement.ts';

export interface TrashedFile {
  readonly _id: string;
  readonly name: string;
  readonly folder: string;
  readonly container: string;
  readonly size: number;
  readonly mimeType: string | null;
  readonly owner: string | null;
  readonly bucket: string;
  readonly objectKey: string;
  /** What else the document said. */
  readonly rest: Readonly<Record<string, unknown>>;
  readonly deletedBy: string;
  readonly deletedAt: Date;
  readonly expiresAt: Date;
}

const columns = `id as "_id", name, folder, container, size, mime_type as "mimeType", owner, bucket, object_key as "objectKey", rest,
  deleted_by as "deletedBy", deleted_at as "deletedAt", expires_at as "expiresAt"`;

/** Files with content, in one statement. */
export async function keepInTrash(
  database: Queryable,
  files: readonly FileRow[],
  { days, deletedBy }: { readonly days: number; readonly deletedBy: string },
): Promise<void> {
  if (files.length === 0) return;
  const rows = files.map((file) => ({
    id: file._id,
    name: file.name,
    folder: file.folder,
    container: file.container,
    size: file.size,
    mime_type: file.mimeType,
    owner: file.owner,
    bucket: file.bucket,
    object_key: file.objectKey,
    rest: {
      alias: file.alias,
      isPublic: file.isPublic,
      generation: file.generation,
      checksum: file.checksum,
      etag: file.etag,
      createdBy: file.createdBy,
      createdAt: file.createdAt,
      metadata: file.metadata,
      scan: file.scan,
    },
  }));
  await database.query(
    statement(
      `insert into penstock.storage_trash (id, name, folder, container, size, mime_type, owner, bucket, object_key, rest, deleted_by, expires_at)
       select t.id, t.name, t.folder, t.container, t.size, t.mime_type, t.owner, t.bucket, t.object_key, t.rest, $2, now() + $3::integer * interval '1 day'
       from jsonb_to_recordset($1::jsonb) as t(id uuid, name text, folder text, container text, size bigint, mime_type text, owner text, bucket text, object_key text, rest jsonb)`,
      [JSON.stringify(rows), deletedBy, days],
    ),
  );
}

export interface TrashFilter {
  readonly skip: number;
  readonly limit: number;
  /** Only what they owned or deleted. */
  readonly owner?: string | undefined;
  readonly container?: string | undefined;
  /** Of what modules keep, only what is in these containers. */
  readonly modules?: readonly string[] | undefined;
}

/** What was deleted last comes first. */
export async function listTrash(
  database: Queryable,
  { skip, limit, owner, container, modules }: TrashFilter,
): Promise<{ readonly rows: readonly TrashedFile[]; readonly count: number }> {
  const where = `($1::text is null or owner = $1 or deleted_by = $1) and ($2::text is null or container = $2)
    and ${ofModules('container', '$3')} and expires_at > now()`;
  const values = [owner ?? null, container ?? null, modules ?? null];
  const { rows } = await database.query<TrashedFile>({
    text: `select ${columns} from penstock.storage_trash where ${where} order by deleted_at desc, id desc offset $4 limit $5`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.storage_trash where ${where}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** Locked until the transaction ends, where it is one. */
export const trashedById = (
  database: Queryable,
  id: string,
  lock = false,
): Promise<TrashedFile | undefined> =>
  firstOf(
    database.query<TrashedFile>(
      statement(
        `select ${columns} from penstock.storage_trash where id = $1::uuid${lock ? ' for update' : ''}`,
        [id],
      ),
    ),
  );

export const takeFromTrash = async (
  database: Queryable,
  ids: readonly string[],
): Promise<readonly TrashedFile[]> =>
  (
    await database.query<TrashedFile>(
      statement(
        `delete from penstock.storage_trash where id = any($1::uuid[]) returning ${columns}`,
        [ids],
      ),
    )
  ).rows;

/** Whose time is over; locked, so that nobody brings them back meanwhile. */
export const expiredTrash = async (
  database: Queryable,
  limit: number,
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(
      statement(
        `select id from penstock.storage_trash where expires_at <= now() order by expires_at limit $1::integer for update skip locked`,
        [limit],
      ),
    )
  ).rows.map(({ id }) => id);

/** Whether deleted files can be brought back to this container. */
export const hasTrash = async (database: Queryable, container: string): Promise<boolean> =>
  (
    await database.query(
      statement('select 1 from penstock.storage_trash where container = $1 limit 1', [container]),
    )
  ).count > 0;

/** Forgets what was in a container, and answers whose it was; its bytes go with its bucket. */
export const forgetTrashOf = async (
  database: Queryable,
  container: string,
): Promise<readonly { owner: string; size: number; files: number }[]> =>
  (
    await database.query<{ owner: string; size: number; files: number }>(
      statement(
        `with gone as (delete from penstock.storage_trash where container = $1 returning owner, size)
         select owner, sum(size)::bigint as size, count(*)::integer as files from gone where owner is not null group by owner`,
        [container],
      ),
    )
  ).rows;
