/** Runs jobs: checks their data, measures, logs, and turns a failure into a retry instead of a crash. */
import type { JobResult, JobWithMetadata } from 'pg-boss';
import { causedThen } from '../hooks/hooks.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { redactText } from '../telemetry/redact.ts';
import { partsOfData } from './job-causes.ts';
import type { JobDefinition } from './jobs.ts';

type StoredJob = JobWithMetadata<unknown>;
/** Runs what one look at the queue has brought; answers how each job ended. */
export type Runner = (jobs: StoredJob[]) => Promise<JobResult[]>;

interface RunnerOptions {
  readonly definition: JobDefinition;
  readonly valid: (data: unknown) => boolean;
  readonly log: Logger;
  readonly metrics: Metrics;
}

export function createRunner(options: RunnerOptions): Runner {
  const { definition, valid, log, metrics } = options;
  const { name, batch } = definition;
  const durations = metrics.histogram('job_duration_seconds', 'Time that an attempt took', ['job']);
  const { completed, failed, invalid, logOf } = createEndings(options);

  const measured = async <T>(work: () => Promise<T>): Promise<T> => {
    const started = performance.now();
    try {
      return await work();
    } finally {
      durations.observe({ job: name }, (performance.now() - started) / 1000);
    }
  };
  const runOne = async (job: StoredJob): Promise<JobResult> => {
    try {
      const { data, causes } = partsOfData(job.data);
      const context = { signal: job.signal, log: logOf(job) };
      await measured(() => causedThen(causes, () => definition.handler(data, context)));
      return completed(job);
    } catch (error) {
      return failed(job, error);
    }
  };
  const runTogether = async (jobs: readonly StoredJob[]): Promise<JobResult[]> => {
    const [first] = jobs;
    if (!first || !batch) return [];
    const context = { signal: first.signal, log: log.child({ job: name }) };
    const all = jobs.map(({ data }) => partsOfData(data).data);
    try {
      const failures = await measured(() => batch.handler(all, context));
      return jobs.map((job, place) =>
        failures.has(place) ? failed(job, failures.get(place)) : completed(job),
      );
    } catch (error) {
      return jobs.map((job) => failed(job, error));
    }
  };

  return async (jobs) => {
    const { fit = [], unfit = [] } = Object.groupBy(jobs, ({ data }) =>
      valid(partsOfData(data).data) ? 'fit' : 'unfit',
    );
    const results = batch ? await runTogether(fit) : await Promise.all(fit.map(runOne));
    return [...results, ...unfit.map(invalid)];
  };
}

/** What the queue is told of a job, counted and logged. */
function createEndings({ definition: { name }, log, metrics }: RunnerOptions) {
  const outcomes = metrics.counter('jobs_total', 'Attempts to run a job, by outcome', [
    'job',
    'outcome',
  ]);
  const logOf = (job: StoredJob): Logger =>
    log.child({ job: name, jobId: job.id, attempt: job.retryCount + 1 });
  return {
    logOf,
    completed(job: StoredJob): JobResult {
      outcomes.inc({ job: name, outcome: 'completed' });
      return { id: job.id, status: 'completed' };
    },
    failed(job: StoredJob, error: unknown): JobResult {
      const last = job.retryCount >= job.retryLimit;
      outcomes.inc({ job: name, outcome: last ? 'failed' : 'retried' });
      if (last)
        logOf(job).error(
          { err: error },
          'The job failed for good; it is kept with the dead letters',
        );
      else logOf(job).warn({ err: error }, 'The job failed and will be tried again');
      const message = error instanceof Error ? error.message : String(error);
      return { id: job.id, status: 'failed', output: { message: redactText(message) } };
    },
    invalid(job: StoredJob): JobResult {
      logOf(job).error(
        {},
        'The stored data of this job does not fit its schema; it goes to the dead letters',
      );
      outcomes.inc({ job: name, outcome: 'invalid' });
      const output = { message: 'data does not fit the schema' };
      return { id: job.id, status: 'deadletter', output };
    },
  };
}
