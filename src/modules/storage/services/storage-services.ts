/** The services of this module, as its operations and jobs use them. */
import { type ContainerAdmin, createContainerAdmin } from './container-admin.ts';
import { type Containers, createContainers } from './containers.ts';
import { type Contents, createContents } from './contents.ts';
import { createDelivery, type Delivery } from './delivery.ts';
import { createFiles, type Files } from './files.ts';
import { createFolders, type Folders } from './folders.ts';
import { createListing, type Listing } from './listing.ts';
import { createPlacing } from './placing.ts';
import { createReconcile } from './reconcile.ts';
import { createRenditions, type Renditions } from './renditions.ts';
import { createResumable, type Resumable } from './resumable.ts';
import { createSignedUploads, type SignedUploads } from './signed-uploads.ts';
import type { StorageParts } from './storage-parts.ts';
import { createTasks, type Tasks } from './tasks.ts';

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
}

export function createStorageServices(parts: StorageParts): StorageServices {
  const containers = createContainers(parts);
  const contents = createContents(parts);
  const placing = createPlacing(parts, containers);
  const files = createFiles(parts, { containers, contents, placing });
  const delivery = createDelivery(parts);
  const signedUploads = createSignedUploads(parts, { contents, placing, files });
  const folders = createFolders(parts, { containers, files });
  return {
    ...parts,
    containers,
    contents,
    files,
    signedUploads,
    folders,
    containerAdmin: createContainerAdmin(parts, folders),
    tasks: createTasks(parts, { reconcile: createReconcile(parts, signedUploads) }),
    listing: createListing(parts),
    delivery,
    renditions: createRenditions(parts, delivery),
    resumable: createResumable(parts, { contents, files, placing }),
  };
}
