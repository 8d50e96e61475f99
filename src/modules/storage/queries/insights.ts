/** The SQL of what operators are told about space. Nothing here reads more than a bounded number of files. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { addGrowth } from './counters.ts';
import { type FileRow, fileColumns } from './files.ts';
import { firstOf, ofModules, statement } from './statement.ts';

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

/** Files by their size. `modules`: of what modules keep, only what is in these containers. */
export const largestFiles = async (
  database: Queryable,
  limit: number,
  modules?: readonly string[],
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${fileColumns} from "app"."File" f where ${ofModules('f."container"', '$2')}
         order by f."size" desc, f."_id" desc limit $1::integer`,
        [limit, modules ?? null],
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

export interface StorageTotals {
  readonly containers: number;
  readonly folders: number;
  readonly files: number;
  readonly totalSize: number;
  readonly publicFiles: number;
  readonly privateFiles: number;
  readonly perContainer: readonly {
    readonly name: string;
    readonly files: number;
    readonly size: number;
  }[];
}

/** Sums of the counters, and two counts of rows: for operators, not for every scrape. */
export async function storageTotals(database: Queryable): Promise<StorageTotals> {
  await addGrowth(database);
  const { rows } = await database.query<{ name: string; files: number; size: number }>({
    text: `select "name", "fileCount"::bigint as files, "usedBytes"::bigint as size from "app"."_StorageContainer" order by "name"`,
  });
  const { rows: counted } = await database.query<{ folders: number; publicFiles: number }>({
    text: `select (select count(*) from "app"."_StorageFolder") as folders, (select count(*) from "app"."File" where "isPublic" and "generation" > 0) as "publicFiles"`,
  });
  const files = rows.reduce((sum, { files: some }) => sum + some, 0);
  const publicFiles = counted[0]?.publicFiles ?? 0;
  return {
    containers: rows.length,
    folders: counted[0]?.folders ?? 0,
    files,
    totalSize: rows.reduce((sum, { size }) => sum + size, 0),
    publicFiles,
    privateFiles: files - publicFiles,
    perContainer: rows,
  };
}
