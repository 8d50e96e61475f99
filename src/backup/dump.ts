/** Makes a backup: one consistent picture of the database, and the local files. */

import type { Dirent } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import type pg from 'pg';
import { readSecrets, type Secrets } from '../kernel/data-folder/secrets-file.ts';
import { opensDataKey } from '../kernel/security/secret-box.ts';
import { StartError } from '../kernel/start-error.ts';
import { version } from '../kernel/version.ts';
import { type ArchiveWriter, createArchiveWriter } from './archive-writer.ts';
import { type Amount, isHalfWritten, storageFolder, writeContents } from './contents.ts';
import {
  contentsFolder,
  FORMAT,
  filesFolder,
  type Header,
  headerName,
  keysName,
  type Manifest,
  manifestName,
  type Progress,
  readRows,
  storedFolder,
  structureName,
  tableFolder,
  textPart,
} from './format.ts';
import { type Keys, migrationsOf, signatureOf, tablesOfOthers, wrappedKey } from './keys.ts';
import { withSnapshot } from './snapshot.ts';
import { readStructure } from './structure.ts';
import type { TableFacts } from './tables.ts';

/* The local files that a backup takes along. */

interface FoundFile {
  /** Path below the folder, with `/`. */
  readonly name: string;
  readonly path: string;
  readonly size: number;
}

/**
 * Every file below the folder, by name. Links are not followed: they may lead anywhere, and are named with what else is no file.
 * @throws StartError when a folder cannot be read: files would be missing, and nobody would know.
 */
async function findFiles(
  folder: string,
): Promise<{ readonly found: readonly FoundFile[]; readonly noFiles: readonly string[] }> {
  const found: FoundFile[] = [];
  const noFiles: string[] = [];
  for await (const entry of entriesBelow(folder)) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(folder, path).split(sep).join('/');
    if (!entry.isFile()) noFiles.push(name);
    else found.push({ name, path, size: (await stat(path).catch(() => undefined))?.size ?? 0 });
  }
  return { found: found.sort((a, b) => (a.name < b.name ? -1 : 1)), noFiles: noFiles.sort() };
}

/** All but folders. Folders that go away meanwhile, as they do with the last file in them, are as if they had not been there. */
async function* entriesBelow(top: string): AsyncGenerator<Dirent> {
  const folders = [top];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const path = folder;
    const entries = await readdir(path, { withFileTypes: true }).catch((cause) => {
      if (cause.code === 'ENOENT') return [];
      throw new StartError(
        `The files in ${path} cannot be read (${cause.code ?? cause.message}): a backup without them would not be whole`,
        { cause },
      );
    });
    for (const entry of entries)
      if (entry.isDirectory()) folders.push(join(path, entry.name));
      else yield entry;
  }
}

interface DumpOptions {
  readonly client: pg.Client;
  readonly path: string;
  readonly dataDir: string;
  /** Puts the data folder's secrets into the archive as well. */
  readonly withKeys: boolean;
  /** Of the installation: they sign the backup. */
  readonly keys: Keys;
  /** What it throws stops the work, and nothing is left of it. */
  readonly onProgress: Progress;
}

export interface DumpResult {
  readonly tables: number;
  readonly rows: number;
  readonly files: number;
  /** Contents of users' files on stores outside: not in the backup. */
  readonly outside: Amount;
  /** The keys that were given are those of the installation. */
  readonly signed: boolean;
  /** Tables that the platform serves in place and does not own: they are not in the backup. */
  readonly tablesOfOthers: readonly string[];
  /** What lies among the local files and is no file: links, sockets. It is not in the backup. */
  readonly noFiles: readonly string[];
}

/** Folder of local files in the data folder. */
export const localFiles = 'files';
/** Rows are cut into parts of about this many bytes: a part is kept in memory, and its size stands before it. */
const PART_BYTES = 4 * 1024 * 1024;

export async function dump(options: DumpOptions): Promise<DumpResult> {
  const archive = await createArchiveWriter(options.path);
  try {
    const result = await write(options, archive);
    await archive.finish();
    return result;
  } catch (error) {
    await archive.abandon();
    throw error;
  }
}

async function write(
  { client, dataDir, withKeys, keys, onProgress }: DumpOptions,
  archive: ArchiveWriter,
): Promise<DumpResult> {
  // First: a backup of hours is not in vain where they are not known.
  const secrets = withKeys ? await secretsWithKey(client, dataDir, keys) : undefined;
  const { found, noFiles } = await findFiles(join(dataDir, localFiles));
  const ahead = found.reduce((all, { size }) => all + size, 0);
  const { total, ...database } = await withSnapshot(client, (schemas) =>
    writeDatabase(client, { schemas, archive, ahead, onProgress }),
  );
  const files = await writeFiles(filesFolder, found, archive, {
    done: total - ahead,
    total,
    onProgress,
  });
  // After the moment of the database: whatever it names was there by then.
  const stored = await findFiles(join(dataDir, storageFolder));
  const whole = stored.found.filter(({ name }) => !isHalfWritten(name));
  const contents = await writeFiles(storedFolder, whole, archive, {
    done: total,
    total: total + whole.reduce((all, { size }) => all + size, 0),
    onProgress,
  });
  if (secrets) await archive.add(keysName, Buffer.from(JSON.stringify(secrets)));
  const manifest: Manifest = { format: FORMAT, entries: [...archive.entries], ...database };
  const signature = signatureOf(manifest, keys);
  const signed = { ...manifest, ...(signature && { signature }) };
  await archive.add(manifestName, textPart(manifestName, signed));
  const { tables, tablesOfOthers = [] } = database;
  return {
    tables: tables.length,
    rows: tables.reduce((all, { rows }) => all + rows, 0),
    files: files + contents,
    outside: database.outside,
    signed: signature !== undefined,
    tablesOfOthers,
    noFiles: [...noFiles, ...stored.noFiles],
  };
}

