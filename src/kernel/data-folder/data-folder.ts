/** The folder in which one node keeps what must outlive it: its database, its secrets, its logs. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { masterKeyWeakness } from '../settings/default-environment.ts';
import type { Settings } from '../settings/settings.ts';
import { StartError } from '../start-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type LockOwner, lockFolder } from './lock.ts';
import { openSecretsFile, type Secrets } from './secrets-file.ts';

export interface DataFolder {
  /** Absolute. */
  readonly path: string;
  /**
   * The key in force: of the environment, else the stored one, else a new one, which is stored.
   * @throws StartError when the folder was used with a key of the environment, and there is none now.
   */
  masterKey(): Promise<string>;
  /** Keeps the first password where the operator can find it. */
  rememberAdminPassword(username: string, password: string): Promise<void>;
  /** What was made here and never answered by this before, also by starts that failed. For the operator's eyes. */
  takeUnseen(): Promise<Omit<Secrets, 'unshown'>>;
  /** Writes down which kind of database the folder belongs to. Only once that database is open: a wrong DATABASE_URL changes nothing. */
  noteDatabase(): Promise<void>;
  /** Lets another process use the folder. */
  close(): Promise<void>;
}

const MASTER_KEY_BYTES = 32;
/** Version of the folder's layout, in its file VERSION. */
const LAYOUT = 1;

/** Stands in the folder while a restore puts files in their places, which are not all there before it has gone. */
export const restoreMarker = (folder: string): string => join(folder, 'restoring');

type DataFolderSettings = Pick<Settings, 'dataDir' | 'masterKey' | 'databaseUrl'>;

/**
 * Opens the data folder for this process alone; makes it (mode 700) when it does not exist.
 * @throws StartError when it cannot be used, another process uses it, or a restore into it was killed.
 */
export async function openDataFolder(
  settings: DataFolderSettings,
  log: Logger,
  owner?: LockOwner,
): Promise<DataFolder> {
  const path = settings.dataDir;
  const engine = settings.databaseUrl === undefined ? 'embedded' : 'external';
  await makeFolder(path);
  const lock = await lockFolder(path, owner);
  let usedBefore: boolean;
  try {
    usedBefore = await checkVersion(path, engine, log);
  } catch (error) {
    await lock.release();
    throw error;
  }
  const secrets = openSecretsFile(path);
  const remember = async (name: 'masterKey' | 'admin', made: Secrets): Promise<void> => {
    const { unshown: unseen = [] } = await secrets.read();
    await secrets.merge({ ...made, unshown: [...new Set([...unseen, name])] });
  };
  return {
    path,
    async masterKey() {
      if (settings.masterKey !== undefined) {
        const weakness = masterKeyWeakness(settings.masterKey);
        if (weakness)
          log.warn(
            {},
            `MASTER_KEY ${weakness}: anybody may guess it. Never use it where others can reach this server`,
          );
        return settings.masterKey;
      }
      const { masterKey: stored } = await secrets.read();
      if (stored !== undefined) return stored;
      // A new key could open nothing of what is there.
      if (usedBefore) {
        throw new StartError(
          `The master key of the data in ${path} is missing: put secrets.json back from your backup, or, when the key came from the environment, set MASTER_KEY to the same value again`,
        );
      }
      const made = randomBytes(MASTER_KEY_BYTES).toString('base64url');
      await remember('masterKey', { masterKey: made });
      return made;
    },
    rememberAdminPassword: (username, password) =>
      remember('admin', { admin: { username, password } }),
    async takeUnseen() {
      const { masterKey, admin, unshown: unseen = [] } = await secrets.read();
      if (unseen.length === 0) return {};
      await secrets.merge({ unshown: [] });
      return {
        ...(unseen.includes('masterKey') && settings.masterKey === undefined ? { masterKey } : {}),
        ...(unseen.includes('admin') ? { admin } : {}),
      };
    },
    noteDatabase: () =>
      writeFile(versionFile(path), `layout ${LAYOUT}\nengine ${engine}\n`, { mode: 0o600 }),
    close: () => lock.release(),
  };
}

/** Some of what was to be restored may stand in its place, beside a database without it. */
async function requireRestored(folder: string): Promise<void> {
  if (await stat(restoreMarker(folder)).catch(() => undefined))
    throw new StartError(
      `A restore into ${folder} was killed before it ended: remove this folder, empty the database of DATABASE_URL if there is one, and restore again`,
    );
}

async function makeFolder(path: string): Promise<void> {
  try {
    await makeWithParents(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'EEXIST' || code === 'ENOTDIR')
      throw new StartError(
        `The data folder ${path} is a file, or lies below one: set PENSTOCK_DATA_DIR to a folder`,
        { cause },
      );
    throw new StartError(
      `The data folder ${path} cannot be used (${code}): make it writable for this user, or set PENSTOCK_DATA_DIR`,
      {
        cause,
      },
    );
  }
}

/** Step by step: `recursive` of Node never ends where the system makes no folders at all, as in /proc. */
async function makeWithParents(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error;
    await makeWithParents(dirname(path));
    await makeOne(path);
  }
}

/** Another process may have made it first. */
async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const isThere =
      (error as NodeJS.ErrnoException).code === 'EEXIST' && (await stat(path)).isDirectory();
    if (!isThere) throw error;
  }
}

type Engine = 'embedded' | 'external';

/** Refuses what a killed restore left and the layout of a later version, and says so when the data now comes from elsewhere. True when the folder was used before. */
async function checkVersion(folder: string, engine: Engine, log: Logger): Promise<boolean> {
  await requireRestored(folder);
  const text = await readFile(versionFile(folder), 'utf8').catch(() => undefined);
  const [, layout, before] = /^layout (\d+)\nengine (\w+)/.exec(text ?? '') ?? [];
  if (layout !== undefined && Number(layout) > LAYOUT) {
    throw new StartError(
      `The data folder ${folder} was written by a newer version of Penstock: start that version or newer`,
    );
  }
  if (before === 'embedded' && engine !== before)
    log.warn(
      {},
      'The data folder holds an embedded database, which is not used while DATABASE_URL is set',
    );
  if (before === 'external' && engine !== before)
    log.warn(
      {},
      'DATABASE_URL was set before and is not now: the platform starts on its own, embedded database',
    );
  return before !== undefined;
}

const versionFile = (folder: string): string => join(folder, 'VERSION');
