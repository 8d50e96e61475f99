/** Background work of core. */
import Type from 'typebox';
import type { Audit } from '../../kernel/audit/audit.ts';
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

/** Once a day, audit entries go that are older than the configured time. */
export const purgeAuditLog = (audit: Audit, retentionDays: () => number): JobDefinition =>
  defineJob({
    name: 'core.purge-audit-log',
    data: Type.Object({}),
    schedule: '43 3 * * *',
    async handler(_data, { log }) {
      const count = await audit.purge(retentionDays());
      if (count > 0) log.info({ count }, 'old audit entries were deleted');
    },
  });
