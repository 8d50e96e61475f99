/** Files of a folder or of a container, deleted batch by batch: at once where they are few, else by a task. */

import { createParameters } from '../../../data/records/sql/prepared-statements.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { storageErrors } from '../errors.ts';
import { type FilesIn, filesIn, lockFilesIn } from '../queries/files.ts';
import { createRemoveAll, type RemoveOptions } from './removing.ts';
import type { StorageParts } from './storage-parts.ts';

/** Files that are deleted in one transaction. */
const BATCH = 500;

export interface Emptying {
  /** Whether more than so many files are there. */
  isLarge(where: FilesIn): Promise<boolean>;
  /** Throws FILE_ACCESS_DENIED when there is a file that the caller may not delete. */
  requireDeletable(caller: Caller, where: FilesIn): Promise<void>;
  /** Deletes one batch of what the caller may delete; answers how many, 0 at the end. */
  batch(caller: Caller, where: FilesIn, options?: RemoveOptions): Promise<number>;
  /** Deletes all that the caller may delete. */
  all(caller: Caller, where: FilesIn, options?: RemoveOptions): Promise<number>;
}

/** Files up to which a request deletes a folder by itself. */
const AT_ONCE = 5_000;

export function createEmptying(parts: StorageParts): Emptying {
  const { database, access } = parts;
  const removeAll = createRemoveAll(parts);
  /** `and ...` for files that the caller may delete, with the values of the statement. */
  const deletable = async (caller: Caller) => {
    const predicate = await access.rows(caller, 'delete', {});
    return (next: (value: unknown) => string): string =>
      predicate ? `(${predicate.compile('f."_id"', next, 'rows', 'f')})` : 'true';
  };
  const batch: Emptying['batch'] = async (caller, where, options) => {
    const allowed = await deletable(caller);
    return database.transaction(async (transaction) => {
      const { values, next } = createParameters();
      const found = filesIn(where, next);
      const files = await lockFilesIn(transaction, `${found} and ${allowed(next)}`, values, BATCH);
      await removeAll(transaction, caller, files, options);
      return files.length;
    });
  };
  return {
    batch,
    async isLarge(where) {
      const { values, next } = createParameters();
      const text = `select 1 from "app"."File" f where ${filesIn(where, next)} limit ${AT_ONCE + 1}`;
      return (await database.query({ text, values })).count > AT_ONCE;
    },
    async requireDeletable(caller, where) {
      const allowed = await deletable(caller);
      const { values, next } = createParameters();
      const found = filesIn(where, next);
      const text = `select 1 from "app"."File" f where ${found} and not ${allowed(next)} limit 1`;
      if ((await database.query({ text, values })).count > 0)
        throw storageErrors.FILE_ACCESS_DENIED({
          message: 'There are files in it that you may not delete',
        });
    },
    async all(caller, where, options) {
      let total = 0;
      for (let gone = BATCH; gone === BATCH; total += gone)
        gone = await batch(caller, where, options);
      return total;
    },
  };
}
