/** Durable background work: survives a crash, is retried, runs on one node at a time. */
import type { Static, TSchema } from 'typebox';
import type { Queryable } from '../database/database.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface JobDefinition<D extends TSchema = TSchema> {
  /** `<module>.<verb>`, unique. */
  readonly name: string;
  readonly data: D;
  /** Cron pattern (UTC) for work that recurs; such a job gets `{}`. */
  readonly schedule?: string;
  /** Attempts after the first failure; 5 unless set, with exponential backoff. */
  readonly retries?: number;
  /** Seconds that a running attempt may take; 300 unless set. One whose process was killed is lost sooner (queues.ts). */
  readonly expireInSeconds?: number;
  handler(data: Static<D>, context: JobContext): Promise<void>;
  /** Runs several at once where that costs less than one after the other. */
  readonly batch?: JobBatch<D>;
}

interface JobContext {
  readonly signal: AbortSignal;
  readonly log: Logger;
}

export interface JobBatch<D extends TSchema = TSchema> {
  /** At most so many at a time. */
  readonly size: number;
  /** Such batches of a node at a time; 2 unless set. */
  readonly atOnce?: number;
  /** Answers what went wrong, by the place of the job; what is not named is done. Throws: all of them failed. */
  handler(all: readonly Static<D>[], context: JobContext): Promise<ReadonlyMap<number, unknown>>;
}

export const defineJob = <D extends TSchema>(definition: JobDefinition<D>): JobDefinition =>
  definition as unknown as JobDefinition;

/** A job of which several run at once. */
export const defineBatchJob = <D extends TSchema>({
  batch,
  ...facts
}: Omit<JobDefinition<D>, 'handler'> & { readonly batch: JobBatch<D> }): JobDefinition =>
  defineJob<D>({
    ...facts,
    batch,
    async handler(data, context) {
      const failures = await batch.handler([data], context);
      if (failures.has(0)) throw failures.get(0);
    },
  });

export interface Jobs {
  register(definition: JobDefinition): Promise<void>;
  /** Nobody does this work any more: what is scheduled is not repeated, on no node. */
  unregister(name: string): Promise<void>;
  /** This node does this work no more, others go on: its schedule stays. */
  leave(name: string): Promise<void>;
  /** Enqueues with the change: with a transaction, the job exists only if it commits. Returns the job's id. */
  enqueue(
    name: string,
    data: Readonly<Record<string, unknown>>,
    options?: EnqueueOptions,
  ): Promise<string | null>;
  /** Many jobs of one name in one statement. */
  enqueueMany(
    name: string,
    all: readonly NewJob[],
    options?: Pick<EnqueueOptions, 'transaction'>,
  ): Promise<void>;
  /** How many of a name wait, also those whose time has not come; with `list`, how many entries this list of their data has. */
  waiting(name: string, list?: string): Promise<number>;
  status(id: string): Promise<JobStatus | undefined>;
}

export interface NewJob {
  readonly data: Readonly<Record<string, unknown>>;
  readonly startAfterSeconds?: number | undefined;
}

export interface EnqueueOptions {
  readonly transaction?: Queryable;
  readonly startAfterSeconds?: number;
  /** At most one waiting job of this name and key. */
  readonly singletonKey?: string;
}

export interface JobStatus {
  readonly id: string;
  readonly name: string;
  readonly state: 'created' | 'retry' | 'active' | 'completed' | 'cancelled' | 'failed';
  readonly attempts: number;
}
