/** One moment of the database, seen by one connection while others go on writing. */
import type pg from 'pg';
import { codeOf } from '../kernel/database/failures.ts';
import { identifier } from '../kernel/database/sql.ts';
import { jobSchema } from '../kernel/jobs/queues.ts';
import { StartError } from '../kernel/start-error.ts';

/** The platform's own. What operators keep elsewhere in the database is theirs, and not in the backup. */
const platformSchemas = ['penstock', 'app', jobSchema];

export async function presentSchemas(client: pg.ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    'select nspname as name from pg_namespace where nspname = any($1::text[]) order by nspname desc',
    [platformSchemas],
  );
  return rows.map(({ name }) => name);
}

/** Tables come and go while we ask for their locks; so often in a row nobody makes or drops them. */
const ATTEMPTS = 20;

/**
 * Runs `work` with everything as of one moment. All tables are locked against changes of their form before that moment:
 * a table that is rewritten or truncated later looks empty from an earlier moment, and the backup would be so, silently.
 */
export async function withSnapshot<T>(
  client: pg.Client,
  work: (schemas: readonly string[]) => Promise<T>,
): Promise<T> {
  try {
    return await work(await openSnapshot(client));
  } finally {
    await client.query('rollback').catch(() => undefined);
  }
}

async function openSnapshot(client: pg.Client): Promise<readonly string[]> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const schemas = await presentSchemas(client);
    const tables = await tableNames(client, schemas);
    await client.query('begin isolation level repeatable read, read only');
    try {
      // The moment is that of the first statement after the locks (PostgreSQL manual, LOCK).
      if (tables.length > 0)
        await client.query(`lock table ${tables.join(', ')} in access share mode`);
      if ((await tableNames(client, await presentSchemas(client))).join() === tables.join())
        return schemas;
    } catch (error) {
      if (!isGone(error)) throw explained(error);
    }
    await client.query('rollback');
  }
  throw new StartError(
    'Tables are made and dropped all the time: make the backup when that is over',
  );
}

/** Undefined table: it was dropped before its lock was had. */
const isGone = (error: unknown): boolean => codeOf(error) === '42P01';

/** lock_not_available */
const explained = (error: unknown): unknown =>
  codeOf(error) === '55P03'
    ? new StartError(
        'A schema is being changed, and holds its table for long: make the backup when that is over',
        { cause: error },
      )
    : error;

async function tableNames(client: pg.ClientBase, schemas: readonly string[]): Promise<string[]> {
  const { rows } = await client.query<{ schema: string; name: string }>(
    `select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any($1::text[]) and c.relkind in ('r', 'p') order by c.oid`,
    [schemas],
  );
  return rows.map(({ schema, name }) => `${identifier(schema)}.${identifier(name)}`);
}
