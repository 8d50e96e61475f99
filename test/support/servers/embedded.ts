import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedServer } from '../../../src/kernel/database/embedded/server.ts';
import { silentLog } from '../log.ts';
import type { PostgresServer } from './postgres.ts';

/** The embedded PostgreSQL that ships with us, once for all suites. No fsync: its data is thrown away. */
export async function startEmbeddedForTests(folder: string): Promise<PostgresServer> {
  const server = await startEmbeddedServer({
    folder: join(folder, 'postgres'),
    logFile: join(folder, 'postgres.log'),
    log: silentLog,
  });
  const target = await server.target('postgres');
  const client = new pg.Client({ ...target });
  await client.connect();
  for (const setting of ['fsync', 'full_page_writes', 'synchronous_commit'])
    await client.query(`ALTER SYSTEM SET ${setting} = off`);
  await client.query('SELECT pg_reload_conf()');
  await client.end();
  const place = new URLSearchParams({ host: target.host, port: String(target.port) });
  return {
    url: `postgresql://${target.user}@socket/${target.database}?${place}`,
    stop: () => server.stop(),
  };
}
