/** Predicates that rest on nothing but what is kept are there at once; whatever has to be found first is waited for. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import { parseDefinition } from '../../model/definition.ts';
import { parseObject, parseSubject } from '../../model/grammar.ts';
import { buildModel } from '../../model/model.ts';
import type { Tuple } from '../../model/tuple.ts';
import { createEngine } from '../create-engine.ts';
import { createGrantCache } from '../grant-cache/grant-cache.ts';
import { limits } from '../limits.ts';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    { name: 'Team', relations: { member: ['User'] }, permissions: {} },
    {
      name: 'Shelf',
      relations: { member: ['User'], barred: ['Team#member'] },
      permissions: { see: { exclusion: { base: ['member'], subtract: ['barred'] } } },
    },
    {
      name: 'Doc',
      relations: {
        owner: ['User', 'Team#member'],
        barred: ['User'],
        guest: ['User with place'],
        on: ['Shelf'],
      },
      permissions: {
        read: ['owner'],
        review: { exclusion: { base: ['owner'], subtract: ['barred'] } },
        visit: ['owner', 'guest'],
        look: ['on->see'],
      },
      conditions: { place: { eq: [{ context: 'place' }, { attribute: 'place' }] } },
    },
  ].map(parseDefinition),
  0,
);

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());

const tuple = (subject: string, relation: string, resource: string): Tuple => ({
  subject: parseSubject(subject, 'subject'),
  relation,
  resource: parseObject(resource, 'resource'),
});

async function node(sizes = limits as Parameters<typeof createEngine>[2]) {
  await table.replace([
    tuple('User:a', 'member', 'Team:t'),
    tuple('User:a', 'member', 'Team:u'),
    tuple('Team:t#member', 'owner', 'Doc:d'),
  ]);
  const reach = createGrantCache(table.database);
  const engine = createEngine(model, reach, sizes);
  const subject = parseSubject('User:a', 'subject');
  // The first question says which types are followed, and only what is asked after that is kept.
  const ask = (action: string, ids?: readonly string[]) =>
    engine.predicate(table.database, { subject, action, type: 'Doc', ids }, reach.catchUp);
  for (const action of ['read', 'review']) await ask(action);
  await reach.catchUp();
  return { reach, ask };
}

it.each(['read', 'review'])(
  'are there at once when they were asked before (%s)',
  async (action) => {
    const { ask } = await node();
    const first = await ask(action);
    const again = ask(action);
    expect(again).not.toBeInstanceOf(Promise);
    expect((await again).shape).toBe(first.shape);
    expect(await (await again).confirm?.()).toBe(true);
  },
);

it.each([
  { of: 'all rows', shape: expect.not.stringMatching(/^checked$/) },
  { of: 'rows that are decided one by one', ids: ['d'], shape: 'checked' },
])('are looked up again where they hang on more than is kept: $of', async ({ ids, shape }) => {
  const { ask } = await node({ ...limits, reachedForFew: 10 });
  const shelves = ['Shelf:s', 'Shelf:other'].map((shelf) => tuple('User:a', 'member', shelf));
  await table.add([...shelves, tuple('Shelf:s', 'on', 'Doc:d')]);
  const found = await ask('look', ids);
  expect(found.shape).toEqual(shape);
  const { confirm, recheck } = found;
  expect([await confirm?.(), await recheck?.()]).toEqual([true, true]);
  // It is about nobody through whom they see the shelf.
  await table.add([tuple('Team:t#member', 'barred', 'Shelf:s')]);
  expect([await confirm?.(), await recheck?.()]).toEqual([true, false]);
  expect((await ask('read')).recheck).toBeUndefined();
});

it('are light for one row, unless they hang on conditions or their subject acts through many', async () => {
  const { ask } = await node();
  const light = async (action: string) => (await ask(action)).isLight;
  expect([await light('read'), await light('review'), await light('visit')]).toEqual([
    true,
    true,
    false,
  ]);
  await table.add(
    Array.from({ length: 201 }, (_, n) => tuple('User:a', 'member', `Team:many${n}`)),
  );
  const engine = createEngine(model);
  const subject = parseSubject('User:a', 'subject');
  const found = await engine.predicate(table.database, { subject, action: 'read', type: 'Doc' });
  expect(found.isLight).toBe(false);
});

it('are not confirmed after a change, and found anew', async () => {
  const { ask, reach } = await node();
  await ask('read');
  await table.add([tuple('User:a', 'member', 'Team:v')]);
  const kept = await ask('read');
  expect(await kept.confirm?.()).toBe(false);
  await reach.catchUp();
  expect(ask('read')).toBeInstanceOf(Promise);
});

it('are not taken for a few rows where the subject reaches more than is named for those', async () => {
  const { ask } = await node({ ...limits, reachedForFew: 1 });
  const all = await ask('read');
  expect(ask('read')).not.toBeInstanceOf(Promise);
  const few = ask('read', ['d']);
  expect(few).toBeInstanceOf(Promise);
  expect((await few).shape).not.toBe(all.shape);
});
