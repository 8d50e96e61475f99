/**
 * The form of a backup: a gzipped tar file that any tool can open.
 *
 * - `penstock-backup.json` first: what this is, and by which version it was made
 * - `structure.json`: statements that make the tables, and those that finish them once the rows are in
 * - `data/<table>/<part>`: rows as PostgreSQL's COPY text, in parts of a few MB
 * - `contents/<part>`: a line of JSON for each content of a file that the database names: where it lies, size, SHA-256
 * - `files/<path>`, `storage/<path>`: the local files of the data folder, and the contents of users' files there
 * - `keys.json`: the data folder's secrets, only when asked for
 * - `manifest.json` last: size and SHA-256 of everything before it, rows and SHA-256 of each table
 */

import { createHash } from 'node:crypto';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { Static } from 'typebox';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { identifier } from '../kernel/database/sql.ts';
import { StartError } from '../kernel/start-error.ts';

/* The rows of one table as COPY text. */

interface RowSource {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
}

/** What the rows of a table were, for the manifest and for comparison. */
interface RowDigest {
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

export const tableName = ({ schema, name }: RowSource): string =>
  `${identifier(schema)}.${identifier(name)}`;

export const columnList = ({ columns }: RowSource): string =>
  `(${columns.map(identifier).join(', ')})`;

/** Hands the rows over in pieces and answers what they were. Reads at the pace of `take`. */
export async function readRows(
  client: pg.ClientBase,
  table: RowSource,
  take: (piece: Buffer) => Promise<void> | void,
): Promise<RowDigest> {
  const hash = createHash('sha256');
  let bytes = 0;
  const stream = client.query(copyTo(`copy ${tableName(table)} ${columnList(table)} to stdout`));
  for await (const piece of stream as AsyncIterable<Buffer>) {
    hash.update(piece);
    bytes += piece.length;
    await take(piece);
  }
  return { rows: stream.rowCount, bytes, sha256: hash.digest('hex') };
}

export const FORMAT = 1;

export const headerName = 'penstock-backup.json';
export const structureName = 'structure.json';
export const keysName = 'keys.json';
export const manifestName = 'manifest.json';
export const filesFolder = 'files/';
export const storedFolder = 'storage/';
export const contentsFolder = 'contents/';

/** What is read as one text may be this long (bytes): a little below the longest that Node makes. Two million files are listed in it. */
export const MAX_TEXT = 500_000_000;

/** A part of the archive that is read as one text. @throws StartError for one that no restore could read. */
export function textPart(name: string, value: unknown, max = MAX_TEXT): Buffer {
  const content = jsonOf(value);
  if (content !== undefined && content.length <= max) return content;
  throw new StartError(
    `The backup has more parts than its ${name} can list (${max} bytes): it was not made, since it could not be restored. Keep the contents of files on a store outside, which is not in backups`,
  );
}

/** Nothing where it is longer than any text. */
function jsonOf(value: unknown): Buffer | undefined {
  try {
    return Buffer.from(JSON.stringify(value));
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Folder of the table at this place of the manifest. */
export const tableFolder = (index: number): string => `data/${String(index).padStart(5, '0')}/`;

export const Header = Type.Object({
  penstockBackup: Type.Integer(),
  version: Type.String(),
  postgres: Type.String(),
  createdAt: Type.String(),
});
export type Header = Static<typeof Header>;

/** Statements in the order in which they run. */
export const Structure = Type.Object({
  /** Schemas, types, functions, sequences, tables. */
  before: Type.Array(Type.String()),
  /** Constraints, indexes, views, triggers, positions of sequences. */
  after: Type.Array(Type.String()),
});
export type Structure = Static<typeof Structure>;

export const TableEntry = Type.Object({
  schema: Type.String(),
  name: Type.String(),
  /** Columns whose values are in the rows; generated ones are not. */
  columns: Type.Array(Type.String()),
  rows: Type.Integer(),
  bytes: Type.Integer(),
  /** SHA-256 of all its rows, hexadecimal. */
  sha256: Type.String(),
});
export type TableEntry = Static<typeof TableEntry>;

export const Manifest = Type.Object({
  format: Type.Integer(),
  entries: Type.Array(
    Type.Object({ name: Type.String(), size: Type.Integer(), sha256: Type.String() }),
  ),
  tables: Type.Array(TableEntry),
  /** The data key of the installation, wrapped: tells whether a master key is the one that opens its secrets. */
  wrappedKey: Type.Union([Type.String(), Type.Null()]),
  /** Keys of the migrations of that database: a version that does not know one of them cannot work on it. */
  migrations: Type.Optional(Type.Array(Type.String())),
  /** Tables that are served in place and are not in here. */
  tablesOfOthers: Type.Optional(Type.Array(Type.String())),
  /** Contents of files on stores outside: not in here, but listed. */
  outside: Type.Optional(Type.Object({ files: Type.Integer(), bytes: Type.Integer() })),
  /** Of all the rest of the manifest, under the data key (keys.ts). Absent where the key was not known. */
  signature: Type.Optional(Type.String()),
});
export type Manifest = Static<typeof Manifest>;

export const isHeader = Compile(Header);
export const isStructure = Compile(Structure);
export const isManifest = Compile(Manifest);

/** Told how far the work is; called often. `total` is an estimate where the end is not known. */
export type Progress = (step: {
  readonly what: string;
  readonly done: number;
  readonly total: number;
}) => void;
