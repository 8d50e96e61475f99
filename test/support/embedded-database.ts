import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { SUPERUSER } from '../../src/kernel/database/embedded/initialise.ts';

/** Connects to the embedded server of a running platform, past the platform; for tests that look at what is stored. */
export async function connectToEmbedded(dataDir: string): Promise<pg.Client> {
  const lines = (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n');
  const [port, socketFolder] = [Number(lines[3]), lines[4] ?? ''];
  const client = new pg.Client({ host: socketFolder, port, user: SUPERUSER, database: 'penstock' });
  await client.connect();
  return client;
}
