/** The services of this module, as its operations and jobs use them. */

import { type Caller, system } from '../../../kernel/caller.ts';
import type { TaskRow } from '../queries/tasks.ts';
import { type ContainerAdmin, createContainerAdmin } from './container-admin.ts';
import { type Containers, createContainers } from './containers.ts';
import { type Contents, createContents } from './contents.ts';
import { createDelivery, type Delivery } from './delivery.ts';
import { createEmptying, type Emptying } from './emptying.ts';
import { createFiles, type Files } from './files.ts';
import { createFolders, type Folders } from './folders.ts';
import { createGoneOwners, type GoneOwners } from './gone-owners.ts';
import { createListing, type Listing } from './listing.ts';
import { createMigration } from './migration.ts';
import { createPlacing } from './placing.ts';
import { createReconcile } from './reconcile.ts';
import { createRenditions, type Renditions } from './renditions.ts';
import { createResumable, type Resumable } from './resumable.ts';
import { createSharedLinks, type SharedLinks } from './shared-links.ts';
import { createSignedUploads, type SignedUploads } from './signed-uploads.ts';
import type { StorageParts } from './storage-parts.ts';
import { createTasks, type Tasks, type TaskWork } from './tasks.ts';
import { createTrash, type Trash } from './trash.ts';

/* Large folders are deleted by a task, which tells how far it is. */

const createFolderRemoval =
  (emptying: Emptying, drop: Folders['drop']): TaskWork =>
  async (task, until, signal) => {
    const folderId = String(task.input.folderId);
    const caller = callerOf(task);
    let deleted = Number(task.progress.deleted ?? 0);
    for (;;) {
      const gone = await emptying.batch(caller, { folderId });
      deleted += gone;
      if (gone === 0) break;
      if (performance.now() > until || signal.aborted)
        return { progress: { deleted }, position: { folderId } };
    }
    await drop(folderId);
    return { progress: { deleted }, position: null };
  };

/** Whoever asked for it: what they may not delete stays. */
function callerOf({ input: { userId } }: TaskRow): Caller {
  if (typeof userId !== 'string') return system('storage.remove-folder');
  return {
    kind: 'user',
    userId,
    sessionId: 'storage.remove-folder',
    authenticatedAt: 0,
    complete: true,
    clientId: '',
  };
}

export interface StorageServices
  extends Pick<StorageParts, 'config' | 'access' | 'links' | 'database'> {
  readonly containers: Containers;
  readonly containerAdmin: ContainerAdmin;
  readonly tasks: Tasks;
  readonly contents: Contents;
  readonly files: Files;
  readonly signedUploads: SignedUploads;
  readonly folders: Folders;
  readonly goneOwners: GoneOwners;
  readonly listing: Listing;
  readonly delivery: Delivery;
  readonly renditions: Renditions;
  readonly resumable: Resumable;
  readonly sharedLinks: SharedLinks;
  readonly trash: Trash;
}

export function createStorageServices(parts: StorageParts): StorageServices {
  const containers = createContainers(parts);
  const contents = createContents(parts);
  const placing = createPlacing(parts, containers);
  const files = createFiles(parts, { containers, contents, placing });
  const delivery = createDelivery(parts);
  const signedUploads = createSignedUploads(parts, { contents, placing, files });
  const emptying = createEmptying(parts);
  const goneOwners = createGoneOwners(parts);
  const tasks: Tasks = createTasks(parts, {
    reconcile: createReconcile(parts, { signedUploads, goneOwners }),
    removeFolder: createFolderRemoval(emptying, (id) => folders.drop(id)),
    migrate: createMigration(parts, { containers, contents }),
  });
  const folders = createFolders(parts, { containers, emptying, startTask: tasks.start });
  return {
    ...parts,
    containers,
    contents,
    files,
    signedUploads,
    folders,
    goneOwners,
    containerAdmin: createContainerAdmin(parts, { emptying, contents, placing }),
    tasks,
    listing: createListing(parts),
    delivery,
    renditions: createRenditions(parts, delivery),
    sharedLinks: createSharedLinks(parts, { files, signedUploads }),
    trash: createTrash(parts),
    resumable: createResumable(parts, { contents, files, placing }),
  };
}
