/** Runs one job: checks its data, measures, logs, and turns a failure into a retry instead of a crash. */
import type { JobResult, JobWithMetadata } from 'pg-boss';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { JobDefinition } from './jobs.ts';

export type Runner = (job: JobWithMetadata<unknown>) => Promise<JobResult>;

export interface RunnerOptions {
  readonly definition: JobDefinition;
  readonly valid: (data: unknown) => boolean;
  readonly log: Logger;
  readonly metrics: Metrics;
}

export function createRunner({ definition, valid, log, metrics }: RunnerOptions): Runner {
  const name = definition.name;
  const outcomes = metrics.counter('jobs_total', 'Attempts to run a job, by outcome', ['job', 'outcome']);
  const durations = metrics.histogram('job_duration_seconds', 'Time that an attempt took', ['job']);

  return async (job) => {
    const jobLog = log.child({ job: name, jobId: job.id, attempt: job.retryCount + 1 });
    const started = performance.now();
    try {
      if (!valid(job.data)) {
        jobLog.error({}, 'The stored data of this job does not fit its schema; it goes to the dead letters');
        outcomes.inc({ job: name, outcome: 'invalid' });
        return { id: job.id, status: 'deadletter', output: { message: 'data does not fit the schema' } };
      }
      await definition.handler(job.data, { signal: job.signal, log: jobLog });
      outcomes.inc({ job: name, outcome: 'completed' });
      return { id: job.id, status: 'completed' };
    } catch (error) {
      const last = job.retryCount >= job.retryLimit;
      outcomes.inc({ job: name, outcome: last ? 'failed' : 'retried' });
      if (last) jobLog.error({ err: error }, 'The job failed for good; it is kept with the dead letters');
      else jobLog.warn({ err: error }, 'The job failed and will be tried again');
      return { id: job.id, status: 'failed', output: { message: error instanceof Error ? error.message : String(error) } };
    } finally {
      durations.observe({ job: name }, (performance.now() - started) / 1000);
    }
  };
}
