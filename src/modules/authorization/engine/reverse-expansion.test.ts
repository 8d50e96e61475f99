import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { parseDefinition } from '../model/definition.ts';
import { expansionTo } from '../model/expansion-rules.ts';
import { parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import { expandReverse, lookupsOf, type Start } from './reverse-expansion.ts';

const TUPLES = 20_000;

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    { name: 'Group', relations: { member: ['User', 'Group#member'] }, permissions: {} },
    {
      name: 'Doc',
      relations: { reader: ['User', 'Group#member'] },
      permissions: { read: ['reader'] },
    },
  ].map(parseDefinition),
  0,
);
const rules = expansionTo(
  model,
  [model.action('Doc', 'read')].flatMap((name) => name ?? []),
);

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
  await table.database.query({
    text: `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id)
      select gen_random_uuid(), 'User', 'u' || n, '', 'reader', 'Doc', 'd' || n from generate_series(1, ${TUPLES}) n`,
  });
  await table.database.query({ text: 'analyze penstock.tuples' });
});
afterAll(() => table.close());

/** What is reached, and the rows for which PostgreSQL makes room before it begins. */
async function expanded(start: Start): Promise<{ reached: number; room: number }> {
  const sent: Statement[] = [];
  const database: Queryable = {
    query: (statement) => {
      sent.push(statement);
      return table.database.query(statement);
    },
  };
  const { reached } = await expandReverse({ model, database }, start, rules);
  const [{ text, values } = { text: '', values: [] }] = sent;
  const plan = await table.database.query({ text: `explain ${text}`, values });
  const [room] = plan.rows.flatMap(
    (line) => /Recursive Union.* rows=(\d+)/.exec(JSON.stringify(line))?.[1] ?? [],
  );
  return { reached: reached.length, room: Number(room) };
}

it('makes no room for all tuples to find those of one subject', async () => {
  const lookups = lookupsOf(model, parseSubject('User:u7', 'subject'), rules.direct);
  const { reached, room } = await expanded({ lookups, seeds: [], open: [] });
  expect(reached).toBeGreaterThan(0);
  expect(room).toBeLessThan(TUPLES / 10);
});

it('finds every object that stands in a tuple where a name is open', async () => {
  const { reached } = await expanded({
    lookups: [],
    seeds: [],
    open: [{ type: 'User', name: 'open' }],
  });
  expect(reached).toBe(TUPLES);
});
