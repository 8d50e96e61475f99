/** Records of runs: one that cannot be stored keeps back no other. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { newId } from '../../../kernel/ids.ts';
import { migrations } from '../migrations.ts';
import { createExecutionWriter, type ExecutionRecord } from './executions.ts';

let opened: OpenTestDatabase;
beforeAll(async () => {
  const own = migrations.filter(({ id }) => id === '0001-functions');
  opened = await openTestDatabase({ migrations: [{ owner: 'functions', migrations: own }] });
});
afterAll(() => opened.close());

const record = (functionName: string, more: Partial<ExecutionRecord> = {}): ExecutionRecord => ({
  ...{ id: newId(), functionId: newId(), functionName, version: 1, trigger: 'request' },
  ...{ success: true, outcome: 'ok', statusCode: 200, durationMs: 1, cpuMs: 1, memoryPeak: 1 },
  ...{ attempt: 1, requestId: 'r', userId: null, error: null, logs: [], input: null },
  createdAt: new Date().toISOString(),
  ...more,
});

it('stores all but those that the database cannot take, and goes on', async () => {
  const writer = createExecutionWriter(opened.database, silentLog);
  for (const one of [
    record('a'),
    record('bad', { input: '\0' }),
    record('b'),
    record('bad', { statusCode: 200.5 }),
    record('c'),
  ])
    writer.add(one);
  await writer.flush();
  writer.add(record('d'));
  await writer.close();
  const { rows } = await opened.database.query<{ name: string }>(
    sql`select function_name as name from penstock.function_executions order by 1`,
  );
  expect(rows.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
});
