/** The rows of one table as COPY text. */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { identifier } from '../kernel/database/sql.ts';

export interface RowSource {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
}

/** What the rows of a table were, for the manifest and for comparison. */
export interface RowDigest {
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

export const tableName = ({ schema, name }: RowSource): string => `${identifier(schema)}.${identifier(name)}`;

export const columnList = ({ columns }: RowSource): string => `(${columns.map(identifier).join(', ')})`;

/** Hands the rows over in pieces and answers what they were. Reads at the pace of `take`. */
export async function readRows(client: pg.ClientBase, table: RowSource, take: (piece: Buffer) => Promise<void> | void): Promise<RowDigest> {
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
