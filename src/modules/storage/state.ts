/**
 * Containers and folders as state: what operators made, with the limits of containers, by name. Files are none, nor are
 * folders that came with uploads of users, nor containers of other modules.
 */
import Type from 'typebox';
import type { Caller } from '../../kernel/caller.ts';
import { system } from '../../kernel/caller.ts';
import type { Problem } from '../../kernel/errors.ts';
import { invalidInput } from '../../kernel/operations/problems.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateImport,
  type StateType,
  touchesNothing,
} from '../../kernel/state.ts';
import { storageErrors } from './errors.ts';
import { containerOf, folderOf, parentOf, ROOT } from './names.ts';
import { ContainerRules } from './operations/admin-containers.ts';
import {
  type ContainerChange,
  type ContainerRow,
  containerByName,
  hasPrivateFiles,
  operatorContainers,
} from './queries/containers.ts';
import {
  adoptFolder,
  type FolderRow,
  folderNamed,
  hasFilesBelow,
  insertFolders,
  operatorFolders,
} from './queries/folders.ts';
import { authorOf, isModuleContainer } from './services/access.ts';
import { requireEmptyContainer, requireTypePattern } from './services/container-admin.ts';
import { existing, type StorageParts } from './services/storage-parts.ts';
import type { StorageServices } from './services/storage-services.ts';

const unlimited: ContainerChange = {
  isPublic: false,
  maxFileSize: null,
  allowedMimeTypes: null,
  quota: null,
  lifecycle: null,
};

type ContainerState = Partial<ContainerChange> & Pick<ContainerRow, 'name'>;

/** What is not said is as if it was not there: a default of a new version changes no document. */
function containerDocument(container: ContainerState): StateDocument {
  const { name, isPublic = false, maxFileSize, allowedMimeTypes, quota, lifecycle } = container;
  return {
    name,
    isPublic,
    ...(maxFileSize != null && { maxFileSize }),
    ...(allowedMimeTypes != null && { allowedMimeTypes: [...allowedMimeTypes] }),
    ...(quota != null && { quota }),
    ...(lifecycle != null && { lifecycle }),
  };
}

export const containerState = (
  { database, config }: StorageParts,
  { containers, containerAdmin }: StorageServices,
): StateType => ({
  module: 'storage',
  type: 'containers',
  reportDamaged: true,
  priority: 25,
  document: Type.Object({
    name: Type.String({ maxLength: 100 }),
    ...ContainerRules.properties,
  }),
  keyOf: ({ name }) => String(name),
  touches: touchesNothing,
  export: async () => (await operatorContainers(database)).map(containerDocument),
  async complete(_caller, documents) {
    for (const { document, place } of documents)
      await placed(place, () => requireContainer(document as ContainerState & StateDocument));
    return documents.map(({ document }) =>
      containerDocument(document as ContainerState & StateDocument),
    );
  },
  isRemovable: ({ name }) => name !== config().defaultContainer,
  async check(_caller, changes) {
    for (const { action, key, after, place } of changes)
      await placed(place, async () => {
        const stored = await containerByName(database, key);
        if (!stored) return;
        if (action === 'delete') await requireEmptyContainer(database, stored, { trashToo: true });
        if (after?.isPublic === true && (await hasPrivateFiles(database, key)))
          throw storageErrors.PRIVATE_IN_PUBLIC({ message: `There are private files in ${key}` });
      });
  },
  async apply(caller, changes) {
    for (const { key, after } of changes) {
      const stored = await containerByName(database, key);
      if (!after) {
        if (stored) await containerAdmin.remove(caller, stored._id, false);
        continue;
      }
      const { _id } = stored ?? (await containers.create(caller, key, after.isPublic === true));
      const { name: _name, ...rules } = after;
      await containerAdmin.update(caller, _id, { ...unlimited, ...rules });
    }
  },
});

/** Throws INVALID_NAME, INVALID_MIME. */
function requireContainer({ name, allowedMimeTypes }: ContainerState): void {
  containerOf(name);
  if (isModuleContainer(name))
    throw storageErrors.INVALID_NAME({
      errors: [{ path: 'name', rule: 'name', message: 'containers of modules are theirs' }],
    });
  allowedMimeTypes?.forEach(requireTypePattern);
}

