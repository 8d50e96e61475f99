/** `penstock backup <file>`, `penstock backup verify <file>` and `penstock restore <file>`. */
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type ProvenArchive, proveArchive } from '../backup/archive-reader.ts';
import { compareContents, storageFolder } from '../backup/contents.ts';
import { dump, localFiles } from '../backup/dump.ts';
import { keysName, type Manifest, type Progress } from '../backup/format.ts';
import { checkKeys, checkSignature, type Keys, type Signature } from '../backup/keys.ts';
import { type LoadResult, type LoadTarget, load } from '../backup/load.ts';
import { connectExternal, connectToSource, startFor } from '../backup/source.ts';
import { verify } from '../backup/verify.ts';
import { openDataFolder, restoreMarker } from '../kernel/data-folder/data-folder.ts';
import { readSecrets } from '../kernel/data-folder/secrets-file.ts';
import { refuseUnknown } from '../kernel/database/migrate.ts';
import { readSettings, type Settings } from '../kernel/settings/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import { createLogger } from '../kernel/telemetry/create-logger.ts';
import type { Logger } from '../kernel/telemetry/logger.ts';
import { platformMigrations } from '../platform.ts';
import { createProgressLine, type ProgressLine, sizeText } from './progress-line.ts';
import { listenForStop } from './stop-signal.ts';

export const backupUsage = `Usage: penstock backup <file> [--with-keys]
       penstock backup verify <file> [--accept-unsigned]
       penstock restore <file> [--accept-unsigned]
See docs/operations/backup.md`;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** Answers the exit code. */
export async function backup(args: readonly string[]): Promise<number> {
  const options = args.filter((arg) => arg.startsWith('-'));
  const [first, second, ...rest] = args.filter((arg) => !arg.startsWith('-'));
  const isVerify = first === 'verify';
  const known = isVerify ? '--accept-unsigned' : '--with-keys';
  const isWrong = options.some((option) => option !== known) || rest.length > 0;
  const file = isVerify ? second : first;
  // An empty name is a variable of a script that was not set.
  if (!file || isWrong || (second !== undefined && !isVerify)) throw new StartError(backupUsage);
  return isVerify
    ? verifyBackup(resolve(file), options.length > 0)
    : makeBackup(resolve(file), options.length > 0);
}

async function makeBackup(path: string, withKeys: boolean): Promise<number> {
  if (await stat(path).catch(() => undefined))
    throw new StartError(
      `${path} exists already: choose another name, a backup overwrites nothing`,
    );
  const { settings, log } = environment();
  requireSession(settings);
  const line = stoppableLine();
  const connection = await connectToSource(settings, log);
  try {
    const { dataDir } = settings;
    const made = await dump({
      client: connection.client,
      path,
      dataDir,
      withKeys,
      keys: await knownKeys(settings),
      onProgress: line.show,
    });
    line.end();
    const { size } = await stat(path);
    print(
      `Backup made: ${path} (${sizeText(size)}; ${made.tables} tables, ${made.rows} rows, ${made.files} files)`,
    );
    if (made.tablesOfOthers.length > 0) {
      print(
        `Not in it: ${listed(made.tablesOfOthers, 'table')} served in place that the platform does not own. Back up these yourself.`,
      );
    }
    if (made.outside.files > 0)
      print(
        `Not in it: the contents of ${made.outside.files} files (${sizeText(made.outside.bytes)}) on other stores. They are listed in its folder contents; keep them there, or back them up as well.`,
      );
    if (made.noFiles.length > 0)
      print(
        `Not in it: ${listed(made.noFiles, 'entry', 'entries')} of ${join(dataDir, localFiles)} that are no files (links, sockets).`,
      );
    if (!made.signed)
      print(
        'It is not signed, because the key of this installation is not known here: set MASTER_KEY (or CONFIG_ENCRYPTION_KEY) for the backup.',
      );
    print(
      withKeys
        ? 'It holds the keys of this installation: whoever has the file owns the platform. Keep it as you keep them.'
        : 'Secrets in it stay sealed: keep MASTER_KEY (or CONFIG_ENCRYPTION_KEY) elsewhere, a restore needs it.',
    );
    return 0;
  } finally {
    line.end();
    await connection.close();
  }
}

