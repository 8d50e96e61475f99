/** Storage: files, the folders and containers they stand in, and their bytes on a store. */
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import type { Caller } from '../../kernel/caller.ts';
import type { Transaction } from '../../kernel/database/database.ts';
import { authorization } from '../authorization/index.ts';
import { router } from '../router/index.ts';
import { type StorageConfig, storageConfig } from './config.ts';
import { storageErrors } from './errors.ts';
import { storageJobs } from './jobs.ts';
import { migrations } from './migrations.ts';
import { viewFields } from './operations/file-views.ts';
import { storageOperations } from './operations/storage-operations.ts';
import { hasContents } from './queries/stores.ts';
import { containerSchema, fileSchema, folderSchema } from './schemas.ts';
import {
  contentUses,
  createFileAccess,
  type FileAccess,
  type ReadReason,
  requireKnownAction,
} from './services/access.ts';
import { readableFiles } from './services/confirmed-reads.ts';
import { fileDocument } from './services/documents.ts';
import { filesInMemory } from './services/known-files.ts';
import { createLinks } from './services/links.ts';
import type { ListedFile } from './services/listing.ts';
import { measureFiles, measureTransfers, type StorageMeasures } from './services/measure.ts';
import { createModuleFiles, type ModuleFiles } from './services/module-files.ts';
import { createNodeFolders } from './services/node-folders.ts';
import {
  bareBucketOf,
  createProviderSource,
  type ProviderSource,
} from './services/provider-source.ts';
import { foldWhenBounded } from './services/quotas.ts';
import { createRecordsWithFiles } from './services/records-with-files.ts';
import { defineTypes } from './services/resource-types.ts';
import type { StorageParts } from './services/storage-parts.ts';
import { createStorageServices, type StorageServices } from './services/storage-services.ts';
import { probeStore, reachesDifferently } from './services/store-probe.ts';
import { fingerprintOf } from './services/store-settings.ts';
import { serveNotices } from './sockets.ts';
import { containerState, folderState } from './state.ts';

export { isModuleContainer } from './services/access.ts';
export { ofModulesOf, ofNoModule } from './services/listing.ts';
export type { ModuleFile, ModuleFiles } from './services/module-files.ts';

