/** Deleted files that may come back: listed, restored, and gone for good when their time is over. */
import type { Caller } from '../../../kernel/caller.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import { fileNameOf } from '../names.ts';
import { containerByName, holdContainer } from '../queries/containers.ts';
import { count } from '../queries/counters.ts';
import type { FileRow, ScanState } from '../queries/files.ts';
import { insertFile } from '../queries/new-file.ts';
import {
  expiredTrash,
  listTrash,
  type TrashedFile,
  takeFromTrash,
  trashedById,
} from '../queries/trash.ts';
import { authorOf, isOperator, moduleContainersOf, requireModuleOf } from './access.ts';
import { ensureFolders } from './containers.ts';
import type { ListPage } from './listing.ts';
import { visibilityIn } from './placing.ts';
import { releaseFileUsage, requireCounted } from './quotas.ts';
import { enqueueRemoval } from './removing.ts';
import { enqueueChecksum, enqueueScan } from './scanning.ts';
import { existing, type StorageParts } from './storage-parts.ts';

export interface Trash {
  /** What the caller owned or deleted; operators see all that their credential reaches, or that of one container. */
  list(
    caller: Caller,
    page: ListPage & { readonly container?: string | undefined },
  ): Promise<{ readonly rows: readonly TrashedFile[]; readonly count: number }>;
  /**
   * Brings a file back to where it was, under another name if requested. Throws TRASHED_FILE_NOT_FOUND, FILE_EXISTS,
   * CONTAINER_NOT_FOUND, PRIVATE_IN_PUBLIC, QUOTA_EXCEEDED.
   */
  restore(caller: Caller, id: string, name?: string): Promise<FileRow>;
  /** Deletes it for good. Throws TRASHED_FILE_NOT_FOUND. */
  remove(caller: Caller, id: string): Promise<void>;
  /** Deletes for good what has been there for long enough; answers how many. */
  purgeExpired(limit: number): Promise<number>;
}

const textOr = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;

export function createTrash(parts: StorageParts): Trash {
  const { database, events } = parts;
  const { tuples } = parts.permissions;
  /** Whoever owned a file has its trash. That of others does not exist for them. */
  const require = (caller: Caller, found: TrashedFile | undefined): TrashedFile => {
    const file = existing(found, storageErrors.TRASHED_FILE_NOT_FOUND);
    const author = authorOf(caller);
    requireModuleOf(caller, file.container);
    if (isOperator(caller) || file.owner === author || file.deletedBy === author) return file;
    throw storageErrors.TRASHED_FILE_NOT_FOUND();
  };
  const destroy = (ids: readonly string[]): Promise<number> =>
    database.transaction(async (transaction) => {
      const gone = await takeFromTrash(transaction, ids);
      const places = gone.map(({ bucket, objectKey: key }) => ({ bucket, key }));
      await enqueueRemoval(parts, transaction, places);
      await releaseFileUsage(parts, transaction, gone);
      return gone.length;
    });

  return {
    list: (caller, page) =>
      listTrash(database, {
        ...page,
        owner: isOperator(caller) ? undefined : authorOf(caller),
        modules: moduleContainersOf(caller),
      }),
    restore: (caller, id, name) =>
      database.transaction(async (transaction) => {
        const trashed = require(caller, await trashedById(transaction, id, true));
        const container = await containerByName(transaction, trashed.container);
        if (!container || !(await holdContainer(transaction, container.name)))
          throw storageErrors.CONTAINER_NOT_FOUND();
        visibilityIn(container, trashed.rest.isPublic === true);
        await ensureFolders(transaction, caller, { container, folder: trashed.folder });
        const made = await insertFile(transaction, restored(trashed, name), tuples).catch(
          (error: unknown) => {
            throw codeOf(error) === '23505' ? storageErrors.FILE_EXISTS({ cause: error }) : error;
          },
        );
        if (!made) throw storageErrors.FILE_EXISTS();
        await takeFromTrash(transaction, [id]);
        // Its owner had it all the time.
        const grown = { bytes: trashed.size, files: 1, charge: undefined };
        requireCounted(await count(transaction, { container: container.name, ...grown }));
        await events.emit(transaction, caller, fileEvent('create', made));
        await events.emit(transaction, caller, fileEvent('ready', made));
        await enqueueScan(parts, transaction, made);
        await enqueueChecksum(parts, transaction, made);
        return made;
      }),
    async remove(caller, id) {
      require(caller, await trashedById(database, id));
      if ((await destroy([id])) === 0) throw storageErrors.TRASHED_FILE_NOT_FOUND();
    },
    purgeExpired: (limit) =>
      database.transaction(async (transaction) => destroy(await expiredTrash(transaction, limit))),
  };
}

/** The document as it was, with the same id and the same content. */
const restored = ({ rest, ...file }: TrashedFile, name: string | undefined) => ({
  id: file._id,
  name: name === undefined ? file.name : fileNameOf(name),
  folder: file.folder,
  container: file.container,
  size: file.size,
  alias: textOr(rest.alias),
  isPublic: rest.isPublic === true,
  mimeType: file.mimeType ?? undefined,
  metadata: rest.metadata ?? undefined,
  owner: file.owner,
  createdBy: textOr(rest.createdBy) ?? file.deletedBy,
  createdAt: new Date(String(rest.createdAt)),
  generation: Number(rest.generation),
  content: {
    bucket: file.bucket,
    objectKey: file.objectKey,
    size: file.size,
    mimeType: file.mimeType ?? 'application/octet-stream',
    checksum: textOr(rest.checksum),
    etag: textOr(rest.etag) ?? file.objectKey,
    scan: (textOr(rest.scan) ?? null) as ScanState | null,
  },
});
