/** Background work of core. */
import Type from 'typebox';
import type { Database } from '../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { deleteLongExpiredTokens } from './queries/api-tokens.ts';

/** Once a day, API tokens that expired 30 days ago go. */
export const purgeApiTokens = (database: Database): JobDefinition =>
  defineJob({
    name: 'core.purge-api-tokens',
    data: Type.Object({}),
    schedule: '17 3 * * *',
    async handler(_data, { log }) {
      const count = await deleteLongExpiredTokens(database);
      if (count > 0) log.info({ count }, 'long expired API tokens were deleted');
    },
  });