const folderDocument = ({
  name,
  container,
  isPublic,
}: Pick<FolderRow, 'name' | 'container'> & { readonly isPublic?: boolean }): StateDocument => ({
  name,
  container,
  isPublic: isPublic ?? false,
});

export const folderState = (
  { database }: StorageParts,
  { folders }: StorageServices,
): StateType => ({
  module: 'storage',
  type: 'folders',
  priority: 26,
  document: Type.Object({
    name: Type.String({ maxLength: 2_048, description: 'Path from the root of the container' }),
    container: Type.String({ maxLength: 100 }),
    isPublic: Type.Optional(Type.Boolean()),
  }),
  keyOf: ({ container, name }) => `${String(container)}: ${String(name)}`,
  touches: touchesNothing,
  export: async () => (await operatorFolders(database)).map(folderDocument),
  async complete(_caller, documents) {
    for (const { document, place } of documents) await placed(place, () => requireFolder(document));
    return documents.map(({ document }) =>
      folderDocument({
        ...(document as { container: string; isPublic?: boolean }),
        name: folderOf(String(document.name), 'name'),
      }),
    );
  },
  async check(_caller, changes, whole) {
    const problems: Problem[] = [];
    for (const change of changes) problems.push(...(await folderProblems(database, change, whole)));
    if (problems.length > 0) throw invalidInput(problems);
    for (const { action, before, place } of changes)
      if (action === 'delete' && before)
        await placed(place, () => requireEmpty(database, before, whole));
  },
  async apply(caller, changes) {
    for (const { after, before } of changes) {
      if (after) await putFolder(database, caller, folderOfState(after));
      else if (before) {
        const stored = await folderNamed(database, folderOfState(before));
        if (stored) await folders.drop(stored._id);
      }
    }
  },
});

const folderOfState = (document: StateDocument) => ({
  container: String(document.container),
  name: folderOf(String(document.name), 'name'),
  isPublic: document.isPublic === true,
});

/** Throws INVALID_NAME. */
function requireFolder({ name, container }: StateDocument): void {
  containerOf(String(container));
  if (folderOf(String(name), 'name') !== ROOT) return;
  throw storageErrors.INVALID_NAME({
    errors: [{ path: 'name', rule: 'name', message: 'must not be empty' }],
  });
}

/** A folder stands in a container that is there, or comes with the same import. */
async function folderProblems(
  database: StorageParts['database'],
  { after, place }: StateChange,
  whole: StateImport,
): Promise<readonly Problem[]> {
  if (!after) return [];
  const container = String(after.container);
  const comes = whole
    .documents('storage', 'containers')
    .some(({ document }) => document.name === container);
  if (comes || (await containerByName(database, container))) return [];
  const message = `there is no container "${container}"`;
  return [{ path: `${place}.container`, rule: 'exists', message }];
}

/** What goes must be empty, and hold no folder that stays. Throws FOLDER_NOT_EMPTY. */
async function requireEmpty(
  database: StorageParts['database'],
  before: StateDocument,
  whole: StateImport,
): Promise<void> {
  const { container, name } = folderOfState(before);
  const stored = await folderNamed(database, { container, name });
  if (!stored) return;
  const stays = whole
    .documents('storage', 'folders')
    .map(({ document }) => folderOfState(document))
    .find((one) => one.container === container && one.name.startsWith(name));
  if (stays)
    throw storageErrors.FOLDER_NOT_EMPTY({ message: `${stays.name} stays, and is in ${name}` });
  if (await hasFilesBelow(database, stored._id))
    throw storageErrors.FOLDER_NOT_EMPTY({ message: `There are files in ${name}` });
}

/** Folders above that nobody names are made along, and are not part of the state. */
const putFolder = (
  database: StorageParts['database'],
  caller: Caller,
  { container, name, isPublic }: ReturnType<typeof folderOfState>,
): Promise<void> =>
  database.transaction(async (transaction) => {
    const above = { container, name: parentOf(name), isPublic };
    const byPlatform = authorOf(system('storage.state'));
    if (above.name !== ROOT) await insertFolders(transaction, { ...above, createdBy: byPlatform });
    const createdBy = authorOf(caller);
    await insertFolders(transaction, { container, name, isPublic, createdBy });
    // One that came with an upload is the operator's from now on.
    existing(
      await adoptFolder(transaction, { container, name, isPublic, createdBy }),
      storageErrors.FOLDER_NOT_FOUND,
    );
  });
