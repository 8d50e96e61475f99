/** Nearly all records have one owner, as after an import: what others own is still read from the index of owners. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import { firstRowsText } from '../../../../data/records/page/first-rows.ts';
import { pageOf } from '../../../../data/records/page/page.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { parseDefinition } from '../../model/definition.ts';
import type { SubjectRef } from '../../model/grammar.ts';
import { buildModel } from '../../model/model.ts';
import { addIndexText, addSortIndexText } from '../../owner-columns.ts';
import { createEngine } from '../create-engine.ts';
import type { Engine } from '../engine.ts';

const rows = 40_000;
const few = '01900000-0000-7000-8000-000000000001';
const most = '01900000-0000-7000-8000-000000000002';
const team = '01900000-0000-7000-8000-000000000003';
const note = 'app."Note"';

let table: TupleTable;
let engine: Engine;
afterAll(() => table.close());
beforeAll(async () => {
  table = await openTupleTable();
  await table.replace([]);
  engine = createEngine(
    buildModel(
      [
        { name: 'User', relations: {}, permissions: {} },
        { name: 'Team', relations: { member: ['User'] }, permissions: {} },
        {
          name: 'Note',
          relations: { owner: ['User', 'Team'], reader: ['User'] },
          permissions: { read: ['owner', 'owner->member', 'reader'] },
          ownerColumns: true,
        },
      ].map(parseDefinition),
      0,
    ),
  );
  const run = (text: string) => table.database.query({ text });
  await run('create schema if not exists app');
  await run(
    `create table ${note} ("_id" uuid primary key, rank int not null, "@owner" uuid, "@ownerType" text collate "C")`,
  );
  await run(addIndexText('Note', note));
  await run(addSortIndexText({ type: 'Note', table: note, column: 'rank' }));
  await run(
    `insert into ${note} select gen_random_uuid(), n, case when n % 4000 = 1 then '${few}' when n % 4000 = 2 then '${team}' else '${most}' end::uuid,
      case when n % 4000 = 2 then 'Team' end from generate_series(1, ${rows}) n`,
  );
  await run(
    `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
      values (gen_random_uuid(), 'User', '${few}', 'member', 'Team', '${team}')`,
  );
  // Of a sample that holds the one owner alone, nothing is known of the others.
  await run(`alter table ${note} alter column "@owner" set (n_distinct = 1)`);
  await run(`vacuum analyze ${note}`);
});

interface Text {
  readonly text: string;
  readonly values: readonly unknown[];
}
type Write = (predicate: RowPredicate, next: (value: unknown) => string) => string;

async function textOf(write: Write): Promise<Text> {
  const subject: SubjectRef = { type: 'User', id: few, relation: '' };
  const predicate = await engine.predicate(table.database, {
    subject,
    action: 'read',
    type: 'Note',
  });
  const values: unknown[] = [];
  return { text: write(predicate, (value) => `$${values.push(value)}`), values };
}

const schema = {
  rows: note,
  sortable: new Set(['_id', 'rank']),
  layout: { columns: { rank: { notNull: true } } },
} as unknown as CompiledSchema;

/** The first of them by id, as a page without its number is read. */
const firstById: Write = (predicate, next) => {
  const cursors = { read: () => [], write: () => '' };
  const page = pageOf({ schema, options: { limit: 30 }, cursors });
  for (const value of page.values) next(value);
  const first = predicate.first?.way(page.among.count, 'ids');
  if (!first) throw new Error('There is no way to the first rows');
  const source = firstRowsText(first, { rows: note, among: page.among }, { values: [], next });
  const { named, rows: text } = page.text('true', source);
  return `${named.length === 0 ? '' : `with ${named.join(', ')} `}${text}`;
};

const ways: readonly (readonly [string, Write])[] = [
  [
    'as a set',
    ({ compile }, next) => `select t0.rank from ${note} t0 where ${compile('t0."_id"', next)}`,
  ],
  [
    'for a page and its number',
    ({ reached }, next) => `select d.rank from (${reached?.compile(note, next)}) d`,
  ],
  ['as the first by id', firstById],
  [
    'as the first in the order of a field',
    ({ compile }, next) =>
      `select t0.rank from ${note} t0 where ${compile('t0."_id"', next)} order by t0.rank limit 30`,
  ],
];

it.each(ways)('what somebody owns, alone and in a team, is found %s', async (_how, write) => {
  const { text, values } = await textOf(write);
  const found = await table.database.query<{ rank: number }>({ text, values });
  const expected = Array.from({ length: 10 }, (_, i) => [4_000 * i + 1, 4_000 * i + 2]).flat();
  expect(found.rows.map(({ rank }) => rank).sort((a, b) => a - b)).toEqual(expected);
  const explained = await table.database.query<{ 'QUERY PLAN': string }>({
    text: `explain (analyze, costs off, timing off) ${text}`,
    values,
  });
  const plan = explained.rows.map((row) => row['QUERY PLAN']).join('\n');
  expect(plan).not.toMatch(/Seq Scan on "?Note/);
  // Whatever way it is: no step looks at many rows to find these.
  expect(plan).not.toMatch(/Rows Removed by (Filter|Join Filter): \d{4}/);
});
