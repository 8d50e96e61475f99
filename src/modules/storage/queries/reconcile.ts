/** The SQL that compares documents with what lies on the store. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { ContainerRow } from './containers.ts';
import { addGrowth } from './counters.ts';
import { firstOf, statement } from './statement.ts';

/** A file with a content, as far as the store is concerned. */
export interface StoredFile {
  readonly _id: string;
  readonly name: string;
  readonly container: string;
  readonly bucket: string;
  readonly objectKey: string;
  readonly size: number;
  readonly failure: string | null;
}

/** By id, after one of them. */
export const storedFilesAfter = async (
  database: Queryable,
  after: string,
  limit: number,
): Promise<readonly StoredFile[]> =>
  (
    await database.query<StoredFile>(
      statement(
        `select "_id", "name", "container", "bucket", "objectKey", "size", "failure" from "app"."File"
         where "_id" > $1::uuid and "generation" > 0 order by "_id" limit $2::integer`,
        [after, limit],
      ),
    )
  ).rows;

/** The next container by name. */
export const containerAfter = (
  database: Queryable,
  name: string,
): Promise<Pick<ContainerRow, '_id' | 'name' | 'bucket'> | undefined> =>
  firstOf(
    database.query<Pick<ContainerRow, '_id' | 'name' | 'bucket'>>(
      statement(
        `select "_id", "name", "bucket" from "app"."_StorageContainer" where "name" > $1 order by "name" limit 1`,
        [name],
      ),
    ),
  );

interface Counted {
  readonly usedBytes: number;
  readonly fileCount: number;
  readonly bytes: number;
  readonly files: number;
}

/** What is counted, and what there is. `repair`: the counters become what there is. The container must be locked then. */
export async function recountContainer(
  database: Queryable,
  name: string,
  repair: boolean,
): Promise<Counted | undefined> {
  if (repair) await addGrowth(database, name);
  const counted = await firstOf(
    database.query<Counted>({
      text: `select c."usedBytes" + coalesce((select sum(g.bytes) from penstock.storage_growth g where g.container = c."name"), 0)::bigint as "usedBytes",
               c."fileCount" + coalesce((select sum(g.files) from penstock.storage_growth g where g.container = c."name"), 0)::bigint as "fileCount", coalesce(sum(f."size"), 0)::bigint as bytes, count(f."_id") as files
             from "app"."_StorageContainer" c left join "app"."File" f on f."container" = c."name" and f."generation" > 0
             where c."name" = $1 group by c."_id"`,
      values: [name],
    }),
  );
  if (counted && repair)
    await database.query({
      text: `update "app"."_StorageContainer" set "usedBytes" = greatest(0, "usedBytes" + $2::bigint), "fileCount" = greatest(0, "fileCount" + $3::bigint) where "name" = $1`,
      values: [name, counted.bytes - counted.usedBytes, counted.files - counted.fileCount],
    });
  return counted;
}
