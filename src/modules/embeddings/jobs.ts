/** Work beside requests: what is no longer needed goes, and indexes of the database follow their vectors. */
import Type from 'typebox';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { allConfigs, forgetUnused, purgeGone, purgeUnused } from './queries/configs.ts';
import { keepDatabaseIndexes } from './scan/pgvector-index.ts';
import { type EmbeddingParts, purgeJobName } from './services/embedding-parts.ts';

const BATCH = 5_000;
/** Days after which every node knows that a record is gone. */
const GONE_DAYS = 2;

export const purgeJob = ({ database }: EmbeddingParts): JobDefinition =>
  defineJob({
    name: purgeJobName,
    data: Type.Object({}),
    schedule: '*/10 * * * *',
    async handler(_, { signal }) {
      while (!signal.aborted && (await purgeUnused(database, BATCH)) > 0);
      await forgetUnused(database);
      await purgeGone(database, GONE_DAYS);
    },
  });

/** On servers with pgvector. Says in the log what the database refuses; then vectors are searched in memory. */
export const indexJob = (parts: EmbeddingParts): JobDefinition =>
  defineJob({
    name: 'embeddings.index',
    data: Type.Object({}),
    schedule: '* * * * *',
    async handler(_, { signal }) {
      const configs = (await allConfigs(parts.database)).filter(({ enabled }) => enabled);
      const generations = configs.flatMap(({ current, next }) => [
        current,
        ...(next ? [next] : []),
      ]);
      if (generations.length === 0 || !parts.config().enabled) return;
      try {
        await keepDatabaseIndexes(parts, generations, signal);
      } catch (error) {
        parts.log.warn({ err: error }, 'pgvector cannot be used: vectors are searched in memory');
      }
    },
  });
