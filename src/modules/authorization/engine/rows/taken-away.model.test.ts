/**
 * What somebody sees where something is taken away from it, against what the definition says: in each form, whatever is
 * believed about sizes, with relations that ended, records that are gone, and relations that may lead to no record.
 */
import { setTimeout } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { memoryOf } from '../../../../../test/support/permission-data/memory.ts';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { parseDefinition } from '../../model/definition.ts';
import { parseSubject } from '../../model/grammar.ts';
import { buildModel } from '../../model/model.ts';
import type { Tuple } from '../../model/tuple.ts';
import { addIndexText } from '../../owner-columns.ts';
import { createGrantCache } from '../grant-cache/grant-cache.ts';
import { limits } from '../limits.ts';
import type { PredicateCache } from './row-plans.ts';
import { rowPredicate } from './row-predicate.ts';
import type { Size } from './size-estimate.ts';

const me = '01900000-0000-7000-8000-000000000001';
const other = '01900000-0000-7000-8000-000000000002';
const note = 'app."Note"';
const idOf = (n: number): string => `01900000-0000-7000-8000-${String(100 + n).padStart(12, '0')}`;

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    { name: 'Group', relations: { member: ['User'] }, permissions: {} },
    { name: 'Folder', relations: { viewer: ['User'] }, permissions: { view: ['viewer'] } },
    {
      name: 'Note',
      relations: {
        owner: ['User'],
        reader: ['User', 'Group#member'],
        folder: ['Folder'],
        banned: ['User', 'Group#member'],
      },
      permissions: {
        read: { exclusion: { base: ['owner', 'reader', 'folder->view'], subtract: ['banned'] } },
      },
      ownerColumns: true,
    },
  ].map(parseDefinition),
  0,
);

/** Subjects of relations to a note: I am a member of the first group and see the first folder. */
const subjects = {
  reader: [`User:${me}`, `User:${other}`, 'Group:g1#member', 'Group:g2#member'],
  folder: ['Folder:f1', 'Folder:f2'],
  banned: [`User:${me}`, `User:${other}`, 'Group:g1#member', 'Group:g2#member'],
  owner: [`User:${me}`],
  'can:read': [`User:${me}`, `User:${other}`],
} as const;
const mine: readonly string[] = [`User:${me}`, 'Group:g1#member', 'Folder:f1'];

const relation = fc.constantFrom(
  ...Object.entries(subjects).flatMap(([word, all]) =>
    all.map((subject) => [word, subject] as const),
  ),
);
interface Note {
  readonly owner: string | null;
  readonly isGone: boolean;
  readonly tuples: readonly {
    readonly of: readonly [word: string, subject: string];
    readonly isOver: boolean;
    /** That it leads to a record is noted. */
    readonly isNoted: boolean;
  }[];
}
const noteArbitrary: fc.Arbitrary<Note> = fc.record({
  owner: fc.constantFrom(null, me, other),
  isGone: fc.nat(7).map((n) => n === 0),
  tuples: fc.uniqueArray(
    fc.record({
      of: relation,
      isOver: fc.nat(5).map((n) => n === 0),
      isNoted: fc.nat(3).map((n) => n > 0),
    }),
    { maxLength: 5, selector: ({ of }) => of.join() },
  ),
});

function isSeen({ owner, isGone, tuples }: Note): boolean {
  const has = (...words: readonly string[]): boolean =>
    tuples.some(
      ({ of: [word, subject], isOver }) =>
        !isOver && words.includes(word) && mine.includes(subject),
    );
  const isGiven = owner === me || has('owner', 'reader', 'folder');
  return !isGone && (has('can:read') || (isGiven && !has('banned')));
}

let table: TupleTable;
afterAll(() => table.close());
beforeAll(async () => {
  table = await openTupleTable();
  await table.database.query({ text: 'create schema if not exists app' });
  await table.database.query({
    text: `create table ${note} ("_id" uuid primary key, "@owner" uuid, "@ownerType" text collate "C")`,
  });
  await table.database.query({ text: addIndexText('Note', note) });
});

async function write(notes: readonly Note[]): Promise<void> {
  await table.replace([]);
  await table.database.query({ text: `truncate ${note}` });
  const there = notes.flatMap((one, n) => (one.isGone ? [] : [[idOf(n), one.owner]]));
  await table.database.query({
    text: `insert into ${note} ("_id", "@owner") select * from unnest($1::uuid[], $2::uuid[])`,
    values: [there.map(([id]) => id), there.map(([, owner]) => owner)],
  });
  const tuples = [
    ['member', `User:${me}`, 'Group:g1', false, false],
    ['viewer', `User:${me}`, 'Folder:f1', false, false],
    ...notes.flatMap(({ tuples: all, isGone }, n) =>
      all.map(({ of, isOver, isNoted }) => [...of, `Note:${idOf(n)}`, isOver, isNoted && !isGone]),
    ),
  ];
  await table.database.query({
    text: `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, expires_at, row_of)
      select gen_random_uuid(), split_part(t.s, ':', 1), split_part(split_part(t.s, ':', 2), '#', 1), split_part(t.s, '#', 2), t.word,
        split_part(t.r, ':', 1), split_part(t.r, ':', 2), case when t.over then now() - interval '1 minute' end, case when t.noted then '${note}'::regclass::oid end
      from unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::boolean[]) t(word, s, r, over, noted)`,
    values: [0, 1, 2, 3, 4].map((i) => tuples.map((tuple) => tuple[i])),
  });
}

