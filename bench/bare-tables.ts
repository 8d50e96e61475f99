/** Tables for the bare program: the same columns, indexes, foreign keys and rows as ours, on the same server. */
import pg from 'pg';

export interface BareTables {
  /** Qualified and quoted. */
  readonly readTable: string;
  readonly writeTable: string;
  readonly authorTable: string;
  readonly sharedTable: string;
  readonly grantTable: string;
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
export async function createBareTables(
  connection: pg.ClientConfig,
  names: BenchSchemas,
  grants: readonly Grant[],
): Promise<BareTables> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    await client.query('create schema bare');
    const authorTable = await copyTable(client, names.author);
    const readTable = await copyTable(client, names.read);
    const writeTable = await copyTable(client, names.write);
    const sharedTable = await copyTable(client, names.shared);
    const grantTable = 'bare.grants';
    await client.query(
      `create table ${grantTable} (subject uuid, record uuid, primary key (subject, record))`,
    );
    await client.query(`insert into ${grantTable} select * from unnest($1::uuid[], $2::uuid[])`, [
      grants.map(({ user }) => user),
      grants.map(({ record }) => record),
    ]);
    await client.query('vacuum analyze');
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    return {
      readTable,
      writeTable,
      authorTable,
      sharedTable,
      grantTable,
      serverVersion: rows[0]?.server_version ?? 'unknown',
    };
  } finally {
    await client.end();
  }
}

export interface BenchSchemas {
  readonly read: string;
  readonly write: string;
  readonly author: string;
  readonly shared: string;
}

export interface Grant {
  readonly user: string;
  readonly record: string;
}
