/** Puts a proven backup into an empty database: all of it, or nothing. */

import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, normalize, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { StartError } from '../kernel/start-error.ts';
import { cutText } from '../kernel/text.ts';
import type { ArchiveEntry, ProvenArchive } from './archive-reader.ts';
import { syncFolder } from './archive-writer.ts';
import {
  columnList,
  filesFolder,
  keysName,
  type Progress,
  storedFolder,
  type TableEntry,
  tableName,
} from './format.ts';
import { presentSchemas } from './snapshot.ts';

export interface LoadOptions {
  readonly client: pg.Client;
  readonly archive: ProvenArchive;
  /** Where local files and keys go; a draft beside their place until the database has committed. */
  readonly target: LoadTarget | undefined;
  readonly onProgress: Progress;
}

export interface LoadTarget {
  readonly filesFolder: string;
  /** Of the contents of users' files. */
  readonly storageFolder: string;
  readonly keysFile: string;
  /** A file that stands there from the first of them in its place until the database has committed. */
  readonly marker: string;
}

export interface LoadResult {
  /** Extensions of the database that was backed up which this server does not have, and nothing that was restored needs. */
  readonly missingExtensions: readonly string[];
}

/** @throws StartError when the database is not empty; whatever fails, nothing is left behind. */
export async function load({
  client,
  archive,
  target,
  onProgress,
}: LoadOptions): Promise<LoadResult> {
  await requireEmpty(client);
  const drafts = target
    ? {
        files: `${target.filesFolder}.restoring`,
        storage: `${target.storageFolder}.restoring`,
        keys: `${target.keysFile}.restoring`,
      }
    : undefined;
  const run = statementRunner(client);
  const placed: string[] = [];
  try {
    // Of a restore that was killed.
    await removeDrafts(drafts);
    await client.query('begin');
    for (const statement of archive.structure.before) await run.one(statement);
    await readEntries(client, archive, { drafts, onProgress });
    for (const [index, statement] of archive.structure.after.entries()) {
      onProgress({ what: 'keys and indexes', done: index, total: archive.structure.after.length });
      await run.one(statement);
    }
    // Before the commit: a database with its rows and without its files would look whole.
    if (target && drafts) await finishDrafts(drafts, target, placed);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    await removeDrafts(drafts);
    for (const path of placed) await rm(path, { recursive: true, force: true });
    if (target) await rm(target.marker, { force: true });
    throw run.explained(error);
  }
  if (target) await rm(target.marker, { force: true });
  // All is there by now: a server that cannot do this at once does it later by itself.
  await client.query('analyze').catch(() => undefined);
  return { missingExtensions: run.missing() };
}

interface Drafts {
  readonly files: string;
  readonly storage: string;
  readonly keys: string;
}

async function removeDrafts(drafts: Drafts | undefined): Promise<void> {
  if (drafts)
    await Promise.all(
      [drafts.files, drafts.storage, drafts.keys].map((draft) =>
        rm(draft, { recursive: true, force: true }),
      ),
    );
}

/** Notes in `placed` what stands in its place, so that it can be taken away again. */
async function finishDrafts(drafts: Drafts, target: LoadTarget, placed: string[]): Promise<void> {
  await writeFile(target.marker, '');
  for (const [draft, path] of [
    [drafts.files, target.filesFolder],
    [drafts.storage, target.storageFolder],
    [drafts.keys, target.keysFile],
  ] as const) {
    const isThere = await rename(draft, path).then(() => true, ifAbsent);
    if (!isThere) continue;
    placed.push(path);
    await syncFolder(dirname(path));
  }
}

async function requireEmpty(client: pg.Client): Promise<void> {
  const present = await presentSchemas(client);
  if (present.length === 0) return;
  throw new StartError(
    `The database is not empty (it holds ${present.join(', ')}): restore into a new PENSTOCK_DATA_DIR, or into a new database of DATABASE_URL. Nothing was changed.`,
  );
}

/** The server's extensions stand apart: one that is not to be had stops the work only if something needs it. */
const EXTENSION = /^(?:create schema if not exists \S+; )?create extension if not exists (\S+)/;

