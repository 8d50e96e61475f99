/** The SQL of files whose time is over. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { type FileRow, fileColumns } from './files.ts';
import { statement } from './statement.ts';

/** By their own time, or by the rule of their container. Locked; those that somebody else is at are left out. */
export const expiredFiles = async (
  database: Queryable,
  { limit, except }: { readonly limit: number; readonly except: readonly string[] },
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${fileColumns} from "app"."File" f where f."_id" in (
           (select e."_id" from "app"."File" e where e."expiresAt" <= now() and not e."_id" = any($2::uuid[]) limit $1::integer)
           union all
           (select o."_id" from "app"."_StorageContainer" c
              cross join lateral (select f2."_id" from "app"."File" f2 where f2."container" = c."name"
                and f2."createdAt" < now() - (c."lifecycle" ->> 'deleteAfterDays')::integer * interval '1 day'
                and not f2."_id" = any($2::uuid[]) order by f2."createdAt" limit $1::integer) o
            where jsonb_typeof(c."lifecycle" -> 'deleteAfterDays') = 'number' limit $1::integer))
         limit $1::integer for update of f skip locked`,
        [limit, except],
      ),
    )
  ).rows;
