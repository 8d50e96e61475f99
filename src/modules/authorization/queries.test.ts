import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../test/support/database.ts';
import { isWaiting } from '../../../test/support/locks.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Database } from '../../kernel/database/database.ts';
import { migrations as eventMigrations } from '../../kernel/events/migrations.ts';
import { newId } from '../../kernel/ids.ts';
import { migrations } from './migrations.ts';
import { listTuples, tuplesAfter } from './queries.ts';
import { listRoles, listRules } from './role-queries.ts';
import { deleteExpired, deleteTuples } from './tuple-removals.ts';
import { type NewTuple, writeTuples } from './tuple-writes.ts';

describe('stored tuples', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  let database: Database;
  const tuple = (user: string, doc: string, rest: Partial<NewTuple> = {}): NewTuple => ({
    id: newId(),
    subject: { type: 'User', id: user, relation: '' },
    relation: 'owner',
    resource: { type: 'Doc', id: doc },
    ...rest,
  });
  const write = (...tuples: readonly NewTuple[]) => writeTuples(database, tuples, 'test');
  const page = { skip: 0, limit: 1000, sort: '_id' };
  const topics = async (id: string): Promise<string[]> => {
    const { rows } = await database.query<{ topic: string }>({
      text: 'select topic from penstock.outbox where $1 = any(ids) order by seq',
      values: [id],
    });
    return rows.map(({ topic }) => topic);
  };

  beforeAll(async () => {
    opened = await openTestDatabase({
      migrations: [
        { owner: 'events', migrations: eventMigrations },
        { owner: 'authorization', migrations },
      ],
    });
    database = opened.database;
  });
  afterAll(() => opened.close());

  it('are written once, with one event, and changed only when something changes', async () => {
    const [first] = await write(tuple('a', 'once'));
    const [again] = await write(tuple('a', 'once'));
    expect(again).toEqual(first);
    const [changed] = await write(
      tuple('a', 'once', { condition: 'office', attributes: { n: 1 } }),
    );
    expect(changed).toMatchObject({ id: first?.id, condition: 'office', attributes: { n: 1 } });
    expect(await topics(first?.id ?? '')).toEqual([
      'authorization:create:relation',
      'authorization:create:relation',
    ]);
  });

  it('come back in bulk, old and new alike', async () => {
    const old = await write(tuple('b', '1'), tuple('b', '2'));
    const all = await write(...['1', '2', '3'].map((doc) => tuple('b', doc)));
    expect(all).toHaveLength(3);
    expect(all.filter(({ id }) => old.some((one) => one.id === id))).toHaveLength(2);
  });

  it('never wait for each other in a ring', async () => {
    const docs = Array.from({ length: 50 }, (_, i) => `ring${i}`);
    const orders = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? docs : [...docs].reverse()));
    await Promise.all(orders.map((order) => write(...order.map((doc) => tuple('ring', doc)))));
    const { count } = await listTuples(
      database,
      'relation',
      { subject: { type: 'User', id: 'ring', relation: '' } },
      page,
    );
    expect(count).toBe(50);
  });

  it('are found by exact parts and by text that means itself', async () => {
    await write(
      tuple('x_y', '100%'),
      tuple('xzy', '100x'),
      tuple('x_y', 'g', { relation: 'can:read' }),
    );
    const search = async (text: string) =>
      (await listTuples(database, 'relation', { search: text }, page)).count;
    expect([await search('x_y'), await search('0%'), await search('\\')]).toEqual([1, 1, 0]);
    const grants = await listTuples(
      database,
      'permission',
      { subject: { type: 'User', id: 'x_y', relation: '' } },
      page,
    );
    expect(grants.tuples.map(({ relation }) => relation)).toEqual(['can:read']);
  });

  it('are found by a part of them, page by page, few or many', async () => {
    const many = {
      text: `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
      select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'User', 'Needle' || n, 'owner', 'Hay', 'h' || n from generate_series(1, 10001) n`,
    };
    await database.query(many);
    const find = async (search: string, skip: number, sort = '_id') => {
      const { tuples, count } = await listTuples(
        database,
        'relation',
        { search },
        { skip, limit: 2, sort },
      );
      return [count, ...tuples.map(({ subject }) => subject.id)];
    };
    // 12, 120 to 129 and 1200 to 1299.
    expect(await find('needle12', 0)).toEqual([111, 'Needle12', 'Needle120']);
    expect(await find('needle12', 110)).toEqual([111, 'Needle1299']);
    expect(await find('needle12', 111)).toEqual([111]);
    expect(await find('needle12', 0, '-_id')).toEqual([111, 'Needle1299', 'Needle1298']);
    expect(await find('needle12', 0, '-subject')).toEqual([111, 'Needle1299', 'Needle1298']);
    expect(await find('@hay:h', 10_000)).toEqual([10_001, 'Needle10001']);
    expect(await find('needle12x', 0)).toEqual([0]);
    await deleteTuples(database, 'relation', { resourceType: 'Hay' }, 'test');
  });

  it('are deleted by filter with an event each, grants apart from relations', async () => {
    const [relation, grant] = await write(
      tuple('gone', '1'),
      tuple('gone', '1', { relation: 'can:read' }),
    );
    const filter = { subject: { type: 'User', id: 'gone', relation: '' } };
    expect(await deleteTuples(database, 'relation', filter, 'test')).toBe(1);
    expect(await deleteTuples(database, 'permission', filter, 'test')).toBe(1);
    const kinds = async (id: string | undefined) => (await topics(id ?? '')).at(-1);
    expect([await kinds(relation?.id), await kinds(grant?.id)].sort()).toEqual([
      'authorization:delete:permission',
      'authorization:delete:relation',
    ]);
  });

  it('are purged after they expired, in batches', async () => {
    const past = new Date(Date.now() - 60_000).toISOString();
    const future = new Date(Date.now() + 60_000).toISOString();
    await write(
      tuple('e', '1', { expiresAt: past }),
      tuple('e', '2', { expiresAt: past }),
      tuple('e', '3', { expiresAt: future }),
      tuple('e', '4'),
    );
    expect(await deleteExpired(database, 1, 'test')).toBe(1);
    expect(await deleteExpired(database, 10, 'test')).toBe(1);
    const left = await listTuples(
      database,
      'relation',
      { subject: { type: 'User', id: 'e', relation: '' } },
      page,
    );
    expect(left.tuples.map(({ resource }) => resource.id)).toEqual(['3', '4']);
  });

  it('are not purged when they get another end at that moment', async () => {
    const past = new Date(Date.now() - 60_000).toISOString();
    await write(tuple('renewed', '1', { expiresAt: past }));
    const other = await opened.openAgain();
    let purged: Promise<number> | undefined;
    await database.transaction(async (transaction) => {
      await writeTuples(transaction, [tuple('renewed', '1')], 'test');
      purged = deleteExpired(other, 10, 'test');
      await waitFor(() => isWaiting(other));
    });
    expect(await purged).toBe(0);
    const renewed = { subject: { type: 'User', id: 'renewed', relation: '' } };
    expect((await listTuples(database, 'relation', renewed, page)).count).toBe(1);
  });

  it('can be walked in pages', async () => {
    const seen: string[] = [];
    for (let last = '00000000-0000-0000-0000-000000000000'; ; ) {
      const next = await tuplesAfter(database, last, 7);
      seen.push(...next.map(({ id }) => id));
      const [end] = next.slice(-1);
      if (!end) break;
      last = end.id;
    }
    const { count } = await listTuples(database, 'relation', {}, page);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBeGreaterThanOrEqual(count);
  });

  it('a list that fails fails once: no rejection is left that nobody handles', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const broken = {
      query: () => Promise.reject(new Error('no connection')),
    } as unknown as Database;
    await expect(listTuples(broken, 'relation', {}, page)).rejects.toThrow('no connection');
    await expect(listRoles(broken, page)).rejects.toThrow('no connection');
    await expect(listRules(broken, page)).rejects.toThrow('no connection');
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });
});
