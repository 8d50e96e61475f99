import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { sql } from '../database/sql.ts';
import { createDurableLimits, type DurableLimits, purgeLimits } from './durable-limits.ts';
import type { LimitBucket } from './limits.ts';
import { migrations } from './migrations.ts';

const bucket: LimitBucket = { name: 'test', requests: 10, seconds: 60 };
const longer: LimitBucket = { name: 'test.longer', requests: 100, seconds: 3_600 };

let test: OpenTestDatabase;
let limits: DurableLimits;
let otherNode: DurableLimits;

beforeAll(async () => {
  test = await openTestDatabase({ migrations: [{ owner: 'limits', migrations }] });
  limits = createDurableLimits({ database: test.database, metrics: noMetrics });
  otherNode = createDurableLimits({ database: await test.openAgain(), metrics: noMetrics });
});
afterAll(() => test?.close());

const endWindow = (key: string) =>
  test.database.query(sql`update penstock.limits set ends_at = now() where key = ${key}`);

describe('durable limits', () => {
  it('allow up to the budget over two nodes, exactly, however many ask at once', async () => {
    const states = await Promise.all(
      Array.from({ length: 50 }, (_, i) => (i % 2 ? limits : otherNode).consume(bucket, 'crowd')),
    );
    expect(states.filter(({ allowed }) => allowed)).toHaveLength(10);
    expect(states.every(({ resetMs }) => resetMs > 0 && resetMs <= 60_000)).toBe(true);
    // A node that starts later, as after a restart, finds nothing left.
    const restarted = createDurableLimits({ database: test.database, metrics: noMetrics });
    expect(await restarted.consume(bucket, 'crowd')).toMatchObject({
      allowed: false,
      remaining: 0,
    });
  });

  it('leave the claims after a spent one alone, also under many at once', async () => {
    const claims = [
      { bucket, key: 'chain', stops: true },
      { bucket: longer, key: 'chain', stops: true },
    ];
    const answers = await Promise.all(Array.from({ length: 50 }, () => limits.consumeAll(claims)));
    expect(answers.filter((states) => states.length === 2)).toHaveLength(10);
    expect(await limits.peek(longer, 'chain')).toMatchObject({ allowed: true, remaining: 90 });
  });

  it('count what a transaction that failed has tried', async () => {
    const failing = test.database.transaction(async () => {
      await limits.consume(bucket, 'undone');
      throw new Error('a wrong code');
    });
    await expect(failing).rejects.toThrow('a wrong code');
    expect(await limits.peek(bucket, 'undone')).toMatchObject({ remaining: 9 });
  });

  it('are whole again when the window is over, and after a success', async () => {
    for (let i = 0; i < 11; i += 1) await limits.consume(bucket, 'patient');
    await endWindow('patient');
    expect(await limits.peek(bucket, 'patient')).toEqual({
      allowed: true,
      remaining: 10,
      resetMs: 0,
    });
    expect(await limits.consume(bucket, 'patient')).toMatchObject({ allowed: true, remaining: 9 });
    await otherNode.reset({ bucket, key: 'patient' });
    expect(await limits.peek(bucket, 'patient')).toMatchObject({ remaining: 10 });
  });

  it('are removed by the job when their window is over', async () => {
    await limits.consume(bucket, 'gone');
    await limits.consume(bucket, 'kept');
    await endWindow('gone');
    await purgeLimits(test.database).handler(
      {},
      { signal: new AbortController().signal, log: silentLog },
    );
    const { rows } = await test.database.query(
      sql`select key from penstock.limits where key in ('gone', 'kept')`,
    );
    expect(rows).toEqual([{ key: 'kept' }]);
  });
});
