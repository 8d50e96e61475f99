/** The services of this module, as its operations and jobs use them. */
import { type ContainerAdmin, createContainerAdmin } from './container-admin.ts';
import { type Containers, createContainers } from './containers.ts';
import { type Contents, createContents } from './contents.ts';
import { createDelivery, type Delivery } from './delivery.ts';
import { createEmptying } from './emptying.ts';
import { createFiles, type Files } from './files.ts';
import { createFolderRemoval } from './folder-removal.ts';
import { createFolders, type Folders } from './folders.ts';
import { createListing, type Listing } from './listing.ts';
import { createMigration } from './migration.ts';
import { createPlacing } from './placing.ts';
import { createReconcile } from './reconcile.ts';
import { createRenditions, type Renditions } from './renditions.ts';
import { createResumable, type Resumable } from './resumable.ts';
import { createSharedLinks, type SharedLinks } from './shared-links.ts';
import { createSignedUploads, type SignedUploads } from './signed-uploads.ts';
import type { StorageParts } from './storage-parts.ts';
import { createTasks, type Tasks } from './tasks.ts';
import { createTrash, type Trash } from './trash.ts';

export interface StorageServices
  extends Pick<StorageParts, 'config' | 'access' | 'links' | 'database'> {
  readonly containers: Containers;
  readonly containerAdmin: ContainerAdmin;
  readonly tasks: Tasks;
  readonly contents: Contents;
  readonly files: Files;
  readonly signedUploads: SignedUploads;
  readonly folders: Folders;
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
  const tasks: Tasks = createTasks(parts, {
    reconcile: createReconcile(parts, signedUploads),
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
    containerAdmin: createContainerAdmin(parts, emptying),
    tasks,
    listing: createListing(parts),
    delivery,
    renditions: createRenditions(parts, delivery),
    sharedLinks: createSharedLinks(parts, files),
    trash: createTrash(parts),
    resumable: createResumable(parts, { contents, files, placing }),
  };
}