function statementRunner(client: pg.Client) {
  const refused = new Map<string, string>();
  const failure = (where: string, cause: unknown): StartError => {
    const extensions = [...refused]
      .map(([name, reason]) => `; the extension ${name} could not be made: ${reason}`)
      .join('');
    return new StartError(
      `The restore failed ${where}(${reasonOf(cause)}${extensions}): nothing was changed`,
      { cause },
    );
  };
  return {
    missing: () => [...refused.keys()],
    async one(statement: string): Promise<void> {
      const [, extension] = EXTENSION.exec(statement) ?? [];
      if (extension !== undefined) return tryExtension(extension, statement);
      // The statement says more than PostgreSQL's message alone.
      await client.query(statement).catch((cause: unknown) => {
        throw failure(`at "${cutText(statement, 200)}" `, cause);
      });
    },
    explained: (error: unknown): StartError =>
      error instanceof StartError ? error : failure('', error),
  };

  async function tryExtension(name: string, statement: string): Promise<void> {
    await client.query('savepoint extension');
    try {
      await client.query(statement);
    } catch (cause) {
      await client.query('rollback to savepoint extension');
      refused.set(name, reasonOf(cause));
    }
    await client.query('release savepoint extension');
  }
}

const reasonOf = (cause: unknown): string =>
  cause instanceof Error ? cause.message : String(cause);

interface ReadOptions {
  readonly drafts: Drafts | undefined;
  readonly onProgress: Progress;
}

async function readEntries(
  client: pg.Client,
  archive: ProvenArchive,
  { drafts, onProgress }: ReadOptions,
): Promise<void> {
  const { tables, entries } = archive.manifest;
  const total = entries.reduce((all, { size }) => all + size, 0);
  let done = 0;
  let current: RowSink | undefined;
  for await (const entry of archive.read()) {
    const index = tableIndex(entry.name);
    if (index !== current?.index) {
      await current?.end();
      current = index === undefined ? undefined : openSink(client, index, tables);
    }
    const what = current ? current.what : entry.name;
    const content = heard(entry.content, (bytes) => {
      done += bytes;
      onProgress({ what, done, total });
    });
    if (current) for await (const piece of content) await current.write(piece);
    else await keepFile({ ...entry, content }, drafts);
  }
  await current?.end();
}

/** The same pieces; `onPiece` is told how many bytes each had. */
async function* heard(
  content: AsyncIterable<Buffer>,
  onPiece: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  for await (const piece of content) {
    yield piece;
    onPiece(piece.length);
  }
}

/** Place of the table that a part belongs to. */
function tableIndex(name: string): number | undefined {
  const [, index] = /^data\/(\d+)\/\d+$/.exec(name) ?? [];
  return index === undefined ? undefined : Number(index);
}

interface RowSink {
  readonly index: number;
  readonly what: string;
  write(piece: Buffer): Promise<void>;
  end(): Promise<void>;
}

function openSink(client: pg.Client, index: number, tables: readonly TableEntry[]): RowSink {
  const table = tables[index];
  if (!table)
    throw new StartError(`The backup holds rows of a table ${index} that it does not describe`);
  const stream = client.query(copyFrom(`copy ${tableName(table)} ${columnList(table)} from stdin`));
  const ended = once(stream, 'finish');
  ended.catch(() => undefined);
  return {
    index,
    what: `${table.schema}.${table.name}`,
    async write(piece) {
      if (!stream.write(piece)) await Promise.race([once(stream, 'drain'), ended]);
    },
    async end() {
      stream.end();
      await ended;
      if (stream.rowCount !== table.rows)
        throw new Error(
          `${table.schema}.${table.name} got ${stream.rowCount} rows, not ${table.rows}`,
        );
    },
  };
}

/** On the disk before the restore says that it is done, as the rows are. */
const keptFile = { mode: 0o600, flush: true } as const;

/** Local files and keys; the structure was read before. */
async function keepFile(entry: ArchiveEntry, drafts: ReadOptions['drafts']): Promise<void> {
  const [folder, below] = entry.name.startsWith(storedFolder)
    ? ([storedFolder, drafts?.storage] as const)
    : ([filesFolder, drafts?.files] as const);
  if (below !== undefined && entry.name.startsWith(folder)) {
    const path = join(below, safePath(entry.name.slice(folder.length)));
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    return pipeline(entry.content, createWriteStream(path, keptFile));
  }
  if (drafts && entry.name === keysName)
    return pipeline(entry.content, createWriteStream(drafts.keys, keptFile));
  // Read all the same, and not kept: it may be larger than the memory.
  for await (const _piece of entry.content);
}

/** A file of the archive never lands outside of its folder. Names that only begin with two dots are names. */
export function safePath(name: string): string {
  const path = normalize(name);
  const isOutside = path.split(sep)[0] === '..' || path.startsWith(sep);
  if (isOutside || name.includes('\0'))
    throw new StartError(`The backup holds a file with a forbidden name: ${name}`);
  return path;
}

function ifAbsent(error: NodeJS.ErrnoException): false {
  if (error.code !== 'ENOENT') throw error;
  return false;
}
