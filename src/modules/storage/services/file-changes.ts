/** Changes of files that are there: bytes that have to lie elsewhere are copied first, and the old ones deleted afterwards. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import {
  aliasOf,
  fileNameOf,
  folderOf,
  mediaTypeOf,
  metadataOf,
  requirePathLength,
} from '../names.ts';
import type { ContainerRow } from '../queries/containers.ts';
import { count } from '../queries/counters.ts';
import { type FileRow, lockFile } from '../queries/files.ts';
import { takeUpload } from '../queries/uploads.ts';
import { type Containers, ensureFolders } from './containers.ts';
import type { ArrivedContent, Contents } from './contents.ts';
import { contentOf, placeOf } from './naming.ts';
import { type FileRequest, holdPlace, visibilityIn } from './placing.ts';
import { requireCounted } from './quotas.ts';
import { enqueueRemoval } from './removing.ts';
import { enqueueChecksum, enqueueScan } from './scanning.ts';
import { existing, type StorageParts } from './storage-parts.ts';

/** Bytes that come with a request. */
export interface FileBody {
  readonly source: AsyncIterable<Buffer>;
  /** Bytes, where they were announced. */
  readonly size?: number | undefined;
  /** So many at most, where that is known though their number is not. */
  readonly atMost?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What may be said about a file that is there. */
export type FilePatch = Pick<
  FileRequest,
  'name' | 'alias' | 'folder' | 'container' | 'mimeType' | 'metadata' | 'isPublic' | 'scope'
> & {
  /** Null: never. */
  readonly expiresAt?: Date | null | undefined;
};

export type ChangeFile = (
  caller: Caller,
  /** As it was seen; the caller may edit it. */
  file: FileRow,
  patch: FilePatch,
  body: FileBody | undefined,
) => Promise<FileRow>;

interface Dependencies {
  readonly containers: Containers;
  readonly contents: Contents;
}

interface Change {
  /** As it was last seen. */
  readonly seen: FileRow;
  readonly patch: FilePatch;
  /** No other bytes come for it. */
  readonly keepsContent: boolean;
  /** Where it will be, once that is known. */
  readonly container?: ContainerRow;
}

/** What a file will be. */
interface Target {
  readonly container: ContainerRow;
  readonly folder: string;
  readonly name: string;
  readonly alias: string | null;
  readonly mimeType: string | null;
  readonly isPublic: boolean;
  readonly metadata: unknown;
  readonly expiresAt: Date | null;
  readonly scope: string | undefined;
}

/** Throws what names and containers are refused for, and FILE_EXISTS. */
export function createFileChanges(
  parts: StorageParts,
  { containers, contents }: Dependencies,
): ChangeFile {
  const { database, access, events } = parts;
  const settleMove = createSettleMove(parts);
  const targetOf = createTargets(parts, { containers, contents });

  const write = (
    caller: Caller,
    { seen, patch, ...change }: Change & { readonly container: ContainerRow },
    arrived: (ArrivedContent & { readonly isMove: boolean }) | undefined,
  ): Promise<FileRow> =>
    database.transaction(async (transaction) => {
      const file = existing(await lockFile(transaction, seen._id), storageErrors.FILE_NOT_FOUND);
      await access.require(caller, 'edit', file, patch.scope);
      if (wasMoved(seen, file, patch))
        throw storageErrors.UPLOAD_CLOSED({ message: 'The file was moved meanwhile: try again' });
      // Others may have changed it while bytes came: what is not said here stays as it is now.
      const to = await targetOf(caller, { ...change, seen: file, patch });
      // Where it goes others may have rights on it, the mover too, and where it was they lose them.
      if (isElsewhere(file, to)) await access.require(caller, 'delete', file, to.scope);
      const described = await describe(parts, transaction, caller, file, to);
      if (!arrived) {
        await events.emit(transaction, caller, fileEvent('update', described));
        return described;
      }
      if (!arrived.isMove) return contents.replace(transaction, caller, described, arrived);
      // A copy of bytes that were replaced meanwhile would bring the old ones back.
      if (file.objectKey !== seen.objectKey) throw storageErrors.UPLOAD_CLOSED();
      return settleMove(transaction, caller, described, arrived);
    });

  return async (caller, file, patch, body) => {
    const isMove = body === undefined;
    const change: Change = { seen: file, patch, keepsContent: isMove };
    const to = await targetOf(caller, change);
    const arrived = await arrive(contents, { caller, file, to, body });
    try {
      const { container } = to;
      return await write(caller, { ...change, container }, arrived && { ...arrived, isMove });
    } catch (error) {
      if (arrived) await contents.abandon(arrived);
      throw codeOf(error) === '23505' ? storageErrors.FILE_EXISTS({ cause: error }) : error;
    }
  };
}

/** Then what was found out about its container, or where its bytes were brought, is of another one. */
const wasMoved = (seen: FileRow, file: FileRow, { container }: FilePatch): boolean =>
  container === undefined ? file.container !== seen.container : file.bucket !== seen.bucket;

const isElsewhere = ({ container, folder }: FileRow, to: Target): boolean =>
  container !== to.container.name || folder !== to.folder;

interface Arriving {
  readonly caller: Caller;
  readonly file: FileRow;
  readonly to: Target;
  readonly body: FileBody | undefined;
}

/** Brings bytes to where they will lie: new ones, or a copy where the container is another one. */
async function arrive(
  contents: Contents,
  { caller, file, to, body }: Arriving,
): Promise<ArrivedContent | undefined> {
  const { container, name, mimeType } = to;
  const fileId = file._id;
  if (body) {
    const hint = mimeType ?? undefined;
    const expected = { fileId, kind: 'replace', container, name, mimeType: hint } as const;
    const { source, size, signal } = body;
    return contents.receive(caller, { ...expected, size, signal }, source);
  }
  const { bucket } = container;
  if (file.bucket === null || file.bucket === bucket) return undefined;
  return contents.copy(caller, { fileId, kind: 'move', bucket }, contentOf(file));
}

function createTargets(
  { access }: StorageParts,
  { containers, contents }: Dependencies,
): (caller: Caller, change: Change) => Promise<Target> {
  return async (caller, { seen: file, patch, keepsContent, container: known }) => {
    const path = pathIn(file, patch);
    const container =
      known ?? (await containers.resolve(caller, patch.container ?? file.container));
    access.requireCreate(caller, container.name);
    const isPublic = visibilityIn(container, patch.isPublic ?? file.isPublic);
    await requireShared(access, caller, { file, isPublic, scope: patch.scope });
    const mimeType = patch.mimeType === undefined ? file.mimeType : mediaTypeOf(patch.mimeType);
    const isNews = container.name !== file.container || patch.mimeType !== undefined;
    // What is in a container already stays, although it would not be taken any more.
    if (isNews && keepsContent && file.generation > 0)
      contents.requireFit(container, contentOf({ ...file, mimeType }));
    return {
      ...path,
      container,
      isPublic,
      alias: patch.alias === undefined ? file.alias : aliasOf(patch.alias),
      mimeType,
      metadata: patch.metadata === undefined ? file.metadata : metadataOf(patch.metadata),
      expiresAt: patch.expiresAt === undefined ? file.expiresAt : patch.expiresAt,
      scope: patch.scope,
    };
  };
}

/** Throws INVALID_NAME. */
function pathIn(file: FileRow, patch: FilePatch): Pick<Target, 'folder' | 'name'> {
  const folder = patch.folder === undefined ? file.folder : folderOf(patch.folder);
  const name = patch.name === undefined ? file.name : fileNameOf(patch.name);
  requirePathLength(folder, name);
  return { folder, name };
}

/** To give a file to everybody is to share it. Throws FILE_ACCESS_DENIED. */
async function requireShared(
  access: StorageParts['access'],
  caller: Caller,
  { file, isPublic, scope }: Pick<Target, 'isPublic' | 'scope'> & { readonly file: FileRow },
): Promise<void> {
  if (isPublic && !file.isPublic) await access.require(caller, 'share', file, scope);
}

/** Writes down what is said about a locked file. Throws CONTAINER_NOT_FOUND, QUOTA_EXCEEDED, and a unique violation. */
async function describe(
  { fileWrites }: Pick<StorageParts, 'fileWrites'>,
  transaction: Transaction,
  ...[caller, file, to]: readonly [Caller, FileRow, Target]
): Promise<FileRow> {
  const { name: container } = to.container;
  await holdPlace(transaction, to);
  await ensureFolders(transaction, caller, to);
  const described = existing(
    await fileWrites.update(transaction, file._id, { ...to, container }),
    storageErrors.FILE_NOT_FOUND,
  );
  if (container === file.container || file.generation === 0) return described;
  // It stays with its owner. In the order of names, so that moves in opposite directions never wait for each other.
  const come = { container, bytes: file.size, files: 1, charge: undefined };
  const gone = { ...come, container: file.container, bytes: -file.size, files: -1 };
  for (const grown of container < file.container ? [come, gone] : [gone, come]) {
    const result = await count(transaction, grown);
    if (grown === come) requireCounted(result);
  }
  return described;
}

/** The copy becomes the content; what is counted stays. */
export function createSettleMove(parts: StorageParts) {
  return async (
    transaction: Transaction,
    caller: Caller,
    file: FileRow,
    { upload, content }: ArrivedContent,
  ): Promise<FileRow> => {
    if (!(await takeUpload(transaction, upload.id, upload.objectKey)))
      throw storageErrors.UPLOAD_CLOSED();
    const { generation } = upload;
    // What was found out about the bytes while they were copied, and what is still to be found out at their new place.
    const { mimeType, checksum, scan } = file;
    const moved = existing(
      await parts.fileWrites.setContent(transaction, file._id, {
        ...content,
        mimeType: mimeType ?? content.mimeType,
        checksum: checksum ?? undefined,
        scan,
        generation,
      }),
      storageErrors.FILE_NOT_FOUND,
    );
    await enqueueScan(parts, transaction, moved);
    await enqueueChecksum(parts, transaction, moved);
    await enqueueRemoval(parts, transaction, [placeOf(file)]);
    await parts.events.emit(transaction, caller, fileEvent('update', moved));
    return moved;
  };
}
