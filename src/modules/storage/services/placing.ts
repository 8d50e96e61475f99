/** Where a new file may stand: its container and folder, its name, and whether it is public. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import { newId } from '../../../kernel/ids.ts';
import type { CachedOwner, RecordTuples } from '../../../kernel/permissions.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import {
  aliasOf,
  fileNameOf,
  folderOf,
  mediaTypeOf,
  metadataOf,
  partsOf,
  ROOT,
  requirePathLength,
  suffixed,
} from '../names.ts';
import { type ContainerRow, holdContainer, type SeenContainer } from '../queries/containers.ts';
import { type FileRow, fileAt, highestSuffix, lockNames } from '../queries/files.ts';
import { insertFile, type NewFile, type SeenVersion } from '../queries/new-file.ts';
import { fileSchema } from '../schemas.ts';
import { authorOf, mayNot, ownerOf } from './access.ts';
import { createContainerLook } from './container-look.ts';
import { type Containers, ensureFolders } from './containers.ts';
import type { ArrivedContent } from './contents.ts';
import { chargeOf, roomOf } from './quotas.ts';
import type { StorageParts } from './storage-parts.ts';
import { createWholeFiles, type WholeFiles } from './whole-files.ts';

/** What a caller says about a new file. */
export interface FileRequest {
  readonly name?: string | undefined;
  readonly alias?: string | undefined;
  readonly folder?: string | undefined;
  readonly container?: string | undefined;
  readonly mimeType?: string | undefined;
  readonly isPublic?: boolean | undefined;
  readonly metadata?: unknown;
  readonly expiresAt?: Date | undefined;
  /** SHA-256 in hex that the bytes must have. */
  readonly checksum?: string | undefined;
  /** A file of that name gets the new content. */
  readonly overwrite?: boolean | undefined;
  /** `Type:id` that shall own it instead of the caller. */
  readonly scope?: string | undefined;
}

/** A request that was found possible. */
export interface Placement {
  readonly container: ContainerRow;
  readonly folder: string;
  readonly name: string;
  readonly alias: string | undefined;
  readonly mimeType: string | undefined;
  readonly isPublic: boolean;
  readonly metadata: unknown;
  readonly expiresAt: Date | undefined;
  readonly checksum: string | undefined;
  readonly overwrite: boolean;
  readonly owner: string | null;
  readonly scope: string | undefined;
  /** Bytes that its owner has left, where a quota is known to bound them. */
  readonly room?: number | undefined;
  /** Its container was looked at for an upload before this one: it may be another by now. */
  readonly seen?: SeenVersion | undefined;
}

export interface Placing {
  /** Throws for names that are none, for containers that may not be made, and for a private file among public ones. */
  place(caller: Caller, request: FileRequest): Promise<Placement>;
  /** A container that is gone is not taken as it was found. */
  forget(container: string): void;
  /**
   * The same; throws FILE_EXISTS too when it is known already that the name is taken, before bytes are sent for nothing.
   * `atMost`: bytes; of few it may be found out when they are there, and nothing is asked.
   */
  placeFree(caller: Caller, request: FileRequest, atMost?: number): Promise<Placement>;
  /**
   * Writes the document, under another name where the configuration says so. Answers the file that is there instead,
   * locked, when it shall be overwritten. Throws FILE_EXISTS.
   */
  insert(
    transaction: Transaction,
    caller: Caller,
    placement: Placement,
    rest: Pick<NewFile, 'id' | 'size'> & Partial<Pick<NewFile, 'content' | 'pendingUpload'>>,
  ): Promise<{ readonly made: FileRow } | { readonly there: FileRow }>;
  /**
   * A new file whose bytes have arrived, with its events and counters, as one statement. Nothing where that cannot be said
   * in one: when names may change or stand for what is there, or when something stands in the way.
   */
  insertWhole(
    caller: Caller,
    placement: Placement,
    arrived: Pick<ArrivedContent, 'upload' | 'content'>,
  ): Promise<FileRow | undefined>;
}

/** Names that are tried after the highest one. */
const TRIES = 20;

export function createPlacing(parts: StorageParts, containers: Containers): Placing {
  const { database, config, access } = parts;
  const { tuples } = parts.permissions;
  const wholeFiles = createWholeFiles(parts);
  const containersSeen = createContainerLook(parts);
  const place: Placing['place'] = (caller, request) =>
    placementOf(parts, containers, caller, request);

  return {
    place,
    forget: containersSeen.forget,
    async placeFree(caller, request, atMost = Number.POSITIVE_INFINITY) {
      const before = containersSeen.before(request, atMost);
      if (before) {
        const placement = await placementOf(parts, containers, caller, request, before);
        return { ...placement, seen: { id: before._id, version: before.version } };
      }
      const seen = await containersSeen.now(caller, request);
      const placement = await placementOf(parts, containers, caller, request, seen);
      if (!seen?.taken)
        return { ...placement, room: roomOf(parts, placement.owner, seen?.ownerBytes ?? 0) };
      const { container, folder, name } = placement;
      const file = await fileAt(database, { container: container.name, folder, name });
      if (!file) return placement;
      if (!placement.overwrite) throw storageErrors.FILE_EXISTS();
      await requireEdit(access, caller, file, placement);
      return placement;
    },
    async insert(transaction, caller, placement, rest) {
      const { container, folder, overwrite } = placement;
      if (folder !== ROOT) {
        await holdPlace(transaction, placement);
        await ensureFolders(transaction, caller, { container, folder });
      }
      const file = fileOf(caller, placement, rest);
      const made = await insertFile(transaction, file, tuples);
      if (made) return { made };
      await holdPlace(transaction, placement);
      if (overwrite) {
        const there = await fileAt(transaction, file, true);
        if (!there) throw storageErrors.FILE_EXISTS();
        await requireEdit(access, caller, there, placement);
        return { there };
      }
      if (!config().suffixOnNameConflict) throw storageErrors.FILE_EXISTS();
      return { made: await insertSuffixed(transaction, file, tuples) };
    },
    insertWhole: (caller, placement, arrived) =>
      insertWhole({ ...parts, wholeFiles }, caller, placement, arrived),
  };
}

