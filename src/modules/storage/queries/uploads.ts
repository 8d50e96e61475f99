/** The SQL of uploads: bytes on their way (migrations.ts). */
import type { Queryable } from '../../../kernel/database/database.ts';
import { type CountResult, countingParts, type Growth } from './counters.ts';
import { firstOf, statement } from './statement.ts';

export type UploadKind = 'create' | 'replace' | 'move';

/** What decides, beside `caller`, whether bytes may still come to an address. */
export interface UploadMaker {
  /** On behalf of whom they act. */
  readonly scope: string | null;
  /** In which the address was given out. */
  readonly sessionId: string | null;
}

export interface UploadRow extends UploadMaker {
  readonly id: string;
  readonly fileId: string;
  readonly kind: UploadKind;
  /** Somebody has an address to send the bytes to. */
  readonly signed: boolean;
  readonly bucket: string;
  readonly objectKey: string;
  readonly generation: number;
  /** Bytes, where they were announced. */
  readonly size: number | null;
  readonly mimeType: string | null;
  /** `callerKey` of who began it. */
  readonly caller: string;
  readonly expiresAt: Date;
}

/** One that is about to begin. */
export type NewUpload = Omit<UploadRow, 'expiresAt' | keyof UploadMaker>;

const columns = `id, file_id as "fileId", kind, signed, bucket, object_key as "objectKey", generation, size,
  mime_type as "mimeType", caller, scope, session_id as "sessionId", expires_at as "expiresAt"`;

export const insertUpload = (
  database: Queryable,
  upload: NewUpload & Partial<UploadMaker> & { readonly expiresInSeconds: number },
): Promise<unknown> =>
  database.query(
    statement(
      `insert into penstock.storage_uploads (id, file_id, kind, signed, bucket, object_key, generation, size, mime_type, caller, expires_at, scope, session_id)
       values ($1::uuid, $2::uuid, $3, $4::boolean, $5, $6, $7::integer, $8::bigint, $9, $10, now() + $11::double precision * interval '1 second', $12, $13::uuid)`,
      [
        upload.id,
        upload.fileId,
        upload.kind,
        upload.signed,
        upload.bucket,
        upload.objectKey,
        upload.generation,
        upload.size,
        upload.mimeType,
        upload.caller,
        upload.expiresInSeconds,
        upload.scope ?? null,
        upload.sessionId ?? null,
      ],
    ),
  );

/** Several at once, of requests that bring their bytes themselves. */
export const insertUploads = (
  database: Queryable,
  uploads: readonly NewUpload[],
  expiresInSeconds: number,
): Promise<unknown> =>
  database.query(
    statement(
      `insert into penstock.storage_uploads (id, file_id, kind, signed, bucket, object_key, generation, caller, expires_at)
       select u.*, now() + $8::double precision * interval '1 second'
       from (select unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), false, unnest($4::text[]), unnest($5::text[]), unnest($6::integer[]), unnest($7::text[])) u`,
      [
        uploads.map(({ id }) => id),
        uploads.map(({ fileId }) => fileId),
        uploads.map(({ kind }) => kind),
        uploads.map(({ bucket }) => bucket),
        uploads.map(({ objectKey }) => objectKey),
        uploads.map(({ generation }) => generation),
        uploads.map(({ caller }) => caller),
        expiresInSeconds,
      ],
    ),
  );

export const deleteUploads = (database: Queryable, ids: readonly string[]): Promise<unknown> =>
  database.query(
    statement('delete from penstock.storage_uploads where id = any($1::uuid[])', [ids]),
  );

export const uploadById = (database: Queryable, id: string): Promise<UploadRow | undefined> =>
  firstOf(
    database.query<UploadRow>(
      statement(`select ${columns} from penstock.storage_uploads where id = $1::uuid`, [id]),
    ),
  );

/** Ends an upload, for exactly one of those who try. Another place than `objectKey`: a later attempt has taken it over. */
export const takeUpload = (
  database: Queryable,
  id: string,
  objectKey: string,
): Promise<UploadRow | undefined> =>
  firstOf(
    database.query<UploadRow>(
      statement(
        `delete from penstock.storage_uploads where id = $1::uuid and object_key = $2 returning ${columns}`,
        [id, objectKey],
      ),
    ),
  );

/** Takes an upload as `takeUpload` does, and adds what it brought to the counters, as `count` does. `gone`: it is over. */
export async function takeAndCount(
  database: Queryable,
  upload: { readonly id: string; readonly objectKey: string },
  grown: Growth,
): Promise<CountResult | 'gone'> {
  const values: unknown[] = [upload.id, upload.objectKey];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const { text, result } = countingParts(grown, next, 'exists (select from taken)');
  const found = await firstOf(
    database.query<{ result: CountResult | 'gone' }>(
      statement(
        `with taken as (delete from penstock.storage_uploads where id = $1::uuid and object_key = $2 returning 1), ${text}
         select case when not exists (select from taken) then 'gone' else ${result} end as result`,
        values,
      ),
    ),
  );
  return found?.result ?? 'gone';
}

/** Gives a signed upload another place, so that two requests for it never write to one. */
export const moveUpload = (
  database: Queryable,
  id: string,
  place: { readonly objectKey: string; readonly generation: number },
): Promise<UploadRow | undefined> =>
  firstOf(
    database.query<UploadRow>(
      statement(
        `update penstock.storage_uploads set object_key = $2, generation = $3::integer where id = $1::uuid and expires_at > now() returning ${columns}`,
        [id, place.objectKey, place.generation],
      ),
    ),
  );

export const deleteUploadsOf = async (
  database: Queryable,
  fileIds: readonly string[],
): Promise<readonly UploadRow[]> =>
  (
    await database.query<UploadRow>(
      statement(
        `delete from penstock.storage_uploads where file_id = any($1::uuid[]) returning ${columns}`,
        [fileIds],
      ),
    )
  ).rows;

/** Uploads whose time is over, those that ended first before others. */
export const expiredUploads = async (
  database: Queryable,
  limit: number,
): Promise<readonly UploadRow[]> =>
  (
    await database.query<UploadRow>(
      statement(
        `select ${columns} from penstock.storage_uploads where expires_at <= now() order by expires_at limit $1::integer`,
        [limit],
      ),
    )
  ).rows;

export const uploadsIn = async (database: Queryable, bucket: string): Promise<number> =>
  (
    await firstOf(
      database.query<{ count: number }>(
        statement(
          'select count(*)::integer as count from penstock.storage_uploads where bucket = $1',
          [bucket],
        ),
      ),
    )
  )?.count ?? 0;
