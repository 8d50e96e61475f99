/** Restores a backup into a throw-away server and compares what arrived with what was written. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import type { Logger } from '../kernel/telemetry/logger.ts';
import type { ProvenArchive } from './archive-reader.ts';
import { type Progress, readRows, type TableEntry } from './format.ts';
import { load } from './load.ts';
import { startFor } from './source.ts';

export interface Verification {
  readonly tables: number;
  readonly rows: number;
  /** One sentence per table that differs. */
  readonly differences: readonly string[];
}

export async function verify(
  archive: ProvenArchive,
  log: Logger,
  onProgress: Progress,
): Promise<Verification> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-verify-'));
  try {
    // The server may run as another user, which only has to pass.
    await chmod(folder, 0o711);
    const connection = await startFor(join(folder, 'postgres'), folder, log);
    try {
      await load({ client: connection.client, archive, target: undefined, onProgress });
      return await compareTables(connection.client, archive.manifest.tables, onProgress);
    } finally {
      await connection.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A table that was filled in one go gives its rows back in the same order and in the same words. */
async function compareTables(
  client: pg.Client,
  tables: readonly TableEntry[],
  onProgress: Progress,
): Promise<Verification> {
  const differences: string[] = [];
  let rows = 0;
  for (const [index, table] of tables.entries()) {
    const name = `${table.schema}.${table.name}`;
    onProgress({ what: `comparing ${name}`, done: index, total: tables.length });
    const found = await readRows(client, table, () => undefined);
    rows += found.rows;
    if (found.rows !== table.rows)
      differences.push(`${name} has ${found.rows} rows, not ${table.rows}`);
    else if (found.sha256 !== table.sha256)
      differences.push(`${name} has the right number of rows, but other values`);
  }
  return { tables: tables.length, rows, differences };
}