/** Those of the environment, else the one that the data folder keeps. */
async function knownKeys(settings: Settings): Promise<Keys> {
  if (settings.masterKey !== undefined || settings.configEncryptionKey !== undefined)
    return settings;
  const { masterKey } = await readSecrets(settings.dataDir);
  return { ...settings, masterKey };
}

const signatures: Readonly<Record<Signature, string>> = {
  signed: 'signed by this installation, and unchanged since',
  unsigned: 'not signed: nothing shows that nobody has changed it',
  changed: 'changed by somebody, or made by another installation: do not restore it',
  foreign: 'of an installation with other keys: nothing shows who made it',
  unknown: 'signature not checked: set MASTER_KEY (or CONFIG_ENCRYPTION_KEY) for that',
};

async function verifyBackup(path: string, acceptUnsigned: boolean): Promise<number> {
  const { settings, log } = environment();
  const line = stoppableLine();
  try {
    const archive = await proveArchive(path, line.show);
    const signature = checkSignature(archive.manifest, await knownKeys(settings));
    // First: what it says runs in the throw-away server as well, which is no prison.
    requireSigned(path, signature, acceptUnsigned);
    const { tables, rows, differences } = await verify(archive, log, line.show);
    line.end();
    for (const difference of differences) print(`DIFFERS  ${difference}`);
    const isGood = differences.length === 0;
    print(
      `${isGood ? 'ok' : 'FAILED'}  ${path}: ${tables} tables, ${rows} rows restored and compared (made ${archive.header.createdAt}); ${signatures[signature]}`,
    );
    return isGood ? 0 : 1;
  } finally {
    line.end();
  }
}

/** `penstock restore <file>`: into an empty instance only. */
export async function restore(args: readonly string[]): Promise<number> {
  const acceptUnsigned = args.includes('--accept-unsigned');
  const [file, ...rest] = args.filter((arg) => arg !== '--accept-unsigned');
  if (!file || rest.length > 0 || file.startsWith('-')) throw new StartError(backupUsage);
  const path = resolve(file);
  const { settings, log } = environment();
  requireSession(settings);
  await requireNoFiles(targetIn(settings.dataDir));
  const line = stoppableLine();
  try {
    const archive = await proveArchive(path, line.show);
    refuseUnknown(new Set(archive.manifest.migrations), platformMigrations, `${path} is of`);
    const keys = checkKeys(archive.manifest, settings);
    const signature = checkSignature(archive.manifest, settings);
    requireSigned(path, signature, acceptUnsigned);
    const restored = await restoreInto(settings, archive, { log, show: line.show });
    line.end();
    reportRestored(archive, restored.missingExtensions, keys);
    reportContents(restored);
    if (signature === 'unknown') print(`The backup was restored with its ${signatures.unknown}.`);
    return 0;
  } finally {
    line.end();
  }
}

/** @throws StartError for a file that somebody else may have made or changed: what it says would run in the database. */
function requireSigned(path: string, signature: Signature, acceptUnsigned: boolean): void {
  if (signature === 'changed')
    throw new StartError(`${path} is ${signatures.changed}. Nothing was changed.`);
  if ((signature === 'unsigned' || signature === 'foreign') && !acceptUnsigned)
    throw new StartError(
      `${path} is ${signatures[signature]}. If only you could write to it, say --accept-unsigned. Nothing was changed.`,
    );
}

function reportRestored(
  { manifest, header }: ProvenArchive,
  missingExtensions: readonly string[],
  keys: ReturnType<typeof checkKeys>,
): void {
  const { tables, entries, tablesOfOthers = [] }: Manifest = manifest;
  print(
    `Restored: ${tables.length} tables, ${tables.reduce((all, { rows }) => all + rows, 0)} rows, as of ${header.createdAt}.`,
  );
  if (tablesOfOthers.length > 0) {
    print(
      `Not in the backup: ${listed(tablesOfOthers, 'table')} served in place. Bring these back into the same database before you start.`,
    );
  }
  if (missingExtensions.length > 0)
    print(
      `This server does not have ${listed(missingExtensions, 'extension')}; nothing that was restored needs them.`,
    );
  const broughtKeys = entries.some(({ name }) => name === keysName);
  print(
    keys === 'unknown' && !broughtKeys
      ? 'Start with MASTER_KEY (or CONFIG_ENCRYPTION_KEY) set to the one of the installation that was backed up.'
      : 'Start with: penstock start',
  );
}

