/** What may be kept is decided by the order of things; here each order is made on purpose. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import type { Tuple } from '../../model/tuple.ts';
import { type CacheEntry, createGrantCache, type GrantCache } from './grant-cache.ts';

let table: TupleTable;
let kept: GrantCache;
let version = 0;

beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());
beforeEach(async () => {
  await table.replace([]);
  kept = createGrantCache(table.database);
  version = 0;
  // From here on changes about teams are told.
  await readCached('first');
  await kept.catchUp();
});

const member = (user: string): Tuple => ({
  subject: { type: 'User', id: user, relation: '' },
  relation: 'member',
  resource: { type: 'Team', id: 't' },
});

const found = (
  parts: Partial<CacheEntry<{ version: number }>> = {},
): CacheEntry<{ version: number }> => ({
  value: { version: ++version },
  subjects: ['User:a', 'User:*'],
  until: undefined,
  ...parts,
});

const readCached = (key: string, find = async () => found()) =>
  kept.read({ key, types: ['Team'], find });
const versionOf = async (key: string) => (await readCached(key)).value.version;

describe('what is kept', () => {
  it('is found once, until a subject that it rests on changes', async () => {
    const first = await versionOf('k');
    await table.add([member('b')]);
    await kept.catchUp();
    expect(await versionOf('k')).toBe(first);
    await table.add([member('a')]);
    const optimistic = await readCached('k');
    expect(optimistic.value.version).toBe(first);
    expect(optimistic.stands(await kept.catchUp())).toBe(false);
    expect(await versionOf('k')).toBe(first + 1);
  });

  it('does not take in what was read before a change that was told meanwhile', async () => {
    const early = await readCached('k', async () => {
      const read = found();
      await table.add([member('a')]);
      await kept.catchUp();
      return read;
    });
    expect(await versionOf('k')).toBe(early.value.version + 1);
  });

  it('begins to follow types before it is searched', async () => {
    const search = { key: 'k', types: ['Folder'], find: async () => found() };
    const first = await kept.read(search);
    expect((await kept.read(search)).value).toBe(first.value);
    await table.add([{ ...member('a'), resource: { type: 'Folder', id: 'f' } }]);
    expect(first.stands(await kept.catchUp())).toBe(false);
  });

  it('does not stand when it has just been found, and something changed since', async () => {
    const first = await readCached('k');
    await table.add([member('a')]);
    expect(first.stands(await kept.catchUp())).toBe(false);
    const early = await readCached('k', async () => {
      const read = found();
      await table.replace([]);
      await kept.catchUp();
      return read;
    });
    expect(early.stands(await kept.catchUp())).toBe(false);
  });

  it.each([
    ['a truncation', () => table.replace([])],
    [
      'more changes than are told',
      () => table.add(Array.from({ length: 1_100 }, (_, i) => member(`many${i}`))),
    ],
    [
      'changes that are not kept any more',
      async () => {
        await table.add([member('b')]);
        await table.database.query({
          text: 'update penstock.tuple_change_state set kept_from = pg_current_xact_id()',
        });
      },
    ],
  ])('is forgotten after %s', async (_what, change) => {
    const first = await versionOf('k');
    await change();
    await kept.catchUp();
    expect(await versionOf('k')).toBe(first + 1);
  });

  it('stands while only what is known about rows changes', async () => {
    await table.add([member('c')]);
    await kept.catchUp();
    const first = await readCached('k', async () => found({ subjects: ['User:c'] }));
    await table.database.query({ text: 'update penstock.tuples set row_of = 1' });
    expect(first.stands(await kept.catchUp())).toBe(true);
    expect(await versionOf('k')).toBe(first.value.version);
  });

  it('ends at its time', async () => {
    const first = await readCached('k', async () => found({ until: 1_000 }));
    const second = await readCached('k');
    expect(second.value).toBe(first.value);
    expect(second.stands({ revision: 1, now: 999 })).toBe(true);
    expect(second.stands({ revision: 1, now: 1_000 })).toBe(false);
  });

  it('says nothing when the database cannot be asked', async () => {
    let broken = false;
    const query: typeof table.database.query = (statement) =>
      broken ? Promise.reject(new Error('gone')) : table.database.query(statement);
    const alone = createGrantCache(Object.assign(Object.create(table.database), { query }));
    await alone.catchUp();
    broken = true;
    await expect(Promise.all([alone.catchUp(), alone.catchUp()])).rejects.toThrow('gone');
    broken = false;
    expect(await alone.catchUp()).toMatchObject({ revision: 0 });
  });
});
