import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../test/support/database.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Database } from './database.ts';
import { streamRows } from './stream-rows.ts';

interface Numbered {
  readonly n: number;
  readonly text: string;
}

describe('rows in batches', () => {
  let database: Database;
  let close: () => Promise<void>;
  beforeAll(async () => {
    const opened = await openTestDatabase({ server: 'embedded', migrations: [] });
    ({ database } = opened);
    close = () => opened.close();
  });
  afterAll(() => close());

  const numbers = (count: number, width = 10) => ({
    text: `select n::integer as n, repeat('x', ${width}) as text from generate_series(1, $1::integer) n`,
    values: [count],
  });
  const sizeOf = ({ text }: Numbered): number => text.length;
  const inTransaction = async (): Promise<number> => {
    const { rows } = await database.query<{ n: number }>({
      text: `select count(*)::integer as n from pg_stat_activity where state like 'idle in transaction%'`,
    });
    return rows[0]?.n ?? 0;
  };

  it('come whole and in order, with values as parameters', async () => {
    const seen: number[] = [];
    for await (const batch of streamRows<Numbered>(database, numbers(10_000), { sizeOf }))
      seen.push(...batch.map(({ n }) => n));
    expect(seen).toEqual(Array.from({ length: 10_000 }, (_, i) => i + 1));
    expect(await inTransaction()).toBe(0);
  });

  it('are fewer at a time the larger they are, and none beforehand', async () => {
    let rows = 0;
    for await (const batch of streamRows<Numbered>(database, numbers(300, 100_000), { sizeOf })) {
      if (rows > 0) expect(batch.length).toBeLessThanOrEqual(10);
      rows += batch.length;
    }
    expect(rows).toBe(300);
    for await (const batch of streamRows<Numbered>(database, numbers(0), { sizeOf }))
      expect(batch).toBe('nothing');
  });

  it('end the transaction when the reader stops', async () => {
    for await (const _ of streamRows<Numbered>(database, numbers(100_000), { sizeOf })) break;
    expect(await inTransaction()).toBe(0);
  });

  it('end with the signal, also while nobody reads', async () => {
    const controller = new AbortController();
    const rows = streamRows<Numbered>(database, numbers(100_000), {
      sizeOf,
      signal: controller.signal,
    });
    await rows.next();
    controller.abort(new Error('enough'));
    await waitFor(async () => (await inTransaction()) === 0);
    await expect(rows.next()).rejects.toThrow('enough');
    const late = streamRows<Numbered>(database, numbers(1), { sizeOf, signal: controller.signal });
    await expect(late.next()).rejects.toThrow('enough');
  });

  it('pass failures on, before and between rows', async () => {
    const wrong = streamRows<Numbered>(database, { text: 'select nothing' }, { sizeOf });
    await expect(wrong.next()).rejects.toThrow();
    const later = {
      text: `select n::integer as n, (1 / (1000 - n))::text as text from generate_series(1, 2000) n`,
    };
    let seen = 0;
    const reading = async (): Promise<void> => {
      for await (const batch of streamRows<Numbered>(database, later, { sizeOf }))
        seen += batch.length;
    };
    await expect(reading()).rejects.toThrow();
    expect(seen).toBeGreaterThan(0);
    expect(seen).toBeLessThan(1_000);
    expect(await inTransaction()).toBe(0);
  });

  it('are those of one moment, whatever happens meanwhile', async () => {
    await database.query({ text: 'create table moment (n integer)' });
    await database.query({ text: 'insert into moment select generate_series(1, 5000)' });
    const seen: number[] = [];
    for await (const batch of streamRows<Numbered>(
      database,
      { text: `select n, '' as text from moment` },
      { sizeOf: () => 1_000 },
    )) {
      if (seen.length === 0) await database.query({ text: 'delete from moment' });
      seen.push(...batch.map(({ n }) => n));
    }
    expect(seen).toHaveLength(5_000);
  });
});
