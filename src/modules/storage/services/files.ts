/** Files: made with their bytes, changed, moved, copied, deleted. */
import type { Caller } from '../../../kernel/caller.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import type { ContainerRow } from '../queries/containers.ts';
import { type FileRow, fileById, lockFile } from '../queries/files.ts';
import { confirmedFile, rightTo } from './confirmed-reads.ts';
import type { Containers } from './containers.ts';
import { requireChecksum } from './content.ts';
import { type ArrivedContent, type Contents, takeCounted } from './contents.ts';
import { createFileChanges, type FileBody, type FilePatch } from './file-changes.ts';
import { contentOf } from './naming.ts';
import type { FileRequest, Placement, Placing } from './placing.ts';
import { chargeOf, requireRoom } from './quotas.ts';
import { createRemoveAll, type RemoveAll } from './removing.ts';
import { enqueueChecksum, enqueueScan, servable } from './scanning.ts';
import { codeOfError, existing, type StorageParts } from './storage-parts.ts';

export interface Files {
  /** The file, however little is there of it. Throws FILE_NOT_FOUND; asks nothing of the caller. */
  find(id: string): Promise<FileRow>;
  /** The same for who reads contents, from memory where nobody has changed it since (known-files.ts). */
  findKnown(id: string): Promise<FileRow>;
  /**
   * A new file with its bytes, or new bytes for one of that name. `requestAtEnd`: what is said about it after the bytes, by
   * forms whose fields stand behind the file; nothing where that is what was said before.
   */
  create(
    caller: Caller,
    request: FileRequest,
    body: FileBody,
    requestAtEnd?: () => FileRequest | undefined,
  ): Promise<FileRow>;
  /** A new file of bytes that have arrived, or new bytes for one of that name. What fails gives the bytes up. */
  adopt(caller: Caller, request: FileRequest, arrived: ArrivedContent): Promise<FileRow>;
  /** Changes what is said, and the bytes where there are new ones. */
  update(caller: Caller, id: string, patch: FilePatch, body?: FileBody): Promise<FileRow>;
  copy(caller: Caller, id: string, request: FileRequest): Promise<FileRow>;
  remove(caller: Caller, id: string, scope?: string): Promise<void>;
  /** Deletes locked files inside a transaction. Asks nothing of the caller. */
  removeAll: RemoveAll;
}

interface Dependencies {
  readonly containers: Containers;
  readonly contents: Contents;
  readonly placing: Placing;
}

export function createFiles(parts: StorageParts, dependencies: Dependencies): Files {
  const { database, access } = parts;
  const { contents, placing } = dependencies;
  const find = async (id: string): Promise<FileRow> => current(await fileById(database, id));
  const change = createFileChanges(parts, dependencies);
  const removeAll = createRemoveAll(parts);
  const make = createMake(parts, dependencies);
  return {
    find,
    findKnown: async (id) => current(await parts.knownFiles.find(id)),
    removeAll,
    async create(caller, request, { source, size, atMost = size, signal }, requestAtEnd) {
      const early = await placing.placeFree(caller, request, atMost);
      const { container, name, mimeType } = early;
      requireRoom(early.room, size);
      const coming = { kind: 'create', container, name, mimeType, size, signal } as const;
      const arrived = await contents.receive(caller, coming, source).catch((error: unknown) => {
        // It was taken as it was found before: the next one looks again.
        if (codeOfError(error) === storageErrors.CONTAINER_NOT_FOUND.code)
          placing.forget(container.name);
        throw error;
      });
      const placed = async (): Promise<Placement> => {
        const last = requestAtEnd?.();
        return last ? placing.place(caller, { ...last, name: last.name ?? name }) : early;
      };
      return make(caller, arrived, placed, { ...request, name });
    },
    adopt: (caller, request, arrived) =>
      make(caller, arrived, () => placing.place(caller, request)),
    async update(caller, id, patch, body) {
      const file = await find(id);
      await access.require(caller, 'edit', file, patch.scope);
      return change(caller, file, patch, body);
    },
    async copy(caller, id, request) {
      const asked = { action: 'content', scope: request.scope } as const;
      const from = await confirmedFile({
        find: () => find(id),
        ...rightTo(parts, caller, asked),
      });
      const placement = await placing.placeFree(caller, requestOfCopy(from, request));
      requireRoom(placement.room, from.size);
      const content = contentOf(servable(parts.config(), from));
      contents.requireFit(placement.container, content);
      const { bucket } = placement.container;
      const to = { kind: 'create', bucket } as const;
      return make(caller, await contents.copy(caller, to, content), async () => placement);
    },
    async remove(caller, id, scope) {
      await access.require(caller, 'delete', await find(id), scope);
      await database.transaction(async (transaction) => {
        const file = existing(await lockFile(transaction, id), storageErrors.FILE_NOT_FOUND);
        await access.require(caller, 'delete', file, scope);
        await removeAll(transaction, caller, [file]);
      });
    },
  };
}

