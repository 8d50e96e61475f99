import Type from 'typebox';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { defineJob, type JobDefinition } from '../jobs/jobs.ts';

/** Rows per statement: a long delete would hold its locks for as long. */
const BATCH = 5_000;

/** Forgets keys after 24 hours. Runs hourly. */
export const purgeIdempotencyKeys = (database: Database): JobDefinition =>
  defineJob({
    name: 'idempotency.purge',
    data: Type.Object({}),
    schedule: '17 * * * *',
    async handler(_data, { signal }) {
      let deleted = BATCH;
      while (deleted === BATCH && !signal.aborted) {
        const { count } = await database.query(sql`
          delete from penstock.idempotency where ctid in (
            select ctid from penstock.idempotency where created_at < now() - interval '24 hours' limit ${BATCH})`);
        deleted = count;
      }
    },
  });
