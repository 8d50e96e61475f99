/** What the operations of embeddings share. */
import Type, { type Static } from 'typebox';
import { standardLimit } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { providers, type Similarity } from '../model.ts';
import type { ConfigRow, GenerationRow } from '../queries/configs.ts';
import { type RunRow, runStates } from '../queries/runs.ts';

export const adminFacts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
export const Id = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });
export const SchemaName = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'Name of the schema',
});
export const TargetField = Type.String({ pattern: '^[A-Za-z][A-Za-z0-9_]{0,62}$' });
export const Paging = {
  ...pagingQuery({ maxLimit: 100 }),
};
export const similarities: Similarity[] = ['cosine', 'euclidean', 'dotProduct'];
export const Filter = Type.Unknown({ description: 'Conditions in the operator language' });
/** Text search configurations that every PostgreSQL from 15 on has. */
export const languages = [
  'simple',
  'arabic',
  'armenian',
  'basque',
  'catalan',
  'danish',
  'dutch',
  'english',
  'finnish',
  'french',
  'german',
  'greek',
  'hindi',
  'hungarian',
  'indonesian',
  'irish',
  'italian',
  'lithuanian',
  'nepali',
  'norwegian',
  'portuguese',
  'romanian',
  'russian',
  'serbian',
  'spanish',
  'swedish',
  'tamil',
  'turkish',
  'yiddish',
] as const;

const moment = Type.String({ format: 'date-time' });
const optionalMoment = Type.Union([moment, Type.Null()]);

const RecipeDocument = Type.Object({
  sourceFields: Type.Array(Type.String()),
  provider: Type.String(),
  model: Type.String(),
  dimensions: Type.Integer(),
  similarity: Type.String(),
  language: Type.String(),
  queryPrefix: Type.String({ description: 'Stands before texts that are searched for' }),
  passagePrefix: Type.String({ description: 'Stands before texts of records' }),
  fieldOptions: Type.Record(
    Type.String(),
    Type.Object({
      weight: Type.Optional(Type.Number()),
      language: Type.Optional(Type.String()),
    }),
  ),
});

export const ConfigDocument = Type.Object({
  id: Type.String(),
  schemaName: Type.String(),
  targetField: Type.String({ description: 'Name by which searches choose it' }),
  ...RecipeDocument.properties,
  enabled: Type.Boolean(),
  generation: Type.String({ description: 'Id of the generation of vectors that is searched' }),
  next: Type.Union([RecipeDocument, Type.Null()], {
    description: 'Made beside the one that is searched; comes in its place when it is complete',
  }),
  createdAt: moment,
  updatedAt: moment,
});

const recipeDocument = (generation: GenerationRow): Static<typeof RecipeDocument> => ({
  sourceFields: [...generation.sourceFields],
  provider: generation.provider,
  model: generation.model,
  dimensions: generation.dimensions,
  similarity: generation.similarity,
  language: generation.language,
  queryPrefix: generation.queryPrefix,
  passagePrefix: generation.passagePrefix,
  fieldOptions: { ...generation.fieldOptions },
});

export const configDocument = (row: ConfigRow): Static<typeof ConfigDocument> => ({
  id: row.id,
  schemaName: row.schemaName,
  targetField: row.targetField,
  ...recipeDocument(row.current),
  enabled: row.enabled,
  generation: row.current.id,
  next: row.next && recipeDocument(row.next),
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});

export const Provider = Type.Enum([...providers], {
  description: 'Who makes the vectors; none: words alone',
});

export const RunDocument = Type.Object({
  id: Type.String(),
  schemaName: Type.String(),
  configId: Type.String(),
  state: Type.Enum([...runStates]),
  batchSize: Type.Integer(),
  onlyMissing: Type.Boolean(),
  filter: Type.Optional(Type.Unknown()),
  scannedCount: Type.Integer({ description: 'Records that were seen' }),
  queuedCount: Type.Integer({ description: 'Of these, those that were to be looked at' }),
  processedCount: Type.Integer({ description: 'Of these, those that are done' }),
  failedCount: Type.Integer({ description: 'Of these, those that were given up' }),
  error: Type.Union([Type.String(), Type.Null()]),
  startedAt: optionalMoment,
  finishedAt: optionalMoment,
  createdAt: moment,
  updatedAt: moment,
});

export const runDocument = (run: RunRow): Static<typeof RunDocument> => ({
  id: run.id,
  schemaName: run.schemaName,
  configId: run.configId,
  state: run.state,
  batchSize: run.batchSize,
  onlyMissing: run.onlyMissing,
  ...(run.filter !== null && { filter: run.filter }),
  scannedCount: run.scannedCount,
  queuedCount: run.queuedCount,
  processedCount: Math.max(0, run.queuedCount - run.waitingCount - run.failedCount),
  failedCount: run.failedCount,
  error: run.error,
  startedAt: run.startedAt?.toISOString() ?? null,
  finishedAt: run.finishedAt?.toISOString() ?? null,
  createdAt: run.createdAt.toISOString(),
  updatedAt: run.updatedAt.toISOString(),
});
