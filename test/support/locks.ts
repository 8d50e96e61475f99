/** What the server says of who waits for whom. */
import type { Database } from '../../src/kernel/database/database.ts';

/** Whether a statement in this database waits for a lock that another one holds. */
export async function isWaiting(database: Pick<Database, 'query'>): Promise<boolean> {
  const text = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return (await database.query({ text })).count > 0;
}
