import type pg from 'pg';
import { expect, it } from 'vitest';
import { createJournal, type Entry, verify } from './journal.ts';

const entry = (mark: string, rest: Partial<Entry> = {}): Entry => ({
  mark,
  id: mark,
  changes: 0,
  deleted: false,
  open: false,
  ...rest,
});
const row = (mark: string, n = 0, version = n) => ({ id: mark, mark, n, version });
const told = (id: string, updates = 0, deletes = 0) => ({ id, inserts: 1, updates, deletes });

/** What `verify` asks for, in its order: records, events, gaps. */
function stored(
  records: readonly object[],
  events: readonly object[],
  gaps: readonly object[] = [],
): pg.Client {
  const answers = [records, events, gaps];
  return { query: async () => ({ rows: answers.shift() }) } as unknown as pg.Client;
}

it('finds nothing where all is as it was acknowledged, or may be', async () => {
  const journal = createJournal();
  const entries = [
    entry('a', { changes: 2 }),
    entry('b', { deleted: true }),
    entry('c', { open: true }),
    entry('d', { id: undefined, open: true }),
  ];
  for (const each of entries) journal.entries.add(each);
  const database = stored([row('a', 2), row('c', 1)], [told('a', 2), told('b', 0, 1)]);
  expect(await verify(journal, database)).toEqual({ lost: [], doubled: [], events: [] });
});

it('finds what is lost, doubled, told wrongly, and gaps', async () => {
  const journal = createJournal();
  const entries = [
    entry('gone'),
    entry('behind', { changes: 3 }),
    entry('undeleted', { deleted: true }),
    entry('twice'),
    entry('again', { changes: 1 }),
    entry('untold'),
  ];
  for (const each of entries) journal.entries.add(each);
  const records = [
    row('behind', 2),
    row('undeleted'),
    row('twice'),
    row('twice'),
    row('again', 2),
    row('untold'),
  ];
  const events = [
    told('gone'),
    told('behind', 3),
    told('undeleted', 0, 1),
    told('twice'),
    told('again', 1),
  ];
  const found = await verify(journal, stored(records, events, [{ before: '10', first: '12' }]));
  expect(found.lost).toEqual([
    expect.stringContaining('gone (gone) is gone'),
    expect.stringContaining('behind (behind) has 2 of 3'),
    expect.stringContaining('undeleted'),
  ]);
  expect(found.doubled).toEqual([
    expect.stringContaining('twice'),
    expect.stringContaining('again'),
  ]);
  expect(found.events).toEqual([expect.stringContaining('untold'), 'after position 10 comes 12']);
});
