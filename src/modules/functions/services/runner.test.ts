/** When a run begins, and on whose account it asks for what it needs. */
import { expect, it } from 'vitest';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { defaultRequestSettings } from '../../../kernel/pipeline/request-limits.ts';
import {
  currentAccount,
  onAccount,
  RequestAccount,
} from '../../../kernel/request-account/request-account.ts';
import type { FunctionsConfig } from '../config.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { Pool, PoolEnd, PoolRun } from '../engine/pool.ts';
import { createHostCalls } from './host-calls.ts';
import { createRunner, type RunnerParts } from './runner.ts';

const TIMEOUT_MS = 60_000;

const definition = {
  ...{ _id: 'f1', name: 'one', version: 1, enabled: true, functionType: 'request' },
  ...{ timeout: TIMEOUT_MS, inputs: {}, facts: { form: 'body', language: 'javascript' } },
} as unknown as StoredFunction;

const done: PoolEnd = { outcome: 'ok', text: '1', logs: [], cpuMs: 0, memoryBytes: 0 };

/** A runner over this pool, and what its database was asked, with the time that the account of the asker had. */
function runnerOver(pool: Pick<Pool, 'turn' | 'run'>, refusal?: Error) {
  const asked: number[] = [];
  const database = {
    outside: (work: () => unknown) => work(),
    inTransaction: () => false,
    async query() {
      asked.push(currentAccount()?.remainingMs ?? 0);
      return { rows: [{ running: 'return 1', packages: {} }] };
    },
  } as unknown as Database;
  const limits = {
    ...{ maxTimeoutMs: 600_000, maxConcurrency: 10, maxConcurrencyPerFunction: 10 },
    ...{ cpuMs: 1_000, memoryMb: 16, maxResultBytes: 1_000, maxLogBytes: 1_000 },
  };
  const config = { limits, retention: { successSample: 1 } } as unknown as FunctionsConfig;
  const runner = createRunner({
    ...{ database, pool: pool as Pool, config: () => config },
    calls: createHostCalls(database, new Map([['db.find', () => Promise.reject(refusal)]])),
    store: { byId: () => definition },
    executions: { add: () => undefined },
    metrics: { begin: () => () => undefined, lag: () => undefined },
    tail: { silent: true },
  } as unknown as RunnerParts);
  const run = () =>
    runner.run({ functionId: 'f1', caller: { kind: 'anonymous' }, trigger: 'request' });
  return { run, asked, active: () => runner.active('f1') };
}

const accountOf = (milliseconds: number): RequestAccount =>
  new RequestAccount({ ...defaultRequestSettings, milliseconds });

it('reads the text of a function on the account of its run, whoever has made room for it', async () => {
  const { run, asked } = runnerOver({
    turn: () => undefined,
    async run({ source }) {
      await onAccount(accountOf(0), source);
      return done;
    },
  });
  await onAccount(accountOf(TIMEOUT_MS), run);
  expect(asked).toEqual([expect.any(Number)]);
  expect(asked[0]).toBeGreaterThan(0);
});

it('counts the time of a run from its arrival, and its place too, while it waits for its turn', async () => {
  const turn = Promise.withResolvers<void>();
  const came = Promise.withResolvers<number>();
  const runs: PoolRun[] = [];
  const { run, active } = runnerOver({
    turn() {
      came.resolve(performance.now());
      return turn.promise;
    },
    async run(one) {
      runs.push(one);
      return done;
    },
  });
  const result = run();
  const cameAt = await came.promise;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([runs.length, active()]).toEqual([0, 1]);
  turn.resolve();
  await result;
  expect(runs[0]?.deadlineAt).toBeLessThanOrEqual(cameAt + TIMEOUT_MS);
  const { facts } = JSON.parse(runs[0]?.input ?? '') as { facts: { deadline: number } };
  expect(facts.deadline).toBeLessThanOrEqual(Date.now() + TIMEOUT_MS);
  expect(active()).toBe(0);
});

it('answers that it may be tried again where the code lets that through', async () => {
  const busy = errors.UNAVAILABLE({ message: 'The database is busy: try again', retryAfter: 1 });
  const failing = async ({ call }: PoolRun): Promise<PoolEnd> => {
    const error = await call('db.find', '{}').catch(({ name, message, code, status }) => ({
      ...{ name, message, code, status },
    }));
    return { ...done, outcome: 'error', error } as PoolEnd;
  };
  const { run } = runnerOver({ turn: () => undefined, run: failing }, busy);
  const told = { code: 'UNAVAILABLE', status: 503, message: busy.message, retryAfter: 1 };
  await expect(run()).rejects.toMatchObject(told);
  const other = runnerOver({ turn: () => undefined, run: failing }, new Error('broken'));
  await expect(other.run()).rejects.toMatchObject({ code: 'FUNCTION_FAILED', status: 500 });
});
