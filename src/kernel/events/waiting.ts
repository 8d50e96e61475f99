/** What was committed and has no position yet: how much, and since when. */
import type { Queryable } from '../database/database.ts';
import { sql, statementName } from '../database/sql.ts';

/** Up to here waiting events are counted; beyond it, the numbers of rows tell how many there are. */
const COUNTED = 10_000;

/** Transactions that the last snapshot did not see: open at that time, or younger. */
const open = 'array(select pg_snapshot_xip(snapshot) from penstock.outbox_state)';
const younger = '(select pg_snapshot_xmax(snapshot) from penstock.outbox_state)';

const countText = `
  select count(*)::int as count, (select last_value from penstock.outbox_seq_seq) - (select last_seq from penstock.outbox_state) as numbers
  from (select from (
    select xid from penstock.outbox where xid = any(${open}) union all
    (select xid from penstock.outbox where xid >= ${younger} order by xid, seq limit ${COUNTED})
  ) waiting limit ${COUNTED}) counted`;

/**
 * Events that wait for their position. Exact while they are few; of more than 10,000, how many numbers were given since
 * the last one that is published, which counts those of writes that were rolled back as well.
 */
export async function countWaiting(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number; numbers: string }>({ text: countText, name: statementName(countText) });
  const { count = 0, numbers = '0' } = rows[0] ?? {};
  return count < COUNTED ? count : Math.max(count, Number(numbers));
}

const oldestText = `
  select extract(epoch from now() - min(occurred_at))::float8 as seconds from (
    (select occurred_at from penstock.outbox where xid = any(${open}) order by xid, seq limit 1) union all
    (select occurred_at from penstock.outbox where xid >= ${younger} order by xid, seq limit 1)
  ) oldest`;

/** Seconds that the oldest of them has waited; `undefined` when none waits. */
export async function waitingSince(database: Queryable): Promise<number | undefined> {
  const { rows } = await database.query<{ seconds: number | null }>({ text: oldestText, name: statementName(oldestText) });
  const seconds = rows[0]?.seconds ?? undefined;
  return seconds === undefined ? undefined : Math.max(0, seconds);
}

/** ISO 8601: when the event with the highest position happened; `undefined` when it is no longer kept. */
export async function lastPublishedAt(database: Queryable): Promise<string | undefined> {
  const { rows } = await database.query<{ at: Date }>(
    sql`
    select o.occurred_at as at from (select to_xid, to_seq from penstock.outbox_pages order by last_position desc limit 1) p
    join penstock.outbox o on o.xid = p.to_xid and o.seq = p.to_seq`,
  );
  return rows[0]?.at.toISOString();
}
