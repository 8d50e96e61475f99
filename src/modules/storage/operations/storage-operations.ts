/** All operations of this module, with the bounds that the configuration gives them now. */
import type { ConfigService } from '../../../kernel/config/config-service.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { adminContainerOperations } from './admin-containers.ts';
import { adminFileOperations } from './admin-files.ts';
import { adminFolderOperations } from './admin-folders.ts';
import { fileChangeOperations } from './file-changes.ts';
import { fileViewOperations } from './file-views.ts';
import { fileOperations } from './files.ts';
import { folderOperations } from './folders.ts';
import { imageOperations } from './images.ts';
import { insightOperations } from './insights.ts';
import { legacyOperations } from './legacy.ts';
import { linkOperations } from './links.ts';
import { resumableOperations } from './resumable.ts';
import { taskOperations } from './tasks.ts';
import { trashOperations } from './trash.ts';
import { uploadOperations } from './uploads.ts';

export const storageOperations = (
  services: StorageServices,
  config: ConfigService,
): readonly Operation[] => [
  ...uploadOperations(services),
  ...fileOperations(services),
  ...fileViewOperations(services),
  ...fileChangeOperations(services),
  ...linkOperations(services),
  ...trashOperations(services),
  ...folderOperations(services),
  ...imageOperations(services),
  ...resumableOperations(services),
  ...adminFileOperations(services),
  ...adminFolderOperations(services),
  ...adminContainerOperations(services),
  ...insightOperations(services),
  ...taskOperations(services),
  ...legacyOperations(services, config),
];
