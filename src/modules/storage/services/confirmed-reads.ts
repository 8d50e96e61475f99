/**
 * Files for whoever may read them. The right is asked for between two looks at the file that must come to the same: so it
 * was there while that stood there. A right that was taken back meanwhile shows nothing that was written next, and one that
 * was given shows nothing of before (docs/decisions/560-rights-to-files-are-confirmed.md).
 */
import { isDeepStrictEqual } from 'node:util';
import type { Caller } from '../../../kernel/caller.ts';
import { type FileRow, readyFiles } from '../queries/files.ts';
import type { FileAction } from './access.ts';
import type { StorageParts } from './storage-parts.ts';

/** A file that changes again and again is shown as it was a moment before its right was asked for. */
const MAX_ATTEMPTS = 10;

/** How one file is read. */
interface FileRead {
  /** The file as it is now. */
  find(): Promise<FileRow>;
  /** The same after a look whether a new content has arrived: only for who may read it. */
  readonly settle?: ((file: FileRow) => Promise<FileRow>) | undefined;
  /** Throws for who may not. */
  ask(file: FileRow): Promise<void>;
  /** Whether `ask` looks at the file alone. */
  saysItself(file: FileRow): boolean;
}

/** The file as it was while it was asked about. */
export async function confirmedFile(read: FileRead): Promise<FileRow> {
  const { find, settle = async (file) => file, ask } = read;
  let file = await find();
  for (let n = 0; n < MAX_ATTEMPTS; n += 1) {
    await ask(file);
    if (file.pendingUpload === null && read.saysItself(file)) return file;
    const now = await settle(await find());
    if (isSame(file, now)) return now;
    file = now;
  }
  await ask(file);
  return file;
}

/** Those of several files that have a content and that the caller may read, in no order. */
export async function readableFiles(
  { database, access }: Pick<StorageParts, 'database' | 'access'>,
  caller: Caller,
  ids: readonly string[],
  action: FileAction,
): Promise<readonly FileRow[]> {
  const readable: FileRow[] = [];
  const allowedOf = async (files: readonly FileRow[]): Promise<readonly FileRow[]> => {
    const allowed: FileRow[] = [];
    for (const file of files) if (await access.may(caller, action, file)) allowed.push(file);
    return allowed;
  };
  let asked = await readyFiles(database, ids);
  for (let n = 0; n < MAX_ATTEMPTS && asked.length > 0; n += 1) {
    const unsure = new Map<string, FileRow>();
    for (const file of await allowedOf(asked))
      if (access.saysItself(caller, action, file)) readable.push(file);
      else unsure.set(file._id, file);
    const now = unsure.size === 0 ? [] : await readyFiles(database, [...unsure.keys()]);
    readable.push(...now.filter((file) => isSame(file, unsure.get(file._id))));
    asked = now.filter((file) => !isSame(file, unsure.get(file._id)));
  }
  return [...readable, ...(await allowedOf(asked))];
}

/** What `confirmedFile` asks about the right of a caller to act on a file. */
export const rightTo = (
  { access }: Pick<StorageParts, 'access'>,
  caller: Caller,
  { action, scope }: { readonly action: FileAction; readonly scope?: string | undefined },
): Pick<FileRead, 'ask' | 'saysItself'> => ({
  ask: (file) => access.require(caller, action, file, scope),
  saysItself: (file) => access.saysItself(caller, action, file),
});

/** Known files are one row as long as they are the same. */
const isSame = (one: FileRow, other: FileRow | undefined): boolean =>
  one === other || isDeepStrictEqual(one, other);
