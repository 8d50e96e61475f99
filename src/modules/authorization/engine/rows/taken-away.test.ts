/** Much is seen through a group, and some of it is taken away: neither is looked at more often than it must be. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { memoryOf } from '../../../../../test/support/permission-data/memory.ts';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import { firstRowsText } from '../../../../data/records/page/first-rows.ts';
import { pageOf } from '../../../../data/records/page/page.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { parseDefinition } from '../../model/definition.ts';
import { buildModel } from '../../model/model.ts';
import { addIndexText } from '../../owner-columns.ts';
import { createEngine } from '../create-engine.ts';
import type { Engine } from '../engine.ts';
import { rowPredicate } from './row-predicate.ts';
import type { Size } from './size-estimate.ts';

type Next = (value: unknown) => string;

const reader = '01900000-0000-7000-8000-000000000001';
const owner = '01900000-0000-7000-8000-000000000002';
const note = 'app."Note"';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    { name: 'Group', relations: { member: ['User'] }, permissions: {} },
    {
      name: 'Note',
      relations: { owner: ['User'], reader: ['User', 'Group#member'], banned: ['User'] },
      permissions: { read: { exclusion: { base: ['owner', 'reader'], subtract: ['banned'] } } },
      ownerColumns: true,
    },
  ].map(parseDefinition),
  0,
);

let table: TupleTable;
let engine: Engine;
const run = (text: string) => table.database.query({ text });

/** Tuples about notes: SQL of type, id and relation of the subject, of the relation, and which of the notes. */
const share = (subject: string, relation: string, where: string) =>
  run(
    `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, row_of)
      select gen_random_uuid(), ${subject}, '${relation}', 'Note', d."_id"::text, '${note}'::regclass::oid from ${note} d where ${where}`,
  );

afterAll(() => table.close());
beforeAll(async () => {
  table = await openTupleTable();
  await table.replace([]);
  engine = createEngine(model);
  await run('create schema if not exists app');
  await run(
    `create table ${note} ("_id" uuid primary key, rank int not null, "@owner" uuid, "@ownerType" text collate "C")`,
  );
  await run(addIndexText('Note', note));
  await run(
    `insert into ${note} select gen_random_uuid(), n, case when n % 4 = 1 then '${owner}'::uuid end from generate_series(1, 8000) n`,
  );
  await run(
    `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
      values (gen_random_uuid(), 'User', '${reader}', 'member', 'Group', 'all')`,
  );
  await share(`'Group', 'all', 'member'`, 'reader', 'rank % 2 = 0');
  // Found in other ways as well, or in none: of these each counts once, or not at all.
  for (const id of [reader, owner]) {
    await share(`'User', '${id}', ''`, 'reader', 'rank in (1, 2, 3, 5, 7, 10)');
    await share(`'User', '${id}', ''`, 'banned', 'rank <= 1200 and rank % 5 in (0, 3)');
    await share(`'User', '${id}', ''`, 'can:read', 'rank in (10, 13)');
  }
  await run(`delete from ${note} where rank between 7001 and 7010`);
  await run(
    `update penstock.tuples set row_of = null where resource_type = 'Note' and resource_id not in (select "_id"::text from ${note})`,
  );
  await run(`vacuum analyze ${note}`);
  await run('vacuum analyze penstock.tuples');
});

const predicateOf = async (id: string): Promise<RowPredicate> =>
  engine.predicate(table.database, {
    subject: { type: 'User', id, relation: '' },
    action: 'read',
    type: 'Note',
  });

/** Whether the note of a rank is there, and somebody owns or reads it. */
function isGiven(id: string, rank: number): boolean {
  if (rank > 7000 && rank <= 7010) return false;
  const isOwn = id === owner && rank % 4 === 1;
  return isOwn || (id === reader && rank % 2 === 0) || [1, 2, 3, 5, 7, 10].includes(rank);
}
/** Whether somebody sees it. */
const sees = (id: string, rank: number): boolean =>
  [10, 13].includes(rank) || (isGiven(id, rank) && !(rank <= 1200 && [0, 3].includes(rank % 5)));
const ranks = Array.from({ length: 8_000 }, (_, i) => i + 1);

