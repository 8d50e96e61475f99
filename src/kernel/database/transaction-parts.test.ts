import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';

let opened: OpenTestDatabase;
beforeAll(async () => {
  opened = await openTestDatabase();
  await opened.database.query({ text: 'create table items (name text)' });
});
afterAll(() => opened.close());
beforeEach(() => opened.database.query({ text: 'truncate items' }));

const insert = (name: string) => ({ text: 'insert into items values ($1)', values: [name] });
const nonsense = { text: 'nonsense' };
const names = async () =>
  (
    await opened.database.query<{ name: string }>({ text: 'select name from items order by name' })
  ).rows.map(({ name }) => name);

it('undoes a part that failed, and goes on', async () => {
  const { database } = opened;
  const done: string[] = [];
  await database.transaction(async () => {
    await database.query(insert('a'));
    const failing = database.part(async () => {
      await database.query(insert('b'));
      database.afterCommit(() => void done.push('b'));
      await database.transaction(() => database.query({ text: 'select 1 / 0' }));
    });
    await expect(failing).rejects.toThrow();
    await database.part(async () => {
      await database.query(insert('c'));
      database.afterCommit(() => void done.push('c'));
      await expect(database.part(() => database.query(nonsense))).rejects.toThrow();
    });
    expect(done).toEqual([]);
  });
  expect(await names()).toEqual(['a', 'c']);
  expect(done).toEqual(['c']);
});

it('undoes a part whose own failure was swallowed', async () => {
  const { database } = opened;
  await database.transaction(async () => {
    const part = database.part(async () => {
      await database.query(insert('half'));
      await database.transaction(() => Promise.reject(new Error('no'))).catch(() => undefined);
    });
    await expect(part).rejects.toThrow('no');
    await database.query(insert('whole'));
  });
  expect(await names()).toEqual(['whole']);
});

it('is a transaction where there is none', async () => {
  const { database } = opened;
  const failing = database.part(async () => {
    await database.query(insert('a'));
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  await database.part(() => database.query(insert('b')));
  expect(await names()).toEqual(['b']);
});

it('does parts that begin at once one after the other', async () => {
  const { database } = opened;
  await database.transaction(async () => {
    const part = (name: string) =>
      database.part(async () => {
        await database.query(insert(name));
        if (name.startsWith('bad')) throw new Error(name);
        await database.query(insert(`${name} again`));
      });
    const begun = ['one', 'bad', 'two', 'bad too', 'three'].map((name) => part(name));
    const ends = await Promise.allSettled(begun);
    expect(ends.map(({ status }) => status)).toEqual([
      ...['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
    ]);
  });
  const whole = ['one', 'three', 'two'].flatMap((name) => [name, `${name} again`]);
  expect(await names()).toEqual(whole);
});
