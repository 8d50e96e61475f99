/** What operators are told about space: who needs it, what is large, and what lies there for nothing. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import { largestOwners } from '../queries/counters.ts';
import { largestContainers, largestFiles, waitingSpace } from '../queries/insights.ts';
import { lastTask, type TaskRow } from '../queries/tasks.ts';
import { moduleContainersOf } from '../services/access.ts';
import { FileDocument, fileDocument } from '../services/documents.ts';
import { ownerUsage, usageWith } from '../services/quotas.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { scopeField } from './shapes.ts';

const whole = (description: string) => Type.Integer({ minimum: 0, description });
const Amount = Type.Object({ files: whole('Files'), size: whole('Bytes') });

/** Figures of a reconciliation that people ask for first. */
const figures = [
  'orphanObjects',
  'orphanBytes',
  'missingObjects',
  'expiredUploads',
  'wrongCounters',
  'missingBuckets',
  'goneOwners',
  'foreignObjects',
] as const;

const Reconciled = Type.Object({
  task: Type.String({ format: 'uuid' }),
  finishedAt: Type.String({ format: 'date-time' }),
  dryRun: Type.Boolean({ description: 'Nothing of it was repaired' }),
  ...Object.fromEntries(figures.map((name) => [name, Type.Integer()])),
});

const bytesOr = (description: string) =>
  Type.Union([Type.Integer({ minimum: 0, wide: true }), Type.Null()], { description });
const Usage = Type.Object({
  owner: Type.String({ description: '`Type:id`, such as `User:<id>`' }),
  files: whole('Files, those in the trash included'),
  size: Type.Integer({ minimum: 0, wide: true, description: 'Bytes' }),
  quota: bytesOr('Bytes that they may have; null: any number'),
  left: bytesOr('Bytes that are left; null: any number'),
});

const Insights = Type.Object({
  containers: Type.Array(
    Type.Object({
      name: Type.String(),
      ...Amount.properties,
      share: Type.Number({ description: 'Part of all bytes, 0 to 1' }),
      quota: Type.Union([Type.Integer(), Type.Null()]),
      full: Type.Union([Type.Number(), Type.Null()], {
        description: 'Part of its quota, 0 to 1; null: it has none',
      }),
    }),
    { description: 'The largest first' },
  ),
  owners: Type.Array(Usage, {
    description: 'Users and teams that need the most, with what is in the trash',
  }),
  largest: Type.Array(FileDocument),
  trash: Amount,
  uploads: whole('Contents that are expected, or on their way'),
  resumable: Type.Object(Amount.properties, { description: 'Uploads that are not complete' }),
  failed: whole('Files without a usable content'),
  reconciled: Type.Union([Reconciled, Type.Null()], {
    description:
      'What the last `POST /storage/reconcile` found: contents without a file (orphans), files without their content; null: it has not run',
  }),
});

export const insightOperations = (services: StorageServices): readonly Operation[] => [
  read(services),
  usage(services),
  usageOfOwner(services),
];

const read = ({ database, links, config }: StorageServices): Operation =>
  defineOperation({
    id: 'storage.insights.get',
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    method: 'GET',
    path: '/storage/insights',
    heavy: true,
    input: {
      query: Type.Object({
        limit: Type.Integer({
          default: 20,
          minimum: 1,
          maximum: 100,
          description: 'Containers and files that are named',
        }),
      }),
    },
    output: Insights,
    summary: 'Say what needs space in the stores, and what lies there for nothing',
    description: 'From counters and indexes: the store itself is not asked.',
    async handler({ caller }, { query: { limit } }) {
      // Adds up what was written down, for the others too.
      const containers = await largestContainers(database, limit);
      const [owners, files, waiting, task] = await Promise.all([
        largestOwners(database, limit),
        largestFiles(database, limit, moduleContainersOf(caller)),
        waitingSpace(database),
        lastTask(database, 'reconcile'),
      ]);
      return {
        containers: containers.map(({ total, ...one }) => ({
          ...one,
          share: total === 0 ? 0 : one.size / total,
          full: one.quota === null ? null : one.size / one.quota,
        })),
        owners: owners.map((one) => usageWith(config(), one)),
        largest: files.map((file) => fileDocument(file, links)),
        ...waiting,
        reconciled: task ? reconciledOf(task) : null,
      };
    },
  });

const usage = (services: StorageServices): Operation =>
  defineOperation({
    id: 'storage.usage.get',
    surface: 'client',
    access: 'user',
    limit: standardLimit,
    method: 'GET',
    path: '/storage/usage',
    input: { query: Type.Object(scopeField) },
    output: Usage,
    errors: [storageErrors.FILE_ACCESS_DENIED],
    summary: 'Say how much space your files need, and how much you have left',
    description:
      'With `scope` that of a team whose files you may edit. Files in the trash count until they are gone for good.',
    async handler({ caller }, { query: { scope } }) {
      const owner = await services.access.ownerFor(caller, scope);
      if (owner === null) throw storageErrors.FILE_ACCESS_DENIED();
      return ownerUsage(services, owner);
    },
  });

const usageOfOwner = (services: StorageServices): Operation =>
  defineOperation({
    id: 'storage.adminUsage.get',
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    method: 'GET',
    path: '/storage/usage/:subject',
    input: {
      params: Type.Object({
        subject: Type.String({
          maxLength: 300,
          pattern: '^[^:]{1,100}:.{1,199}$',
          description: '`Type:id`, such as `User:<id>`',
        }),
      }),
    },
    output: Usage,
    summary: 'Say how much space the files of a user or a team need',
    description: 'An owner without files needs none, whether there is such an owner or not.',
    handler: async (_context, { params: { subject } }) => ownerUsage(services, subject),
  });

const reconciledOf = ({ _id, finishedAt, progress }: TaskRow) => ({
  task: _id,
  finishedAt: (finishedAt ?? new Date(0)).toISOString(),
  dryRun: progress.dryRun === true,
  ...Object.fromEntries(figures.map((name) => [name, Number(progress[name] ?? 0)])),
});
