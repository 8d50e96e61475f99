/** Records of runs, listed and searched: what is found, and how much is read for it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { migrations } from '../migrations.ts';
import { type ExecutionFilter, type ExecutionPlace, listExecutions } from './execution-list.ts';

const runs = 30_000;
const mine = newId();
let opened: OpenTestDatabase;
beforeAll(async () => {
  const own = migrations.filter(({ id }) => id === '0001-functions');
  opened = await openTestDatabase({ migrations: [{ owner: 'functions', migrations: own }] });
  const { database } = opened;
  await database.query({
    text: 'create table penstock.queue_items (id uuid, queue text, target text, state text)',
  });
  // One run a second, the newest last; five runs have the same second.
  await database.query({
    text: `insert into penstock.function_executions
      select gen_random_uuid(), case when n % 3 = 0 then $1::uuid else gen_random_uuid() end, 'f', 1,
        case when n = 100 then 'cron' else 'request' end, n % 2 = 0, 'ok', 200, 1, 1, 1, 1, 'r', null,
        case when n % 2 = 1 then jsonb_build_object('message', 'failed at ' || n) end,
        jsonb_build_array(jsonb_build_object('level', 'log', 'text', 'line ' || n)), null,
        timestamptz '2026-01-01Z' + make_interval(secs => n / 5)
      from generate_series(1, ${runs}) n`,
    values: [mine],
  });
  await database.query({ text: 'analyze penstock.function_executions' });
});
afterAll(() => opened.close());

const filter = (given: Partial<ExecutionFilter> = {}): ExecutionFilter => ({
  ...{ skip: 0, limit: 25, newestFirst: true },
  ...given,
});
const list = (given: Partial<ExecutionFilter> = {}) =>
  listExecutions(opened.database, filter(given));

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly PlanNode[];
  readonly 'Rows Removed by Filter'?: number;
}

/** Records of runs that these statements look at, each by itself. */
async function lookedAt(given: Partial<ExecutionFilter>): Promise<readonly number[]> {
  const seen: Statement[] = [];
  const database: Queryable = {
    query: (statement: Statement) => {
      seen.push(statement);
      return opened.database.query(statement);
    },
  };
  await listExecutions(database, filter(given));
  const counts: number[] = [];
  for (const { text, values } of seen) {
    const explained = await opened.database.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>({
      text: `explain (analyze, format json) ${text}`,
      ...(values && { values }),
    });
    const rowsOf = (node: PlanNode): number =>
      (node['Relation Name'] === 'function_executions'
        ? (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
        : 0) + (node.Plans ?? []).reduce((sum, one) => sum + rowsOf(one), 0);
    counts.push(rowsOf(explained.rows[0]?.['QUERY PLAN'][0].Plan as PlanNode));
  }
  return counts;
}

it('searches a bounded number of runs for one answer, and goes on where it ended', async () => {
  for (const newestFirst of [true, false]) {
    const found: string[] = [];
    let answers = 0;
    for (let after: ExecutionPlace | undefined; ; answers += 1) {
      const page = await list({ search: 'LINE 1000', newestFirst, after });
      found.push(...page.rows.flatMap(({ logs }) => logs.map(({ text }) => text)));
      after = page.next;
      if (!after) break;
    }
    const all = [1_000, ...Array.from({ length: 10 }, (_, i) => 10_000 + i)].map(
      (n) => `line ${n}`,
    );
    expect(found.toSorted()).toEqual(all.toSorted());
    expect(answers).toBe(15);
  }
});

it('repeats and leaves out nothing where more is found than fits', async () => {
  const texts: string[] = [];
  let after: ExecutionPlace | undefined;
  do {
    const page = await list({ search: 'failed at 2999', limit: 3, after });
    texts.push(...page.rows.map(({ error }) => (error as { message: string }).message));
    after = page.next;
  } while (after);
  expect(texts.toSorted()).toEqual(
    ['2999', '29991', '29993', '29995', '29997', '29999'].map((n) => `failed at ${n}`),
  );
});

it('finds by what started it, and pages without a search by the same cursor', async () => {
  const cron = await list({ trigger: 'cron', newestFirst: false });
  expect(cron).toMatchObject({ count: 1, rows: [{ logs: [{ text: 'line 100' }] }] });
  const first = await list({ functionId: mine, success: false, limit: 200 });
  expect(first.count).toBe(5_000);
  const second = await list({ functionId: mine, success: false, limit: 200, after: first.next });
  const ids = new Set([...first.rows, ...second.rows].map(({ id }) => id));
  expect(ids.size).toBe(400);
});

it.each([
  ['a search', { search: 'nowhere' }, 2_100],
  ['a search of one function', { search: 'nowhere', functionId: mine }, 2_100],
  [
    'a search of failures, the oldest first',
    { search: 'no', success: false, newestFirst: false },
    4_200,
  ],
  ['what started them', { trigger: 'nothing' }, 10_100],
  ['a list', {}, 10_100],
  ['a list of one function', { functionId: mine }, 10_100],
])('reads no more than it has to for %s', async (_what, given, max) => {
  for (const rows of await lookedAt(given)) expect(rows).toBeLessThanOrEqual(max);
});