const counts = { seen: 1_000_000, total: 1_000_000, known: true } as const;
/** What is taken away is found as a whole, or each row is asked about it. */
const takenSizes: readonly Size[] = (
  [
    ['few', 10],
    ['some', 10],
    ['many', 10],
    ['many', 10_000_000],
  ] as const
).map(([amount, seen]) => ({
  ...{ ...counts, amount, seen, storedFew: amount === 'few', largest: undefined },
}));
/** Lookups that may be the one which finds nearly everything. */
const largests = [
  undefined,
  `User:${me}# owner`,
  `User:${me}# reader`,
  'Group:g1#member reader',
  'Folder:f1# folder',
];
const sizes: readonly (readonly [Size, Size])[] = largests.flatMap((largest) =>
  takenSizes.flatMap((taken) =>
    (['some', 'many'] as const).map(
      (amount, i) => [{ ...counts, amount, storedFew: i === 0, largest }, taken] as const,
    ),
  ),
);

const goalKey = `User:${me} Note#action:read`;
const question = {
  ...{ subject: { type: 'User', id: me, relation: '' }, action: 'read', type: 'Note' },
};
const memoryFor = ([seen, taken]: (typeof sizes)[number]): PredicateCache =>
  memoryOf((key) => (key === goalKey ? seen : taken));
const predicateOf = async (size: (typeof sizes)[number]): Promise<RowPredicate> =>
  rowPredicate({ model, database: table.database }, question, memoryFor(size));

/** A node that remembers where rows begin, however few are taken away in front of them. */
async function node() {
  const reach = createGrantCache(table.database);
  const many = { ...counts, amount: 'many', storedFew: false, largest: undefined } as const;
  const memory = { ...memoryFor([many, { ...many, seen: 10 }]), reach };
  const scope = { model, database: table.database, sizes: { ...limits, leading: 1 } };
  const ask = async () => rowPredicate(scope, question, memory, reach.catchUp);
  // The first question says which types are followed.
  await ask();
  await reach.catchUp();
  return ask;
}

/** The first rows by the ids, and whether what that rests on stands; both by one statement. */
async function firstBy({ first, guard }: RowPredicate) {
  const values: unknown[] = [];
  const next = (value: unknown) => `$${values.push(value)}`;
  const way = first?.way(3, 'ids');
  const rows = way?.compile({ rows: note, count: '3' }, next) ?? '';
  const text = `select ${guard?.(next)} as current, array(select f."_id" from (${rows}) f order by 1 limit 3) as ids`;
  const found = await table.database.query<{ current: boolean; ids: readonly string[] }>({
    ...{ text, values },
  });
  return { key: way?.key, ...(found.rows[0] ?? { current: false, ids: [] }) };
}

async function idsBy(write: (next: (value: unknown) => string) => string) {
  const values: unknown[] = [];
  const text = write((value) => `$${values.push(value)}`);
  return (await table.database.query<{ id: string }>({ text, values })).rows.map(({ id }) => id);
}

async function compare(predicate: RowPredicate, expected: readonly string[]): Promise<number> {
  for (const use of ['row', 'rows', 'sorted', 'count'] as const) {
    const found = await idsBy(
      (next) =>
        `select t0."_id" as id from ${note} t0 where ${predicate.compile('t0."_id"', next, use, 't0')} order by 1`,
    );
    expect([use, ...found]).toEqual([use, ...expected]);
  }
  for (const order of ['ids', 'indexed'] as const)
    for (let way = predicate.first?.way(3, order); way; way = way.otherwise) {
      const { key, compile } = way;
      const found = await idsBy(
        (next) =>
          `select t0."_id" as id from (${compile({ rows: note, count: '3' }, next)}) t0 order by 1 limit 3`,
      );
      expect([key, ...found]).toEqual([key, ...expected.slice(0, 3)]);
    }
  const last = idOf(3);
  const later = expected.filter((id) => id > last).slice(0, 3);
  for (let way = predicate.first?.way(3, 'ids'); way; way = way.otherwise) {
    const { key, compile } = way;
    const found = await idsBy((next) => {
      const after = next(last);
      const rows = `(select t0.* from ${note} t0 where t0."_id" > ${after})`;
      return `select t0."_id" as id from (${compile({ rows, count: '3', after }, next)}) t0 order by 1 limit 3`;
    });
    expect([`${key}, later`, ...found]).toEqual([`${key}, later`, ...later]);
  }
  if (!predicate.number) return 0;
  const [number] = await idsBy((next) => `select ${predicate.number?.(note, next)} as id`);
  expect(Number(number)).toBe(expected.length);
  return 1;
}