/** The data folder's secrets, with the master key also where that comes from the environment. @throws StartError when it does not open the database. */
async function secretsWithKey(client: pg.Client, dataDir: string, keys: Keys): Promise<Secrets> {
  const secrets = await readSecrets(dataDir);
  const { masterKey = secrets.masterKey } = keys;
  const wrapped = await wrappedKey(client);
  if (masterKey !== undefined && (wrapped === null || opensDataKey(wrapped, { masterKey })))
    return { ...secrets, masterKey };
  throw new StartError(
    'The key that opens the secrets of this installation is not known here as its master key: set MASTER_KEY to it, or make the backup without --with-keys (a CONFIG_ENCRYPTION_KEY is never in a backup: keep it elsewhere)',
  );
}

interface DatabaseOptions {
  readonly schemas: readonly string[];
  readonly archive: ArchiveWriter;
  /** Bytes of the files that follow. */
  readonly ahead: number;
  readonly onProgress: Progress;
}

async function writeDatabase(
  client: pg.Client,
  { schemas, archive, ahead, onProgress }: DatabaseOptions,
) {
  await archive.add(headerName, textPart(headerName, await headerOf(client)));
  const { structure, tables } = await readStructure(client, schemas);
  await archive.add(structureName, textPart(structureName, structure));
  const total = tables.reduce((all, { size }) => all + size, ahead);
  return {
    total,
    tables: await writeTables(client, tables, archive, { done: 0, total, onProgress }),
    outside: await listOutside(client, archive),
    wrappedKey: await wrappedKey(client),
    migrations: await migrationsOf(client),
    tablesOfOthers: await tablesOfOthers(client),
  };
}

/** Writes down which contents there must be; answers what lies on stores outside. */
async function listOutside(client: pg.Client, archive: ArchiveWriter): Promise<Amount> {
  const parts = partsInto(archive, contentsFolder);
  const { outside } = await writeContents(client, parts.take);
  await parts.flush();
  return outside;
}

async function headerOf(client: pg.Client): Promise<Header> {
  const { rows } = await client.query<{ postgres: string; now: Date }>(
    `select current_setting('server_version') as postgres, now()`,
  );
  return {
    penstockBackup: FORMAT,
    version,
    postgres: rows[0]?.postgres ?? '',
    createdAt: (rows[0]?.now ?? new Date()).toISOString(),
  };
}

/** How far the whole work is when a part of it begins. Bytes, as far as they can be known before. */
interface Way {
  readonly done: number;
  readonly total: number;
  readonly onProgress: Progress;
}

async function writeTables(
  client: pg.Client,
  tables: readonly TableFacts[],
  archive: ArchiveWriter,
  { done: before, total, onProgress }: Way,
): Promise<Manifest['tables']> {
  const entries: Manifest['tables'] = [];
  let done = before;
  for (const [index, table] of tables.entries()) {
    const what = `${table.schema}.${table.name}`;
    let read = 0;
    onProgress({ what, done, total });
    const parts = partsInto(archive, tableFolder(index));
    const digest = await readRows(client, table, async (piece) => {
      await parts.take(piece);
      read += piece.length;
      onProgress({ what, done: done + Math.min(read, table.size), total });
    });
    await parts.flush();
    entries.push({
      schema: table.schema,
      name: table.name,
      columns: [...table.columns],
      ...digest,
    });
    done += table.size;
  }
  return entries;
}

/** Collects pieces until a part is full. */
function partsInto(archive: ArchiveWriter, folder: string) {
  let pieces: Buffer[] = [];
  let size = 0;
  let part = 0;
  const flush = async (): Promise<void> => {
    if (size === 0) return;
    const content = Buffer.concat(pieces);
    pieces = [];
    size = 0;
    await archive.add(`${folder}${String(part++).padStart(6, '0')}`, content);
  };
  return {
    flush,
    async take(piece: Buffer): Promise<void> {
      pieces.push(piece);
      size += piece.length;
      if (size >= PART_BYTES) await flush();
    },
  };
}

async function writeFiles(
  folder: string,
  files: readonly FoundFile[],
  archive: ArchiveWriter,
  { done: before, total, onProgress }: Way,
): Promise<number> {
  let done = before;
  let count = 0;
  for (const { name, path } of files) {
    const onRead = (bytes: number): void => {
      done += bytes;
      onProgress({ what: `file ${name}`, done, total });
    };
    onRead(0);
    if (await archive.addFile(`${folder}${name}`, path, onRead)) count += 1;
  }
  return count;
}
