/** Operations on backfills: records that were there before their configuration. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { hasAuthority, modulesOfCaller, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { embeddingErrors } from '../errors.ts';
import { listRuns, type RunRow, runStates } from '../queries/runs.ts';
import type { Backfills } from '../services/backfills.ts';
import type { Configs } from '../services/configs.ts';
import type { EmbeddingParts } from '../services/embedding-parts.ts';
import { adminFacts, Filter, Id, Paging, RunDocument, runDocument, SchemaName } from './shapes.ts';

export const backfillOperations = (
  backfills: Backfills,
  configs: Configs,
  parts: RunParts,
): readonly Operation[] => [
  list(parts),
  start(backfills, configs),
  get(backfills, parts),
  change('cancel', 'Queue nothing more of a backfill', { backfills, ...parts }),
  change('resume', 'Go on with a backfill where it ended', { backfills, ...parts }),
];

type RunParts = Pick<EmbeddingParts, 'database' | 'schemas'>;

/** The filter of a run has values of records in it: it is shown to whoever may read these. */
function runFor({ schemas }: Pick<RunParts, 'schemas'>, caller: Caller, run: RunRow) {
  const { filter, ...document } = runDocument(run);
  const known = schemaObject(schemas.get(run.schemaName));
  const mayRead =
    known.length > 0
      ? known.every((one) => hasAuthority(caller, one))
      : modulesOfCaller(caller) === undefined;
  return filter !== undefined && mayRead ? { ...document, filter } : document;
}

const list = ({ database, schemas }: RunParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.backfills.list',
    about: { schemaName: 'open', configId: 'open' },
    method: 'GET',
    path: '/embeddings/backfills',
    input: {
      query: Type.Object({
        schemaName: Type.Optional(SchemaName),
        state: Type.Optional(Type.Enum([...runStates], { description: 'How far they are' })),
        configId: Type.Optional(
          Type.String({ format: 'uuid', description: 'Id of the configuration' }),
        ),
        ...Paging,
      }),
    },
    output: Type.Object({ runs: Type.Array(RunDocument), count: Type.Integer() }),
    summary: 'List backfills, the youngest first',
    async handler({ caller }, { query }) {
      const { rows, count } = await listRuns(database, query);
      return { runs: rows.map((run) => runFor({ schemas }, caller, run)), count };
    },
  });

const start = (backfills: Backfills, configs: Configs): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.backfills.start',
    about: { schemaName: 'schema', configId: 'inside' },
    method: 'POST',
    path: '/embeddings/backfills',
    input: {
      body: Type.Object({
        schemaName: SchemaName,
        batchSize: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 500,
            description: 'Records in one step, up to `queue.maxBatchSize`; 100 unless set',
          }),
        ),
        configId: Type.Optional(
          Type.String({ format: 'uuid', description: 'One of them; all of the schema unless set' }),
        ),
        onlyMissing: Type.Optional(
          Type.Boolean({ description: 'Only records that were never looked at' }),
        ),
        filter: Type.Optional(Filter),
      }),
    },
    output: Type.Object({
      queued: Type.Integer({ description: 'Backfills that were begun' }),
      runs: Type.Array(RunDocument),
      warnings: Type.Array(Type.String()),
    }),
    errors: [
      schemaErrors.SCHEMA_NOT_FOUND,
      embeddingErrors.CONFIG_NOT_FOUND,
      embeddingErrors.RUN_ACTIVE,
      embeddingErrors.CONFIG_DISABLED,
    ],
    summary: 'Look at all records of a schema',
    description: 'Records whose texts have vectors already cost nothing.',
    async handler({ caller }, { body: { schemaName, configId, ...options } }) {
      const all = await configs.list(schemaName);
      const chosen = all.filter(({ id }) => configId === undefined || id === configId);
      if (chosen.length === 0) throw embeddingErrors.CONFIG_NOT_FOUND();
      const enabled = chosen.filter((one) => one.enabled);
      if (enabled.length === 0) throw embeddingErrors.CONFIG_DISABLED();
      const runs = await backfills.startAll(enabled, { ...options, caller });
      const off = chosen.length - enabled.length;
      return {
        queued: runs.length,
        runs: runs.map(runDocument),
        warnings: off > 0 ? [`${off} configurations are switched off`] : [],
      };
    },
  });

const get = (backfills: Backfills, parts: RunParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.backfills.get',
    method: 'GET',
    path: '/embeddings/backfills/:id',
    input: { params: Id },
    output: RunDocument,
    errors: [embeddingErrors.RUN_NOT_FOUND],
    summary: 'Say how far a backfill is',
    handler: async ({ caller }, { params: { id } }) =>
      runFor(parts, caller, await backfills.find(id)),
  });

const change = (
  verb: 'cancel' | 'resume',
  summary: string,
  { backfills, ...parts }: RunParts & { readonly backfills: Backfills },
): Operation =>
  defineOperation({
    ...adminFacts,
    id: `embeddings.backfills.${verb}`,
    method: 'POST',
    path: `/embeddings/backfills/:id/${verb}`,
    input: { params: Id },
    output: Type.Object({ run: RunDocument }),
    errors: [
      embeddingErrors.RUN_NOT_FOUND,
      embeddingErrors.RUN_STATE_INVALID,
      embeddingErrors.RUN_ACTIVE,
    ],
    summary,
    ...(verb === 'cancel' && { description: 'What is queued already is still done.' }),
    handler: async ({ caller }, { params: { id } }) => ({
      run: runFor(parts, caller, await backfills[verb](id)),
    }),
  });
