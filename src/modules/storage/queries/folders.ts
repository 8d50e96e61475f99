/** The SQL of folders. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { levelsOf, parentOf } from '../names.ts';
import { firstOf, statement } from './statement.ts';

export interface FolderRow {
  readonly _id: string;
  readonly name: string;
  readonly container: string;
  readonly parent: string;
  readonly isPublic: boolean;
  readonly createdBy: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const folderColumns = [
  '_id',
  'name',
  'container',
  'parent',
  'isPublic',
  'createdBy',
  'createdAt',
  'updatedAt',
]
  .map((name) => `d."${name}"`)
  .join(', ');
const folders = '"app"."_StorageFolder"';

export const folderById = (database: Queryable, id: string): Promise<FolderRow | undefined> =>
  firstOf(
    database.query<FolderRow>(
      statement(`select ${folderColumns} from ${folders} d where d."_id" = $1::uuid`, [id]),
    ),
  );

export const folderNamed = (
  database: Queryable,
  { container, name }: Pick<FolderRow, 'container' | 'name'>,
): Promise<FolderRow | undefined> =>
  firstOf(
    database.query<FolderRow>(
      statement(
        `select ${folderColumns} from ${folders} d where d."container" = $1 and d."name" = $2`,
        [container, name],
      ),
    ),
  );

/** Those that operators made, outside of the containers of modules. */
export const operatorFolders = async (database: Queryable): Promise<readonly FolderRow[]> =>
  (
    await database.query<FolderRow>(
      statement(
        `select ${folderColumns} from ${folders} d where starts_with(d."createdBy", 'admin:') and not starts_with(d."container", 'module-')
         order by d."container", d."name"`,
        [],
      ),
    )
  ).rows;

/** Says what a folder is that is there, and whose. */
export const adoptFolder = (
  database: Queryable,
  { container, name, isPublic, createdBy }: NewFolder,
): Promise<FolderRow | undefined> =>
  firstOf(
    database.query<FolderRow>(
      statement(
        `update ${folders} as d set "isPublic" = $3::boolean, "createdBy" = $4, "updatedAt" = now(), "__v" = d."__v" + 1
         where d."container" = $1 and d."name" = $2 returning ${folderColumns}`,
        [container, name, isPublic, createdBy],
      ),
    ),
  );

interface NewFolder {
  readonly container: string;
  /** Whole path with a slash at its end. */
  readonly name: string;
  readonly isPublic: boolean;
  readonly createdBy: string;
}

/** Makes the levels that are missing, from above; answers those that it made. */
export const insertFolders = async (
  database: Queryable,
  { container, name, isPublic, createdBy }: NewFolder,
): Promise<readonly FolderRow[]> => {
  const levels = levelsOf(name);
  if (levels.length === 0) return [];
  const { rows } = await database.query<FolderRow>(
    statement(
      `insert into ${folders} as d ("_id", "name", "container", "parent", "isPublic", "createdBy", "createdAt", "updatedAt", "__v")
       select level.id, level.name, $4, level.parent, $5::boolean, $6, now(), now(), 0
       from unnest($1::uuid[], $2::text[], $3::text[]) as level(id, name, parent)
       on conflict do nothing returning ${folderColumns}`,
      [levels.map(() => newId()), levels, levels.map(parentOf), container, isPublic, createdBy],
    ),
  );
  return rows;
};

/** A folder and all below it. */
export const deleteFolders = async (
  database: Queryable,
  container: string,
  name: string,
): Promise<number> =>
  (
    await database.query(
      statement(`delete from ${folders} where "container" = $1 and starts_with("name", $2)`, [
        container,
        name,
      ]),
    )
  ).count;

/** Whether files are in a folder, or below it. */
export const hasFilesBelow = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(
      statement('select 1 from "app"."File" f where f."folderIds" @> array[$1::uuid] limit 1', [
        id,
      ]),
    )
  ).count > 0;

/** A folder, those above it and its container: whose rights reach it. */
export const placesAround = async (
  database: Queryable,
  id: string,
): Promise<readonly (readonly ['Folder' | 'Container', string])[]> => {
  const { rows } = await database.query<{ type: 'Folder' | 'Container'; id: string }>(
    statement(
      `select 'Folder' as type, a."_id" as id from ${folders} d join ${folders} a on a."container" = d."container" and starts_with(d."name", a."name")
       where d."_id" = $1::uuid
       union all select 'Container', c."_id" from ${folders} d join "app"."_StorageContainer" c on c."name" = d."container" where d."_id" = $1::uuid`,
      [id],
    ),
  );
  return rows.map(({ type, id: found }) => [type, found] as const);
};

/** Whether files or folders are in it. */
export const folderHasContents = async (
  database: Queryable,
  { container, name }: Pick<FolderRow, 'container' | 'name'>,
): Promise<boolean> =>
  (
    await database.query(
      statement(
        `(select 1 from "app"."File" where "container" = $1 and starts_with("folder", $2) limit 1)
         union all (select 1 from ${folders} where "container" = $1 and "parent" = $2 limit 1)`,
        [container, name],
      ),
    )
  ).count > 0;