/** Which contents of users' files did not come with the backup. */
function reportContents({ missing, outside }: Awaited<ReturnType<typeof compareContents>>): void {
  if (outside.files > 0)
    print(
      `Not in the backup: the contents of ${outside.files} files (${sizeText(outside.bytes)}) on other stores. POST /storage/reconcile with dryRun tells which of them are missing.`,
    );
  if (missing.length > 0)
    print(
      `Missing: the contents of ${listed(missing, 'file')}. They went away while the backup was made, or before.`,
    );
}

const LISTED = 20;

/** Such as `2 tables (a, b)`. */
function listed(names: readonly string[], one: string, many = `${one}s`): string {
  const more = names.length > LISTED ? `, and ${names.length - LISTED} more` : '';
  return `${names.length} ${names.length === 1 ? one : many} (${names.slice(0, LISTED).join(', ')}${more})`;
}

interface RestoreParts {
  readonly log: Logger;
  readonly show: Progress;
}

const targetIn = (dataDir: string): LoadTarget => ({
  filesFolder: join(dataDir, localFiles),
  storageFolder: join(dataDir, storageFolder),
  keysFile: join(dataDir, 'secrets.json'),
  marker: restoreMarker(dataDir),
});

async function requireNoFiles({ marker, ...target }: LoadTarget): Promise<void> {
  // What a restore left that was killed is told by the data folder, when it is opened.
  if (await stat(marker).catch(() => undefined)) return;
  for (const path of Object.values(target)) {
    if (await stat(path).catch(() => undefined))
      throw new StartError(
        `${path} exists already: restore into an empty data folder. Nothing was changed.`,
      );
  }
}

async function restoreInto(
  settings: Settings,
  archive: ProvenArchive,
  { log, show }: RestoreParts,
): Promise<LoadResult & Awaited<ReturnType<typeof compareContents>>> {
  const folder = await openDataFolder(settings, log);
  try {
    const target = targetIn(folder.path);
    // Looked at before, but by now the folder is ours alone.
    await requireNoFiles(target);
    const connection =
      settings.databaseUrl === undefined
        ? await startFor(join(folder.path, 'postgres'), folder.path, log)
        : await connectExternal(settings.databaseUrl);
    try {
      const result = await load({ client: connection.client, archive, target, onProgress: show });
      await folder.noteDatabase();
      return { ...result, ...(await compareContents(connection.client, target.storageFolder)) };
    } finally {
      await connection.close();
    }
  } finally {
    await folder.close();
  }
}

/** Backup and restore are long conversations with one server session, which a pooler does not give. */
function requireSession({ databaseUrl, databasePreparedStatements }: Settings): void {
  if (databaseUrl === undefined || databasePreparedStatements) return;
  throw new StartError(
    'DATABASE_PREPARED_STATEMENTS is off, so DATABASE_URL seems to name a pooler: for this command set DATABASE_URL to the PostgreSQL server itself, and unset DATABASE_PREPARED_STATEMENTS',
  );
}

/** A signal stops the work at its next step, and nothing of it is left. */
function stoppableLine(): ProgressLine {
  const line = createProgressLine();
  let stoppedBy: string | undefined;
  void listenForStop(undefined).requested.then((signal) => {
    stoppedBy = signal;
  });
  return {
    end: line.end,
    show(step) {
      if (stoppedBy !== undefined)
        throw new StartError(
          `Stopped by ${stoppedBy}: nothing was changed, and nothing half done is left`,
        );
      line.show(step);
    },
  };
}

function environment(): { settings: Settings; log: Logger } {
  const settings = readSettings(process.env);
  return { settings, log: createLogger({ ...settings, logLevel: 'error' }) };
}
