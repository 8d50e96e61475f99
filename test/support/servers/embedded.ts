import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedServer } from '../../../src/kernel/database/embedded/server.ts';
import { freePort } from '../free-port.ts';
import { silentLog } from '../log.ts';
import { testAdminPassword, testMasterKey } from '../node.ts';
import { waitFor } from '../wait-for.ts';
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

/** A data folder as the first start of `npm start` leaves it: those that are not about first starts begin with its copy. */
export async function startedDataFolder(folder: string): Promise<string> {
  const root = join(import.meta.dirname, '../../..');
  const [client, socket, admin] = [await freePort(), await freePort(), await freePort()];
  const child = spawn('node', [join(root, 'scripts/run.mjs'), 'start'], {
    cwd: root,
    env: {
      ...process.env,
      HOST: '127.0.0.1',
      CLIENT_HTTP_PORT: String(client),
      CLIENT_SOCKET_PORT: String(socket),
      ADMIN_HTTP_PORT: String(admin),
      ADMIN_SOCKET_PORT: '-1',
      MASTER_KEY: testMasterKey,
      ADMIN_INITIAL_PASSWORD: testAdminPassword,
      PENSTOCK_DATA_DIR: folder,
    },
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  const isReady = () =>
    fetch(`http://127.0.0.1:${admin}/ready`).then(({ status }) => status === 200);
  try {
    await waitFor(isReady, { timeoutMs: 60_000, what: 'the first start of a data folder' });
  } finally {
    child.kill('SIGTERM');
    await ended;
  }
  return folder;
}
