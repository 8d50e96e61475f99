/** What operators are told about space: who needs it, what is large, and what lies there for nothing. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { largestContainers, largestFiles, waitingSpace } from '../queries/insights.ts';
import { lastTask, type TaskRow } from '../queries/tasks.ts';
import { FileDocument, fileDocument } from '../services/documents.ts';
import type { StorageServices } from '../services/storage-services.ts';

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
  'foreignObjects',
] as const;

const Reconciled = Type.Object({
  task: Type.String({ format: 'uuid' }),
  finishedAt: Type.String({ format: 'date-time' }),
  dryRun: Type.Boolean({ description: 'Nothing of it was mended' }),
  ...Object.fromEntries(figures.map((name) => [name, Type.Integer()])),
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
];

const read = ({ database, links }: StorageServices): Operation =>
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
    async handler(_context, { query: { limit } }) {
      const [containers, files, waiting, task] = await Promise.all([
        largestContainers(database, limit),
        largestFiles(database, limit),
        waitingSpace(database),
        lastTask(database, 'reconcile'),
      ]);
      return {
        containers: containers.map(({ total, ...one }) => ({
          ...one,
          share: total === 0 ? 0 : one.size / total,
          full: one.quota === null ? null : one.size / one.quota,
        })),
        largest: files.map((file) => fileDocument(file, links)),
        ...waiting,
        reconciled: task ? reconciledOf(task) : null,
      };
    },
  });

const reconciledOf = ({ _id, finishedAt, progress }: TaskRow) => ({
  task: _id,
  finishedAt: (finishedAt ?? new Date(0)).toISOString(),
  dryRun: progress.dryRun === true,
  ...Object.fromEntries(figures.map((name) => [name, Number(progress[name] ?? 0)])),
});
