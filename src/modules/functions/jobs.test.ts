/** What the clean-up job takes away of records of runs, and what stays (specification functions.md sections 3 and 5.5). */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { newId } from '../../kernel/ids.ts';
import type { FunctionsConfig } from './config.ts';
import { cleanUpJob } from './jobs.ts';
import { migrations } from './migrations.ts';

let opened: OpenTestDatabase;
beforeAll(async () => {
  const own = migrations.filter(({ id }) => id === '0001-functions' || id === '0003-receipts');
  opened = await openTestDatabase({ migrations: [{ owner: 'functions', migrations: own }] });
});
afterAll(() => opened.close());

const record = (functionId: string, name: string, { success = true, days = 0 }) =>
  opened.database.query(sql`
    insert into penstock.function_executions (id, function_id, function_name, version, trigger, success, outcome,
      status_code, duration_ms, cpu_ms, memory_peak, attempt, request_id, logs, created_at)
    values (${newId()}::uuid, ${functionId}::uuid, ${name}, 1, 'request', ${success}, 'ok', 200, 1, 1, 1, 1, 'r', '[]',
      now() - make_interval(days => ${days}::integer))`);

const kept = async (): Promise<string[]> => {
  const { rows } = await opened.database.query<{ name: string }>(
    sql`select function_name as name from penstock.function_executions order by 1`,
  );
  return rows.map(({ name }) => name);
};

it('keeps failures longer than what went well, and of each function the newest', async () => {
  const [quiet, busy] = [newId(), newId()];
  await record(quiet, 'well, new', { days: 13 });
  await record(quiet, 'well, old', { days: 15 });
  await record(quiet, 'failed, new', { success: false, days: 59 });
  await record(quiet, 'failed, old', { success: false, days: 61 });
  for (const days of [5, 4, 3, 2, 1]) await record(busy, `busy ${days}`, { days });
  await opened.database.query(sql`
    insert into penstock.function_receipts (function_id, message, ends_at)
    values (${quiet}::uuid, 'old', now() - interval '1 second'), (${quiet}::uuid, 'new', now() + interval '1 hour')`);
  const retention = { executionsDays: 14, failuresDays: 60, maxPerFunction: 3, successSample: 1 };
  const job = cleanUpJob({
    database: opened.database,
    config: () => ({ retention }) as FunctionsConfig,
  });
  const { signal } = new AbortController();
  await job.handler({}, { signal } as Parameters<typeof job.handler>[1]);
  expect(await kept()).toEqual(['busy 1', 'busy 2', 'busy 3', 'failed, new', 'well, new']);
  const { rows } = await opened.database.query(sql`select message from penstock.function_receipts`);
  expect(rows).toEqual([{ message: 'new' }]);
});
