/**
 * Contents of users' files in a backup. Those in the data folder come along as files. Whatever the database says there
 * must be is listed as well, with its place, size and SHA-256, so that somebody who restores knows what has to be on
 * the stores outside, and what is missing.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { pathOfKey } from '../modules/storage/providers/local/key-path.ts';
import { bareBucket, storeOfBucket } from '../modules/storage/providers/routed.ts';
import { dataFolderFingerprint } from '../modules/storage/services/store-settings.ts';

/** Folder of contents in the data folder, unless they are kept elsewhere. */
export const storageFolder = 'storage';
/** What the local store keeps there while it writes. */
export const isHalfWritten = (name: string): boolean => name.startsWith('.tmp/');

export interface Amount {
  readonly files: number;
  readonly bytes: number;
}

export interface ContentSums {
  /** In the data folder. */
  readonly local: Amount;
  /** On other stores: not in a backup. */
  readonly outside: Amount;
}

interface ContentRow {
  readonly file: string;
  readonly bucket: string;
  readonly key: string;
  readonly size: string;
  readonly sha256: string | null;
}

/** One line of the list. */
interface Listed extends Omit<ContentRow, 'size'> {
  /** Empty for the first store of the installation. */
  readonly store: string;
  readonly size: number;
  readonly inDataFolder: boolean;
}

const ROWS = 2_000;

const contents = `
  select "_id"::text as file, "bucket" as bucket, "objectKey" as key, "size"::text as size, "checksum" as sha256
  from "app"."File" where "generation" > 0
  union all select id::text, bucket, object_key, size::text, rest ->> 'checksum' from penstock.storage_trash`;

/** Every content that the database names. In a transaction. */
async function* listContents(client: pg.ClientBase): AsyncGenerator<Listed> {
  const { rows: there } = await client.query<{ there: boolean }>(
    `select to_regclass('"app"."File"') is not null and to_regclass('penstock.storage_trash') is not null
       and to_regclass('penstock.storage_stores') is not null as there`,
  );
  if (!there[0]?.there) return;
  const { rows: stores } = await client.query<{ id: string }>(
    'select id from penstock.storage_stores where fingerprint = $1',
    [dataFolderFingerprint],
  );
  const inDataFolder = new Set(stores.map(({ id }) => id));
  await client.query(`declare contents no scroll cursor for ${contents}`);
  for (;;) {
    const { rows } = await client.query<ContentRow>(`fetch ${ROWS} from contents`);
    for (const { bucket, size, ...rest } of rows) {
      const store = storeOfBucket(bucket);
      yield {
        ...rest,
        store,
        bucket: bareBucket(bucket),
        size: Number(size),
        inDataFolder: inDataFolder.has(store),
      };
    }
    if (rows.length < ROWS) break;
  }
  await client.query('close contents');
}

const added = ({ files, bytes }: Amount, { size }: Listed): Amount => ({
  files: files + 1,
  bytes: bytes + size,
});
const none: Amount = { files: 0, bytes: 0 };

/** Hands the list over as lines of JSON. */
export async function writeContents(
  client: pg.ClientBase,
  take: (piece: Buffer) => Promise<void>,
): Promise<ContentSums> {
  let [local, outside] = [none, none];
  for await (const content of listContents(client)) {
    if (content.inDataFolder) local = added(local, content);
    else outside = added(outside, content);
    await take(Buffer.from(`${JSON.stringify(content)}\n`));
  }
  return { local, outside };
}

/** What of the contents that the database names is not in this folder, though it should be, and what lies elsewhere. */
export async function compareContents(
  client: pg.ClientBase,
  folder: string,
): Promise<{ readonly missing: readonly string[]; readonly outside: Amount }> {
  const missing: string[] = [];
  let outside = none;
  await client.query('begin read only');
  try {
    for await (const content of listContents(client)) {
      if (!content.inDataFolder) outside = added(outside, content);
      else {
        const path = join(folder, content.bucket, pathOfKey(content.key));
        const found = await stat(path).catch(() => undefined);
        if (found?.size !== content.size) missing.push(content.file);
      }
    }
  } finally {
    await client.query('rollback');
  }
  return { missing, outside };
}
