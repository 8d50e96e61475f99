/** Clean-up: records of runs whose time is over. */
import Type from 'typebox';
import type { Database } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import type { FunctionsConfig } from './config.ts';
import { crowdedFunctions, deleteBeyond, deleteExpired } from './queries/executions.ts';

interface Parts {
  readonly database: Database;
  readonly config: () => FunctionsConfig;
}

/** Rows of one statement. */
const BATCH = 1_000;

export const cleanUpJob = ({ database, config }: Parts): JobDefinition =>
  defineJob({
    name: 'functions.clean-up',
    data: Type.Object({}),
    schedule: '7,37 * * * *',
    async handler(_data, { signal }) {
      const { retention } = config();
      await inBatches(signal, () => deleteExpired(database, { ...retention, max: BATCH }));
      const keep = retention.maxPerFunction;
      for (const id of await crowdedFunctions(database, keep))
        await inBatches(signal, () => deleteBeyond(database, { id, keep, max: BATCH }));
      await database.query(sql`delete from penstock.function_receipts where ends_at < now()`);
    },
  });

async function inBatches(signal: AbortSignal, work: () => Promise<number>): Promise<void> {
  for (let count = 1; count > 0 && !signal.aborted; ) count = await work();
}
