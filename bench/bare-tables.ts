/** Tables for the bare program: the same columns, indexes, foreign keys and rows as ours, on the same server. */
import pg from 'pg';

export interface BareTables {
  /** Qualified and quoted. */
  readonly readTable: string;
  readonly writeTable: string;
  /** For example `18.4`. */
  readonly serverVersion: string;
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

async function copyTable(client: pg.Client, name: string): Promise<string> {
  const source = `app.${quoted(name)}`;
  const copy = `bare.${quoted(name)}`;
  await client.query(`create table ${copy} (like ${source} including all)`);
  await client.query(`insert into ${copy} select * from ${source}`);
  const { rows } = await client.query<{ definition: string }>(
    `select pg_get_constraintdef(oid) as definition from pg_constraint where contype = 'f' and conrelid = $1::regclass`,
    [source],
  );
  for (const { definition } of rows) await client.query(`alter table ${copy} add ${definition}`);
  return copy;
}

/** Makes the copies, and brings both sides to the same state of statistics and visibility. */
export async function createBareTables(connection: pg.ClientConfig, schemas: { read: string; write: string }): Promise<BareTables> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    await client.query('create schema bare');
    const readTable = await copyTable(client, schemas.read);
    const writeTable = await copyTable(client, schemas.write);
    for (const table of [readTable, writeTable, `app.${quoted(schemas.read)}`, `app.${quoted(schemas.write)}`]) {
      await client.query(`vacuum analyze ${table}`);
    }
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    return { readTable, writeTable, serverVersion: rows[0]?.server_version ?? 'unknown' };
  } finally {
    await client.end();
  }
}
