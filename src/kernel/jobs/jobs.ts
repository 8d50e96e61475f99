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
  /** Seconds after which a running attempt counts as lost; 300 unless set. */
  readonly expireInSeconds?: number;
  handler(
    data: Static<D>,
    context: { readonly signal: AbortSignal; readonly log: Logger },
  ): Promise<void>;
}

export const defineJob = <D extends TSchema>(definition: JobDefinition<D>): JobDefinition =>
  definition as unknown as JobDefinition;

export interface Jobs {
  register(definition: JobDefinition): Promise<void>;
  unregister(name: string): Promise<void>;
  /** Enqueues with the change: with a transaction, the job exists only if it commits. Returns the job's id. */
  enqueue(
    name: string,
    data: Readonly<Record<string, unknown>>,
    options?: EnqueueOptions,
  ): Promise<string | null>;
  status(id: string): Promise<JobStatus | undefined>;
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
