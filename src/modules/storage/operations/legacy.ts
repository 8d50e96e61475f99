/** The admin routes of the 0.16 line: other forms of the same answers. */
import Type from 'typebox';
import type { ConfigService } from '../../../kernel/config/config-service.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import { FileList, filePage } from '../services/documents.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { Totals, totalsOf } from './admin-containers.ts';
import { FolderList, folderFilter, folderPage } from './admin-folders.ts';
import { filterFields, pageOf } from './shapes.ts';

const facts = {
  surface: 'admin',
  access: 'masterKey',
  limit: standardLimit,
  legacy: true,
  mcp: false,
  graphql: false,
} as const;
const MODULE = 'storage';

export const legacyOperations = (
  services: StorageServices,
  config: ConfigService,
): readonly Operation[] => [
  files(services),
  folders(services),
  stats(services),
  readConfig(config),
  writeConfig(config),
];

const count = Type.Integer();

const files = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.legacy.files',
    method: 'GET',
    path: '/admin/storage/files',
    heavy: true,
    input: { query: Type.Object({ ...pageOf(services), ...filterFields }) },
    output: Type.Object({ ...FileList.properties, filesCount: Type.Integer(), count }),
    errors: [storageErrors.INVALID_NAME],
    summary: 'List files',
    async handler({ caller }, { query }) {
      const { filesCount = 0, ...page } = filePage(
        await services.listing.files(caller, query),
        services.links,
      );
      return { ...page, filesCount, count: filesCount };
    },
  });

const folders = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.legacy.folders',
    method: 'GET',
    path: '/admin/storage/folders',
    input: { query: Type.Object({ ...pageOf(services), ...folderFilter }) },
    output: Type.Object({ ...FolderList.properties, count }),
    errors: [storageErrors.INVALID_NAME],
    summary: 'List folders',
    async handler({ caller }, { query }) {
      const page = await folderPage(services, caller, query);
      return { ...page, count: page.folderCount };
    },
  });

const stats = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.legacy.stats',
    method: 'GET',
    path: '/admin/storage/stats',
    heavy: true,
    input: {},
    output: Totals,
    summary: 'Count files and bytes',
    handler: () => totalsOf(services),
  });

const Tree = Type.Record(Type.String(), Type.Unknown(), {
  description: 'The configuration; secrets are masked',
});

const readConfig = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.legacy.config',
    method: 'GET',
    path: '/admin/storage/config',
    input: {},
    output: Tree,
    summary: 'Read the configuration of files',
    handler: async ({ caller }) => (await config.read(caller, MODULE)).config,
  });

const writeConfig = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.legacy.setConfig',
    method: 'PUT',
    path: '/admin/storage/config',
    idempotency: false,
    auditChanges: ({ body }) =>
      config.maskPatch(MODULE, typeof body === 'object' && body ? { ...body } : {}),
    input: { body: Tree },
    output: Tree,
    summary: 'Change the configuration of files',
    description: 'Keys that are left out stay as they are.',
    handler: async ({ caller }, { body }) => (await config.change(caller, MODULE, body)).config,
  });