/** What other modules may ask of storage. */
export interface StorageService {
  readonly files: ModuleFiles;
  /**
   * Those of these files that are there and that the caller may read, as clients see them, by their ids. `content`: whose
   * content they may have, to give it to others.
   */
  readable(
    caller: Caller,
    ids: readonly string[],
    action?: 'read' | 'content',
  ): Promise<ReadonlyMap<string, Readonly<Record<string, unknown>>>>;
  /** A file of which the record was read, as clients see it. Asks nothing of the caller. */
  view(record: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>;
  /**
   * In the transaction that deletes these owners (`Type:id`): what becomes of their files follows its commit
   * (`deletedOwners.files`).
   */
  forgetOwners(transaction: Transaction, owners: readonly string[]): Promise<void>;
  /** Another reason to let a user read a file. Answers how to take it away. */
  onRead(reason: ReadReason): () => void;
}

/** Operations whose bounds follow the configuration. */
const owner = 'storage/operations';

export const storage = defineModule({
  name: 'storage',
  description: 'Files: uploads, downloads, folders and containers',
  requires: { router },
  uses: { authorization },
  config: storageConfig,
  schemas: [fileSchema, folderSchema, containerSchema],
  migrations,
  start,
});

type Context = ModuleContext<
  StorageConfig,
  { readonly router: typeof router },
  { readonly authorization: typeof authorization }
>;

async function start(context: Context): Promise<RunningModule<StorageService>> {
  const { kernel, config, log } = context;
  const source = createProviderSource({
    ...kernel,
    config,
    dataDir: kernel.settings.dataDir,
    log,
  });
  const parts = partsOf(context, source);
  const services = createStorageServices(parts);
  let running = true;
  const publish = (): void =>
    kernel.operations.replace(owner, running ? storageOperations(services, kernel.config) : []);
  publish();
  const stopListening = config.onChange(publish);
  const stopFolding = config.onChange((next, previous) => foldWhenBounded(parts, next, previous));
  await foldWhenBounded(parts, config.current());
  const stopNotices = serveNotices({ ...kernel, services, log });
  const endGuard = config.guard(async (next, previous, { force }) => {
    if (force || fingerprintOf(next) === fingerprintOf(previous)) return;
    if (await hasContents(kernel.database)) throw storageErrors.PROVIDER_IN_USE();
  });
  const endProbe = config.guard(async (next, previous) => {
    if (reachesDifferently(next, previous))
      await probeStore(next, {
        dataDir: kernel.settings.dataDir,
        bucketOf: (asked) => bareBucketOf(asked, asked.defaultContainer),
        log,
      });
  });
  const endRights = await serveRights(context, parts.access);
  const endAction = config.guard(async (next, previous) => {
    await requireKnownAction(kernel.permissions, next, previous);
  });
  // Uploads that come while the store is away make it then.
  await services.containers
    .ensureDefault()
    .catch((error: unknown) => log.warn({ err: error }, 'The default container is not there yet'));
  const endFolders = await watchFolders(context, source);
  return {
    service: serviceOf(services),
    operations: [],
    jobs: storageJobs(parts, services),
    state: [containerState(parts, services), folderState(parts, services)],
    async stop() {
      running = false;
      stopListening();
      stopFolding();
      stopNotices();
      endRights();
      endGuard();
      endProbe();
      endAction();
      await endFolders();
      publish();
      services.renditions.close();
      await source.close();
    },
  };
}

/** Tells when nodes keep files in folders of their own; answers how to end that. */
async function watchFolders(
  { kernel, config, log }: Context,
  { current: provider }: ProviderSource,
): Promise<() => Promise<void>> {
  const current = () => config.current();
  const { dataDir } = kernel.settings;
  const folders = createNodeFolders({ ...kernel, config: current, dataDir, provider, log });
  let running = true;
  kernel.health.register({
    name: 'storage.folder',
    run: async () => (running ? folders.check() : { status: 'pass' }),
  });
  await folders.look();
  const stopListening = config.onChange(() => folders.look());
  return async () => {
    running = false;
    stopListening();
    await folders.leave().catch(() => undefined);
  };
}

/** What the services of this module share, while it runs. */
function partsOf(context: Context, source: ProviderSource): StorageParts {
  const {
    kernel,
    config,
    services: { router: clientSurface },
    optional,
    log,
  } = context;
  const current = () => config.current();
  const recordsWithFiles = createRecordsWithFiles(kernel);
  return {
    ...kernel,
    config: current,
    provider: source.current,
    storeId: source.storeId,
    bucketOf: source.bucketOf,
    access: createFileAccess({
      config: current,
      permissions: kernel.permissions,
      recordsWithFiles,
    }),
    recordsWithFiles,
    async isRelated(object) {
      const colon = object.indexOf(':');
      const resource = { type: object.slice(0, colon), id: object.slice(colon + 1) };
      const page = { skip: 0, limit: 1, sort: '_id' };
      const found = await optional.authorization.current()?.list('any', { resource }, page);
      return found && found.tuples.length > 0;
    },
    links: createLinks({
      config: current,
      clientUrl: clientSurface.publicUrl,
      ownKey: kernel.secrets.digest('signed links', 'storage'),
    }),
    ...filesInMemory(kernel),
    measures: measuresOf(kernel),
    log,
  };
}

const serviceOf = (services: StorageServices): StorageService => ({
  files: createModuleFiles(services),
  onRead: services.access.onRead,
  forgetOwners: services.goneOwners.forget,
  view: (record) => fileDocument(record as unknown as ListedFile, services.links),
  async readable(caller, ids, action = 'read') {
    const readable = await readableFiles(services, caller, ids, action);
    return new Map(readable.map((file) => [file._id, fileDocument(file, services.links)]));
  },
});

/** What everybody sees of a file that a record holds and that they may read there. */
const fieldsInRecords: ReadonlySet<string> = new Set(viewFields);

/** Says who may see which file, and defines the types of files where relations decide; answers how to end that. */
async function serveRights(
  { kernel, config, optional, log }: Context,
  access: FileAccess,
): Promise<() => void> {
  const define = async (): Promise<void> => {
    const service = optional.authorization.current();
    if (service && config.current().authorization.enabled) await defineTypes(service, log);
  };
  kernel.permissions.rules.set(fileSchema.name, access.rows);
  kernel.permissions.uses.set('storage', () => contentUses(config.current()));
  kernel.schemas.publicViews.set(fileSchema.name, { fields: fieldsInRecords, visitors: true });
  await define();
  const ends = [
    config.onChange(() => void define()),
    optional.authorization.onChange(() => void define()),
  ];
  return () => {
    for (const end of ends) end();
    kernel.permissions.rules.delete(fileSchema.name);
    kernel.permissions.uses.delete('storage');
    kernel.schemas.publicViews.set(fileSchema.name, undefined);
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
