/**
 * Budgets that no restart and no further node gives anew: guesses at passwords and codes, messages
 * that cost money. They are counted in the database, one row per bucket and key.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import Type from 'typebox';
import type { Database } from '../database/database.ts';
import { shortSql, sql } from '../database/sql.ts';
import type { PenstockError } from '../errors.ts';
import { defineJob, type JobDefinition } from '../jobs/jobs.ts';
import { identityErrors } from '../security/identity-errors.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { LimitBucket, LimitState } from './limits.ts';

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

/** One point of a budget. */
export interface Claim {
  readonly bucket: LimitBucket;
  readonly key: string;
  /** When this budget is spent, the claims after it are left alone. */
  readonly stops?: boolean;
}

export interface DurableLimits {
  /** Takes one point. Atomic over all nodes. Counts also when the transaction around it is rolled back. */
  consume(bucket: LimitBucket, key: string): Promise<LimitState>;
  /** Takes one point of each budget that is not spent, in order and in one statement. Ends after a spent one that `stops`. */
  consumeAll(claims: readonly Claim[]): Promise<readonly LimitState[]>;
  /** Reads without taking. */
  peek(bucket: LimitBucket, key: string): Promise<LimitState>;
  /** Gives everything back, as after a right password. */
  reset(...claims: readonly Pick<Claim, 'bucket' | 'key'>[]): Promise<void>;
}

interface Taken {
  readonly allowed: boolean;
  readonly taken: number;
  readonly reset_ms: number;
}

interface DurableLimitsOptions {
  readonly database: Database;
  readonly metrics: Metrics;
}

/** The table and the function of migrations.ts must exist. */
export function createDurableLimits({ database, metrics }: DurableLimitsOptions): DurableLimits {
  // A refused guess fails its transaction; what it cost must stay.
  const outside = AsyncLocalStorage.snapshot();
  const refusals = metrics.counter(
    'durable_limits_refused_total',
    'Guesses and messages refused because a budget was used up',
    ['bucket'],
  );

  const consumeAll = async (claims: readonly Claim[]): Promise<readonly LimitState[]> => {
    const { rows } = await outside(() =>
      database.query<Taken>(shortSql`
        with states as (select * from penstock.take_limits(${claims.map(({ bucket }) => bucket.name)}::text[],
          ${claims.map(({ key }) => key)}::text[], ${claims.map(({ bucket }) => bucket.requests)}::integer[],
          ${claims.map(({ bucket }) => bucket.seconds)}::float8[], ${claims.map(({ stops = false }) => stops)}::boolean[]))
        select allowed, taken, reset_ms from states`),
    );
    return claims.slice(0, rows.length).map(({ bucket }, index) => {
      const { allowed = false, taken = 0, reset_ms = 0 } = rows[index] ?? {};
      if (!allowed) refusals.inc({ bucket: bucket.name });
      return {
        allowed,
        remaining: Math.max(0, bucket.requests - taken),
        resetMs: Math.max(0, Math.ceil(reset_ms)),
      };
    });
  };

  return {
    consumeAll,
    async consume(bucket, key) {
      const [state] = await consumeAll([{ bucket, key }]);
      if (!state) throw new Error('The database did not answer what is left of a budget');
      return state;
    },
    async peek(bucket, key) {
      const { rows } = await outside(() =>
        database.query<Pick<Taken, 'taken' | 'reset_ms'>>(shortSql`
          select used as taken, extract(epoch from ends_at - now())::float8 * 1000 as reset_ms from penstock.limits
          where bucket = ${bucket.name} and key = ${key} and ends_at > now()`),
      );
      const { taken = 0, reset_ms = 0 } = rows[0] ?? {};
      return {
        allowed: taken < bucket.requests,
        remaining: Math.max(0, bucket.requests - taken),
        resetMs: Math.ceil(reset_ms),
      };
    },
    async reset(...claims) {
      const names = claims.map(({ bucket }) => bucket.name);
      const keys = claims.map(({ key }) => key);
      await outside(() =>
        database.query(shortSql`
          delete from penstock.limits using unnest(${names}::text[], ${keys}::text[]) as given(bucket, key)
          where limits.bucket = given.bucket and limits.key = given.key`),
      );
    },
  };
}

/*
 * Quotas of attempts at a password or a code. An attempt is paid for before it is looked at, so that parallel guesses
 * cannot exceed the quota; a success gives everything back.
 */

export interface AttemptQuota {
  /** Pays for one attempt; throws 429 with `Retry-After` when one of the buckets is empty. */
  enter(key: string): Promise<void>;
  succeeded(key: string): Promise<void>;
}

export const createAttemptQuota = (
  limits: DurableLimits,
  buckets: () => readonly LimitBucket[],
): AttemptQuota => ({
  async enter(key) {
    const claims = buckets().map((bucket) => ({ bucket, key, stops: true }));
    for (const state of await limits.consumeAll(claims)) requireAllowed(state);
  },
  succeeded: (key) => limits.reset(...buckets().map((bucket) => ({ bucket, key }))),
});

/** Throws 429 when the quota is spent. */
export function requireAllowed(state: LimitState): void {
  if (!state.allowed) throw attemptsExhausted(state.resetMs);
}

/** A 429 that says when to come back. */
export const attemptsExhausted = (resetMs: number): PenstockError =>
  identityErrors.ATTEMPTS_EXHAUSTED({ retryAfter: secondsOf(resetMs) });

export const secondsOf = (resetMs: number): number => Math.max(1, Math.ceil(resetMs / 1000));