it('is what the definition says', async () => {
  let counted = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(noteArbitrary, { minLength: 6, maxLength: 16 }), async (notes) => {
      await write(notes);
      const expected = notes.flatMap((one, n) => (isSeen(one) ? [idOf(n)] : []));
      for (const size of sizes) counted += await compare(await predicateOf(size), expected);
    }),
    { numRuns: Number(process.env.TAKEN_RUNS ?? 12), endOnFailure: true },
  );
  expect(counted).toBeGreaterThan(100);
}, 120_000);

const seen = (word: string, subject: string) => ({
  ...{ of: [word, subject] as const, isOver: false, isNoted: true },
});
const groupReads = seen('reader', 'Group:g1#member');
const banned = seen('banned', `User:${me}`);
const open: Note = { owner: null, isGone: false, tuples: [groupReads] };
const away: Note = { ...open, tuples: [groupReads, banned] };
/** Four are taken away, and then every third one. */
const behind: readonly Note[] = [away, away, away, away, open, open, away, open, open];

it('begins where it is remembered, whatever is written meanwhile', async () => {
  let used = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(noteArbitrary, { minLength: 6, maxLength: 12 }), async (notes) => {
      await write([away, ...notes]);
      const ask = await node();
      const before = await ask();
      await before.rememberStart?.();
      const expected = [away, ...notes].flatMap((one, n) => (isSeen(one) ? [idOf(n)] : []));
      const predicate = await ask();
      const { key, current, ids } = await firstBy(predicate);
      if (key === 'start') used += 1;
      expect({ current, ids }).toEqual({ current: true, ids: expected.slice(0, 3) });
      await compare(predicate, expected);
    }),
    { numRuns: Number(process.env.TAKEN_RUNS ?? 25), endOnFailure: true },
  );
  expect(used).toBeGreaterThan(15);
}, 120_000);

const tuple = (word: string, subject: string, n: number): Tuple => ({
  subject: parseSubject(subject, 'subject'),
  relation: word,
  resource: { type: 'Note', id: idOf(n) },
});
const bannedFrom = (n: number): string => `relation = 'banned' and resource_id = '${idOf(n)}'`;
const run = (text: string) => table.database.query({ text });

describe('a start that is remembered', () => {
  it.each<{
    readonly when: string;
    readonly make: () => Promise<unknown>;
    /** The statement itself knows that it still stands, or whoever asks what changed. */
    readonly stands?: 'surely' | 'asked';
    readonly first: number;
  }>([
    { when: 'nothing changes', make: async () => undefined, stands: 'surely', first: 4 },
    {
      when: 'one is let in again',
      make: () => run(`delete from penstock.tuples where ${bannedFrom(1)}`),
      first: 1,
    },
    {
      when: 'a ban ends',
      make: () => run(`update penstock.tuples set expires_at = now() where ${bannedFrom(0)}`),
      first: 0,
    },
    {
      when: 'one is given all the same',
      make: () => table.add([tuple('can:read', `User:${me}`, 2)]),
      first: 2,
    },
    {
      when: 'the first one is taken away as well',
      make: () => table.add([tuple('banned', `User:${me}`, 4)]),
      first: 5,
    },
    {
      when: 'one in front is given to somebody else',
      make: () => table.add([tuple('reader', `User:${other}`, 1)]),
      ...{ stands: 'asked', first: 4 },
    },
    {
      when: 'one in front that is taken away becomes their own',
      make: () => run(`update ${note} set "@owner" = '${me}' where "_id" = '${idOf(1)}'`),
      ...{ stands: 'surely', first: 4 },
    },
    {
      when: 'a record of their own comes in front',
      make: () => run(`insert into ${note} ("_id", "@owner") values ('${idOf(-5)}', '${me}')`),
      ...{ stands: 'surely', first: -5 },
    },
    {
      when: 'the first record goes',
      make: () => run(`delete from ${note} where "_id" = '${idOf(4)}'`),
      ...{ stands: 'surely', first: 5 },
    },
  ])('is right when $when', async ({ make, stands, first }) => {
    await write(behind);
    const ask = await node();
    await (await ask()).rememberStart?.();
    const predicate = await ask();
    expect(await firstBy(predicate)).toMatchObject({ key: 'start', current: true });
    await make();
    const { current, ids } = await firstBy(predicate);
    expect(current).toBe(stands === 'surely');
    if (stands) expect(ids[0]).toBe(idOf(first));
    expect(await predicate.confirm?.()).toBe(stands !== undefined);
    expect((await firstBy(await ask())).ids[0]).toBe(idOf(first));
  });

  it('ends when the first ban in front of it does', async () => {
    await write(behind);
    const soon = "clock_timestamp() + interval '1 second'";
    await run(`update penstock.tuples set expires_at = ${soon} where ${bannedFrom(1)}`);
    const ask = await node();
    await (await ask()).rememberStart?.();
    const predicate = await ask();
    expect(await firstBy(predicate)).toMatchObject({ key: 'start', current: true });
    await setTimeout(1_100);
    expect((await firstBy(predicate)).current).toBe(false);
    expect(await predicate.confirm?.()).toBe(false);
    expect((await firstBy(await ask())).ids[0]).toBe(idOf(1));
  });
});
