/** The SQL of uploads that are continued (migrations.ts). Whoever changes one holds its lock, and proves it. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { PartTag } from '../providers/provider.ts';
import { usedBytes } from './counters.ts';
import { firstOf, statement } from './statement.ts';

/** Where the bytes are that have come. */
export interface ResumableState {
  /** Bytes. */
  readonly offset: number;
  /** The last of them, too few for a part, in an object of their own. */
  readonly tail: number;
  readonly multipart: string | null;
  readonly parts: readonly PartTag[];
}

export interface ResumableRow extends ResumableState {
  readonly id: string;
  readonly caller: string;
  readonly uploadId: string;
  readonly tailUploadId: string;
  readonly bucket: string;
  readonly objectKey: string;
  readonly size: number;
  readonly request: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, string | null>> | null;
  /** The file that it has become. */
  readonly fileId: string | null;
  readonly createdAt: Date;
}

const columns = `id, caller, upload_id as "uploadId", tail_upload_id as "tailUploadId", bucket, object_key as "objectKey",
  size, "offset", tail, multipart, parts, wish as request, metadata, file_id as "fileId", created_at as "createdAt"`;

export const insertResumable = (
  database: Queryable,
  row: Pick<
    ResumableRow,
    | 'id'
    | 'caller'
    | 'uploadId'
    | 'tailUploadId'
    | 'bucket'
    | 'objectKey'
    | 'size'
    | 'request'
    | 'metadata'
  > & { readonly expiresInSeconds: number },
): Promise<unknown> =>
  database.query(
    statement(
      `insert into penstock.storage_resumable (id, caller, upload_id, tail_upload_id, bucket, object_key, size, wish, metadata, expires_at)
       values ($1::uuid, $2, $3::uuid, $4::uuid, $5, $6, $7::bigint, $8::jsonb, $9::jsonb, now() + $10::double precision * interval '1 second')`,
      [
        row.id,
        row.caller,
        row.uploadId,
        row.tailUploadId,
        row.bucket,
        row.objectKey,
        row.size,
        JSON.stringify(row.request),
        row.metadata === null ? null : JSON.stringify(row.metadata),
        row.expiresInSeconds,
      ],
    ),
  );

export const resumableById = (database: Queryable, id: string): Promise<ResumableRow | undefined> =>
  firstOf(
    database.query<ResumableRow>(
      statement(`select ${columns} from penstock.storage_resumable where id = $1::uuid`, [id]),
    ),
  );

/**
 * Bytes of the files of an owner, of what has come for uploads that they have begun and that are no files yet, and of the
 * whole of those to which they write at this moment; without one upload. Of one moment: what becomes a file is in one of them.
 */
export const bytesBeside = async (
  database: Queryable,
  { owner, caller, except }: Record<'owner' | 'caller' | 'except', string>,
): Promise<number> =>
  (
    await firstOf(
      database.query<{ bytes: number }>(
        statement(
          `select (${usedBytes('$1')} + coalesce((
             select sum(case when claimed and lock_token is not null and locked_until > now() then size else "offset" end)
             from penstock.storage_resumable where caller = $2 and file_id is null and id <> $3::uuid), 0))::bigint as bytes`,
          [owner, caller, except],
        ),
      ),
    )
  )?.bytes ?? 0;

/** Requests of one owner that ask for room are answered one after the other. Until the transaction ends. */
export const lockRoomOf = (transaction: Queryable, owner: string): Promise<unknown> =>
  transaction.query(statement('select pg_advisory_xact_lock(hashtextextended($1, 7303))', [owner]));

/** All of the upload has room for as long as its lock is held. */
export const claimRoom = (
  transaction: Queryable,
  { id, token }: { readonly id: string; readonly token: string },
): Promise<unknown> =>
  transaction.query(
    statement(
      'update penstock.storage_resumable set claimed = true where id = $1::uuid and lock_token = $2::uuid',
      [id, token],
    ),
  );

/** Takes the lock when nobody holds it; else whoever does is told that somebody waits. Undefined: there is no such upload. */
export const lockResumable = async (
  database: Queryable,
  id: string,
  { token, seconds }: { readonly token: string; readonly seconds: number },
): Promise<boolean | undefined> =>
  (
    await firstOf(
      database.query<{ held: boolean }>(
        statement(
          `update penstock.storage_resumable set
             lock_wanted = lock_token is not null and locked_until > now(),
             claimed = claimed and lock_token is not null and locked_until > now(),
             lock_token = case when lock_token is null or locked_until <= now() then $2::uuid else lock_token end,
             locked_until = case when lock_token is null or locked_until <= now()
               then now() + $3::double precision * interval '1 second' else locked_until end
           where id = $1::uuid returning lock_token = $2::uuid as held`,
          [id, token, seconds],
        ),
      ),
    )
  )?.held;

/** Holds the lock for longer. `lost`: somebody else has it; `requested`: somebody waits for it. */
export const holdResumable = async (
  database: Queryable,
  id: string,
  { token, seconds }: { readonly token: string; readonly seconds: number },
): Promise<'held' | 'requested' | 'lost'> => {
  const row = await firstOf(
    database.query<{ requested: boolean }>(
      statement(
        `update penstock.storage_resumable set locked_until = now() + $3::double precision * interval '1 second'
         where id = $1::uuid and lock_token = $2::uuid returning lock_wanted as requested`,
        [id, token, seconds],
      ),
    ),
  );
  if (!row) return 'lost';
  return row.requested ? 'requested' : 'held';
};

export const unlockResumable = (database: Queryable, id: string, token: string): Promise<unknown> =>
  database.query(
    statement(
      'update penstock.storage_resumable set lock_token = null, lock_wanted = false, claimed = false where id = $1::uuid and lock_token = $2::uuid',
      [id, token],
    ),
  );

/** False: the lock was lost, and nothing has changed. */
export const noteResumable = async (
  database: Queryable,
  { id, token }: { readonly id: string; readonly token: string },
  { offset, tail, multipart, parts }: ResumableState,
): Promise<boolean> =>
  (
    await database.query(
      statement(
        `update penstock.storage_resumable set "offset" = $3::bigint, tail = $4::bigint, multipart = $5, parts = $6::jsonb
         where id = $1::uuid and lock_token = $2::uuid returning id`,
        [id, token, offset, tail, multipart, JSON.stringify(parts)],
      ),
    )
  ).rows.length > 0;

export const finishResumable = (
  database: Queryable,
  id: string,
  fileId: string,
): Promise<unknown> =>
  database.query(
    statement('update penstock.storage_resumable set file_id = $2::uuid where id = $1::uuid', [
      id,
      fileId,
    ]),
  );

export const deleteResumable = (
  database: Queryable,
  id: string,
): Promise<ResumableRow | undefined> =>
  firstOf(
    database.query<ResumableRow>(
      statement(`delete from penstock.storage_resumable where id = $1::uuid returning ${columns}`, [
        id,
      ]),
    ),
  );

/** Uploads whose time is over and that nobody writes to. */
export const expiredResumable = async (
  database: Queryable,
  limit: number,
): Promise<readonly ResumableRow[]> =>
  (
    await database.query<ResumableRow>(
      statement(
        `select ${columns} from penstock.storage_resumable
         where expires_at <= now() and (lock_token is null or locked_until <= now()) order by expires_at limit $1::integer`,
        [limit],
      ),
    )
  ).rows;