async function planOf(text: string, values: readonly unknown[]): Promise<string> {
  const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({
    text: `explain (analyze, costs off, timing off) ${text}`,
    values,
  });
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

it.each([
  ['through a group', reader],
  ['as their owner', owner],
])('what somebody sees %s is counted as it is found', async (_how, id) => {
  const { number } = await predicateOf(id);
  const values: unknown[] = [];
  const text = `select ${number?.(note, (value) => `$${values.push(value)}`)} as n`;
  const { rows } = await table.database.query<{ n: string }>({ text, values });
  expect(Number(rows[0]?.n)).toBe(ranks.filter((rank) => sees(id, rank)).length);
  // What is found by one search is different already: it is neither put in order nor compared.
  expect(await planOf(text, values)).not.toMatch(/(Sort|Unique|HashAggregate) \(actual rows=\d{3}/);
});

const schema = {
  rows: note,
  sortable: new Set(['_id']),
  layout: { columns: {} },
} as unknown as CompiledSchema;

/** How often the index was asked for what is taken away, at most. */
const searchesIn = (plan: string): number =>
  Math.max(
    ...[...plan.matchAll(/loops=(\d+)\)\n\s+Index Cond: .*'banned'/g)].map(([, n]) => Number(n)),
  );

it('of very many that are taken away none is asked for by itself where all is looked at', async () => {
  const counts = { total: 8_000, known: true, storedFew: false };
  const largest = 'Group:all#member reader';
  const seen: Size = { ...counts, amount: 'many', largest, seen: 4_000 };
  const taken: Size = { ...counts, amount: 'many', largest: undefined, seen: 30_000 };
  const { first, number } = await rowPredicate(
    { model, database: table.database },
    { subject: { type: 'User', id: reader, relation: '' }, action: 'read', type: 'Note' },
    memoryOf((key) => (key.endsWith(':read') ? seen : taken)),
  );
  const behind = first?.way(20, 'ids')?.otherwise;
  const texts = [
    (next: Next) => `select ${number?.(note, next)} as n`,
    (next: Next) =>
      `select d.rank from (${behind?.compile({ rows: note, count: '20' }, next)}) d order by d."_id" limit 20`,
  ];
  for (const write of texts) {
    const values: unknown[] = [];
    const text = write((value) => `$${values.push(value)}`);
    expect(searchesIn(await planOf(text, values))).toBe(1);
  }
});

it('a later page by id does not pass what the pages before it showed', async () => {
  const { rows: seen } = await table.database.query<{ id: string; rank: number }>({
    text: `select "_id" as id, rank from ${note} order by 1`,
  });
  const ids = seen.filter(({ rank }) => sees(reader, rank)).map(({ id }) => id);
  const last = ids[3_000] ?? '';
  const cursors = { read: () => [last], write: () => '' };
  const page = pageOf({ schema, options: { limit: 20, cursor: 'later' }, cursors });
  const values = [...page.values];
  const next: Next = (value) => `$${values.push(value)}`;
  const way = (await predicateOf(reader)).first?.way(page.among.count, 'ids');
  const merge = way?.otherwise ?? way;
  expect(merge?.key).toBe('merge');
  const { among } = page;
  const source = merge && firstRowsText(merge, { rows: note, among }, { values, next });
  const { named, rows: text } = page.text('true', source);
  const whole = `with ${named.join(', ')} select t0."_id" as id from (${text}) t0`;
  const { rows } = await table.database.query<{ id: string }>({ text: whole, values });
  expect(rows.map(({ id }) => id)).toEqual(ids.slice(3_001, 3_021));
  const loops = [...(await planOf(whole, values)).matchAll(/loops=(\d+)/g)].map(([, n]) =>
    Number(n),
  );
  expect(Math.max(...loops)).toBeLessThan(100);
});

it('of what nobody gave it is not asked whether it is taken away', async () => {
  const { compile } = await predicateOf(reader);
  const values: unknown[] = [];
  const where = compile('t0."_id"', (value) => `$${values.push(value)}`, 'row', 't0');
  const text = `select t0.rank from ${note} t0 where ${where} order by 1`;
  const { rows } = await table.database.query<{ rank: number }>({ text, values });
  const seen = ranks.filter((rank) => sees(reader, rank));
  expect(rows.map(({ rank }) => rank)).toEqual(seen);
  const given = ranks.filter((rank) => isGiven(reader, rank));
  expect(searchesIn(await planOf(text, values))).toBe(given.length);
});
