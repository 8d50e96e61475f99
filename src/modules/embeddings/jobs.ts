/** Work of the night: what nobody needs any more goes. */
import Type from 'typebox';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { forgetUnused, purgeGone, purgeUnused } from './queries/configs.ts';
import type { EmbeddingParts } from './services/embedding-parts.ts';

const BATCH = 5_000;
/** Days after which every node knows that a record is gone. */
const GONE_DAYS = 2;

export const purgeJob = ({ database }: EmbeddingParts): JobDefinition =>
  defineJob({
    name: 'embeddings.purge',
    data: Type.Object({}),
    schedule: '*/10 * * * *',
    async handler(_, { signal }) {
      while (!signal.aborted && (await purgeUnused(database, BATCH)) > 0);
      await forgetUnused(database);
      await purgeGone(database, GONE_DAYS);
    },
  });