/** That a file stands there is known by its name, whoever may read it. Throws FILE_ACCESS_DENIED. */
async function requireEdit(
  access: StorageParts['access'],
  caller: Caller,
  file: FileRow,
  { scope }: Placement,
): Promise<void> {
  if (!(await access.may(caller, 'edit', file, scope))) throw mayNot('edit');
}

async function placementOf(
  { access }: StorageParts,
  containers: Containers,
  ...[caller, request, known]: [...Parameters<Placing['place']>, known?: SeenContainer | undefined]
): Promise<Placement> {
  const folder = folderOf(request.folder ?? '');
  const name =
    request.name === undefined || request.name === '' ? newId() : fileNameOf(request.name);
  requirePathLength(folder, name);
  const container = await containers.resolve(
    caller,
    request.container || undefined,
    request.isPublic,
    known,
  );
  access.requireCreate(caller, container.name);
  const owner = await access.ownerFor(caller, request.scope);
  return {
    container,
    folder,
    name,
    alias: request.alias ? aliasOf(request.alias) : undefined,
    mimeType: request.mimeType ? mediaTypeOf(request.mimeType) : undefined,
    isPublic: visibilityIn(container, request.isPublic),
    metadata: metadataOf(request.metadata),
    expiresAt: request.expiresAt,
    checksum: request.checksum,
    overwrite: request.overwrite ?? false,
    owner,
    scope: request.scope,
  };
}

/** Keeps the container, and whether it is public, until the transaction ends. Throws what has changed since the bytes began to come. */
export async function holdPlace(
  transaction: Transaction,
  { container, isPublic }: Pick<Placement, 'container' | 'isPublic'>,
): Promise<void> {
  const held = await holdContainer(transaction, container.name);
  if (!held) throw storageErrors.CONTAINER_NOT_FOUND();
  visibilityIn(held, isPublic);
}

const fileOf = (
  caller: Caller,
  placement: Placement,
  rest: Parameters<Placing['insert']>[3],
): NewFile => ({
  ...rest,
  container: placement.container.name,
  folder: placement.folder,
  name: placement.name,
  alias: placement.alias,
  isPublic: placement.isPublic,
  mimeType: placement.mimeType,
  metadata: placement.metadata,
  expiresAt: placement.expiresAt,
  owner: placement.owner,
  createdBy: authorOf(caller),
});

async function insertWhole(
  parts: StorageParts & { readonly wholeFiles: WholeFiles },
  ...[caller, placement, { upload, content }]: Parameters<Placing['insertWhole']>
): Promise<FileRow | undefined> {
  const { database, config, events, wholeFiles } = parts;
  const isPlain = content.scan === null && content.checksum !== undefined;
  const mayStay = !placement.overwrite && !config().suffixOnNameConflict;
  // A statement that fails would take the transaction around it along.
  if (!isPlain || !mayStay || database.inTransaction()) return undefined;
  const { size, mimeType } = content;
  const file = fileOf(caller, placement, { id: upload.fileId, size, content });
  const facts = { ...file, _id: file.id, mimeType };
  const [create, ready] = [fileEvent('create', facts), fileEvent('ready', facts)];
  const charge = chargeOf(parts, placement.owner);
  const isBounded = placement.container.quota !== null || (charge?.quota ?? null) !== null;
  const inRecord = await ownerInRecord(parts, caller, placement.owner);
  const made = await wholeFiles.insert(
    {
      file,
      upload,
      bytes: size,
      charge,
      seen: placement.seen,
      inRecord,
      actor: actorOf(caller),
      topics: [create.topic, ready.topic],
      payload: create.payload,
    },
    isBounded || !database.standsAlone(),
  );
  if (made) events.wake();
  return made;
}

/** Nothing where the owner is to be stored beside the file: it is another one, or permissions have to be asked. */
async function ownerInRecord(
  { permissions: { engine, tuples } }: StorageParts,
  caller: Caller,
  owner: string | null,
): Promise<CachedOwner | undefined> {
  if (owner === null || owner !== ownerOf(caller) || !tuples) return undefined;
  const cached = await engine?.cachedOwner?.(caller, fileSchema.name);
  return cached?.owner.inRecord ? cached : undefined;
}

/** Requests for one name come one after the other, so that each of them finds the highest number. */
async function insertSuffixed(
  transaction: Transaction,
  file: NewFile,
  tuples: RecordTuples | undefined,
): Promise<FileRow> {
  const { container, folder, name } = file;
  const names = partsOf(name);
  await lockNames(transaction, [container, folder, names.base, names.end].join('\n'));
  const highest = await highestSuffix(transaction, { container, folder }, names);
  for (let n = highest + 1; n <= highest + TRIES; n++) {
    const made = await insertFile(transaction, { ...file, name: suffixed(names, n) }, tuples);
    if (made) return made;
  }
  throw storageErrors.FILE_EXISTS();
}

/** Whether a file in this container is public. Throws PRIVATE_IN_PUBLIC. */
export function visibilityIn(
  { isPublic: inPublic }: Pick<ContainerRow, 'isPublic'>,
  isPublic: boolean | undefined,
): boolean {
  if (inPublic && !isPublic)
    throw storageErrors.PRIVATE_IN_PUBLIC({
      errors: [{ path: 'isPublic', rule: 'container', message: 'the container is public' }],
    });
  return isPublic ?? false;
}
