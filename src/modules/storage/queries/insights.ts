/** The SQL of what operators are told about space. Nothing here reads more than a bounded number of files. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { addGrowth } from './containers.ts';
import { type FileRow, fileColumns } from './files.ts';
import { firstOf, statement } from './statement.ts';

interface Amount {
  readonly files: number;
  readonly size: number;
}

export interface ContainerSpace extends Amount {
  readonly name: string;
  /** Bytes of all containers. */
  readonly total: number;
  /** Bytes. */
  readonly quota: number | null;
}

/** Containers by what is in them, from their counters. */
export const largestContainers = async (
  database: Queryable,
  limit: number,
): Promise<readonly ContainerSpace[]> => {
  await addGrowth(database);
  const { rows } = await database.query<ContainerSpace>(
    statement(
      `select "name", "fileCount"::bigint as files, "usedBytes"::bigint as size, "quota"::bigint as quota, (sum("usedBytes") over ())::bigint as total
         from "app"."_StorageContainer" order by "usedBytes" desc, "name" limit $1::integer`,
      [limit],
    ),
  );
  return rows;
};

/** Files by their size. */
export const largestFiles = async (
  database: Queryable,
  limit: number,
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${fileColumns} from "app"."File" f order by f."size" desc, f."_id" desc limit $1::integer`,
        [limit],
      ),
    )
  ).rows;

/** Files and bytes that are somewhere between coming and going. */
export interface Waiting {
  readonly trash: Amount;
  /** Bytes are expected, or on their way. */
  readonly uploads: number;
  /** Resumable uploads that are not complete, with the bytes that have come. */
  readonly resumable: Amount;
  /** Files without a usable content. */
  readonly failed: number;
}

export async function waitingSpace(database: Queryable): Promise<Waiting> {
  const row = await firstOf(
    database.query<
      Record<'trashFiles' | 'trashSize' | 'uploads' | 'parts' | 'partsSize' | 'failed', number>
    >(
      statement(
        `select t.files as "trashFiles", t.size as "trashSize", u.uploads, r.files as "parts", r.size as "partsSize", f.failed
         from (select count(*) as files, coalesce(sum(size), 0)::bigint as size from penstock.storage_trash) t,
           (select count(*) as uploads from penstock.storage_uploads) u,
           (select count(*) as files, coalesce(sum("offset"), 0)::bigint as size from penstock.storage_resumable where file_id is null) r,
           (select count(*) as failed from "app"."File" where "state" = 'failed') f`,
        [],
      ),
    ),
  );
  return {
    trash: { files: row?.trashFiles ?? 0, size: row?.trashSize ?? 0 },
    uploads: row?.uploads ?? 0,
    resumable: { files: row?.parts ?? 0, size: row?.partsSize ?? 0 },
    failed: row?.failed ?? 0,
  };
}
