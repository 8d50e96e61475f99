/** The job that makes the indexes that were left for later. */
import Type from 'typebox';
import type { Database } from '../database/database.ts';
import { defineJob, type JobDefinition, type Jobs } from '../jobs/jobs.ts';
import type { Logger } from '../telemetry/logger.ts';
import { buildIndexes } from './index-builds.ts';

const name = 'schemas.build-indexes';
/** An index over hundreds of millions of records takes hours. */
const LONGEST_SECONDS = 12 * 3600;

/** Also runs by the clock, so that what a crash left behind is finished. */
export const createIndexJob = ({ database, log }: { readonly database: Database; readonly log: Logger }): JobDefinition =>
  defineJob({
    name,
    data: Type.Object({}),
    schedule: '* * * * *',
    retries: 0,
    expireInSeconds: LONGEST_SECONDS,
    handler: (_, { signal }) => buildIndexes({ database, log, signal }),
  });

/** Starts it soon. A failure costs nothing but time: the schedule starts it too. */
export function enqueueIndexJob(jobs: Jobs, log: Logger): void {
  jobs.enqueue(name, {}, { singletonKey: name }).catch((error: unknown) => log.warn({ err: error }, 'The making of indexes starts later'));
}
