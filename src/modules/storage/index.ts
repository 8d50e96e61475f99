/** Storage: files, the folders and containers they stand in, and their bytes on a store. */
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { router } from '../router/index.ts';
import { type StorageConfig, storageConfig } from './config.ts';
import { storageJobs } from './jobs.ts';
import { migrations } from './migrations.ts';
import { adminContainerOperations } from './operations/admin-containers.ts';
import { adminFileOperations } from './operations/admin-files.ts';
import { fileOperations } from './operations/files.ts';
import { folderOperations } from './operations/folders.ts';
import { imageOperations } from './operations/images.ts';
import { legacyOperations } from './operations/legacy.ts';
import { resumableOperations } from './operations/resumable.ts';
import { uploadOperations } from './operations/uploads.ts';
import { containerSchema, fileSchema, folderSchema } from './schemas.ts';
import { createFileAccess } from './services/access.ts';
import { createLinks } from './services/links.ts';
import { measureFiles, measureTransfers, type StorageMeasures } from './services/measure.ts';
import { createModuleFiles, type ModuleFiles } from './services/module-files.ts';
import { createProviderSource } from './services/provider-source.ts';
import { createStorageServices } from './services/storage-services.ts';

export type { ModuleFile, ModuleFiles } from './services/module-files.ts';

/** What other modules may ask of storage. */
export interface StorageService {
  readonly files: ModuleFiles;
}

/** Operations whose bounds follow the configuration. */
const owner = 'storage/operations';

export const storage = defineModule({
  name: 'storage',
  description: 'Files: uploads, downloads, folders and containers',
  requires: { router },
  config: storageConfig,
  schemas: [fileSchema, folderSchema, containerSchema],
  migrations,
  start,
});

async function start({
  kernel,
  config,
  services: { router: clientSurface },
  log,
}: ModuleContext<StorageConfig, { readonly router: typeof router }>): Promise<
  RunningModule<StorageService>
> {
  const current = () => config.current();
  const source = createProviderSource({ config, dataDir: kernel.settings.dataDir, log });
  const parts = {
    ...kernel,
    config: current,
    provider: source.current,
    bucketOf: source.bucketOf,
    access: createFileAccess(current),
    links: createLinks({
      config: current,
      clientUrl: clientSurface.publicUrl,
      ownKey: kernel.secrets.digest('signed links', 'storage'),
    }),
    measures: measuresOf(kernel),
    log,
  };
  const services = createStorageServices(parts);
  let running = true;
  const publish = (): void =>
    kernel.operations.replace(
      owner,
      running
        ? [
            ...uploadOperations(services),
            ...fileOperations(services),
            ...folderOperations(services),
            ...imageOperations(services),
            ...resumableOperations(services),
            ...adminFileOperations(services),
            ...adminContainerOperations(services),
            ...legacyOperations(services, kernel.config),
          ]
        : [],
    );
  publish();
  const stopListening = config.onChange(publish);
  // Uploads that come while the store is away make it then.
  await services.containers
    .ensureDefault()
    .catch((error: unknown) => log.warn({ err: error }, 'The default container is not there yet'));
  return {
    service: { files: createModuleFiles(services) },
    operations: [],
    jobs: storageJobs(parts, services),
    async stop() {
      running = false;
      stopListening();
      publish();
      services.renditions.close();
      await source.close();
    },
  };
}

/** Figures belong to the process, also while the module is switched off and on. */
const measured = new WeakMap<Kernel, StorageMeasures>();

function measuresOf(kernel: Kernel): StorageMeasures {
  const known = measured.get(kernel);
  if (known) return known;
  measureFiles(kernel);
  const measures = measureTransfers(kernel);
  measured.set(kernel, measures);
  return measures;
}
