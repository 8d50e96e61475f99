import Type from 'typebox';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { defineJob, type JobDefinition } from '../jobs/jobs.ts';

/** Rows per statement: a long delete would hold its locks for as long. */
const BATCH = 5_000;

/** Removes budgets whose window is over. Runs every ten minutes: whoever tries many names makes a row with each. */
export const purgeLimits = (database: Database): JobDefinition =>
  defineJob({
    name: 'limits.purge',
    data: Type.Object({}),
    schedule: '*/10 * * * *',
    async handler(_data, { signal }) {
      let deleted = BATCH;
      while (deleted === BATCH && !signal.aborted) {
        const { count } = await database.query(sql`
          delete from penstock.limits where ctid in (
            select ctid from penstock.limits where ends_at < now() limit ${BATCH} for update skip locked)`);
        deleted = count;
      }
    },
  });
