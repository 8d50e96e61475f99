/** The SQL of all files of a container, or of a folder and those below it. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { type FileRow, fileColumns } from './files.ts';

/** Name of a container, or id of a folder. */
export type FilesIn =
  | { readonly container: string; readonly folderId?: undefined }
  | { readonly folderId: string; readonly container?: undefined };

/** A condition on files `f`, which an index serves. */
export const filesIn = (where: FilesIn, next: (value: unknown) => string): string =>
  where.folderId === undefined
    ? `f."container" = ${next(where.container)}`
    : `f."folderIds" @> array[${next(where.folderId)}::uuid]`;

/** Locked, so that nobody else deletes or changes them too. `condition`: over files `f`. */
export const lockFilesIn = async (
  database: Queryable,
  condition: string,
  values: readonly unknown[],
  limit: number,
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>({
      text: `select ${fileColumns} from "app"."File" f where ${condition} limit ${limit} for update of f`,
      values,
    })
  ).rows;
