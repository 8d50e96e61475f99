/**
 * Whether all nodes keep files in one folder (decision 457). Each folder has a mark, each node says which one it sees, and
 * nodes that see others are told of: what one of them takes in the others cannot read.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Kernel } from '../../../host/kernel.ts';
import type { HealthResult } from '../../../kernel/health.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageConfig } from '../config.ts';
import { codeOf } from '../providers/local/folders.ts';
import { forgetFolder, noteFolder } from '../queries/node-folders.ts';
import { localRoot } from './open-stores.ts';

export interface NodeFolders {
  /** Looks, and says in the log what is wrong. Throws nothing. */
  look(): Promise<void>;
  /** The same for `/ready`. */
  check(): Promise<HealthResult>;
  /** This node keeps no files any more. */
  leave(): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'bus'> {
  readonly config: () => StorageConfig;
  readonly dataDir: string;
  /** Opens the store, which makes the folder. */
  readonly provider: () => Promise<unknown>;
  readonly log: Logger;
}

const apart =
  'another node keeps files in a folder of its own: files of one are missing at the other. Set local.storagePath to a folder that all nodes share, or take another provider';

export function createNodeFolders({
  database,
  bus,
  config,
  dataDir,
  provider,
  log,
}: Dependencies): NodeFolders {
  const isApart = async (): Promise<boolean> => {
    const now = config();
    if (now.provider !== 'local') return false;
    await provider();
    return noteFolder(database, bus.nodeId, await markOf(localRoot(now, dataDir)));
  };
  return {
    async look() {
      try {
        if (await isApart()) log.warn({ folder: localRoot(config(), dataDir) }, sentence(apart));
        if (config().provider !== 'local') await forgetFolder(database, bus.nodeId);
      } catch (error) {
        log.warn({ err: error }, 'Whether all nodes keep files in one folder is not known');
      }
    },
    // A disk or a database that cannot be asked is told of elsewhere.
    check: async () =>
      (await isApart().catch(() => false))
        ? { status: 'warn', message: apart }
        : { status: 'pass' },
    leave: () => forgetFolder(database, bus.nodeId),
  };
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** No bucket's name begins with a dot. */
const markName = '.folder';
/** Milliseconds, and how often, for another node that has just made the mark and not written it. */
const WAIT_MS = 50;
const WAITS = 20;

/** The mark of a folder, which the first who asks makes. */
async function markOf(root: string): Promise<string> {
  const path = join(root, markName);
  await writeFile(path, newId(), { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error;
  });
  for (let tries = 0; tries < WAITS; tries += 1) {
    const mark = (await readFile(path, 'utf8')).trim();
    if (mark !== '') return mark;
    await pause(WAIT_MS);
  }
  throw new Error(`The file ${markName} in the folder of files is empty: delete it`);
}