function current(found: FileRow | undefined): FileRow {
  const file = existing(found, storageErrors.FILE_NOT_FOUND);
  // It is deleted by a job that comes every few minutes.
  if (file.expiresAt !== null && file.expiresAt.getTime() <= Date.now())
    throw storageErrors.FILE_NOT_FOUND();
  return file;
}

/** A copy is what its original is, but for what is said about it. */
const requestOfCopy = (from: FileRow, request: FileRequest): FileRequest => ({
  isPublic: from.isPublic,
  mimeType: from.mimeType ?? undefined,
  container: from.container,
  folder: from.folder,
  alias: from.alias ?? undefined,
  ...request,
});

const growthBy = (parts: StorageParts, { container, owner }: Placement, bytes: number) => ({
  container: container.name,
  bytes,
  files: 1,
  charge: chargeOf(parts, owner),
});

/** Only forms that name the container behind the file come here with bytes in another bucket. */
async function inBucket(
  contents: Contents,
  ...[caller, arrived, { bucket }]: [
    caller: Caller,
    arrived: ArrivedContent,
    container: Pick<ContainerRow, 'bucket'>,
  ]
): Promise<ArrivedContent> {
  if (arrived.content.bucket === bucket) return arrived;
  const to = { kind: 'create', bucket } as const;
  const moved = await contents.copy(caller, to, arrived.content);
  await contents.abandon(arrived);
  return moved;
}

/** Makes a file of what has arrived; gives the bytes up when that is refused. */
function createMake(
  parts: StorageParts,
  { contents, placing }: Pick<Dependencies, 'contents' | 'placing'>,
) {
  const { database, events } = parts;

  const write = async (
    caller: Caller,
    arrived: ArrivedContent,
    placement: Placement,
  ): Promise<FileRow> =>
    (await placing.insertWhole(caller, placement, arrived)) ??
    database.transaction(async (transaction) => {
      const { upload, content } = arrived;
      const rest = { id: upload.fileId, size: content.size, content };
      const placed = await placing.insert(transaction, caller, placement, rest);
      if ('there' in placed) {
        const generation = existing(
          await parts.fileWrites.nextGeneration(transaction, placed.there._id),
          storageErrors.FILE_NOT_FOUND,
        );
        return contents.replace(transaction, caller, placed.there, { ...arrived, generation });
      }
      // Sent together, done one after the other: counters with a quota, for which all wait, come last.
      await Promise.all([
        events.emit(transaction, caller, fileEvent('create', placed.made)),
        events.emit(transaction, caller, fileEvent('ready', placed.made)),
        enqueueScan(parts, transaction, placed.made),
        enqueueChecksum(parts, transaction, placed.made),
        takeCounted(transaction, upload, growthBy(parts, placement, content.size)),
      ]);
      return placed.made;
    });

  /** `request`: for a container that was looked at before, to look again where it does not take the file as it is. */
  return async (
    caller: Caller,
    arrived: ArrivedContent,
    placed: () => Promise<Placement>,
    request: FileRequest = {},
  ): Promise<FileRow> => {
    let last = arrived;
    try {
      let placement = await placed();
      requireChecksum(placement.checksum, () => arrived.content.checksum);
      // Forms may name it behind the file, and it may have changed while a long upload went on.
      contents.requireFit(placement.container, last.content);
      if (placement.seen) {
        last = await inBucket(contents, caller, last, placement.container);
        const made = await placing.insertWhole(caller, placement, last);
        if (made) return made;
        placement = await placing.placeFree(caller, request);
        contents.requireFit(placement.container, last.content);
      }
      last = await inBucket(contents, caller, last, placement.container);
      return await write(caller, last, placement);
    } catch (error) {
      await contents.abandon(last);
      throw error;
    }
  };
}
