/** Objects by key, page by page, reading only the folders that the page lies in. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ListedObject, ObjectPage } from '../provider.ts';
import { unlessMissing } from './folders.ts';
import { bytesOfKey, folderOfPrefix, keyOfBytes, readEntryName } from './key-path.ts';

/** All texts with one character per byte. */
interface Listing {
  readonly prefix: string;
  /** Only keys behind this one; none: from the first. */
  readonly after: string;
}

interface Found {
  readonly key: string;
  readonly path: string;
}

/** `bucket` is the bucket's folder; the cursor is the last key of the page before. */
export async function listFolder(
  bucket: string,
  prefix: string,
  { cursor, limit }: { readonly cursor: string | undefined; readonly limit: number },
): Promise<ObjectPage> {
  const whole = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const requested: Listing = {
    prefix: bytesOfKey(prefix),
    after: cursor === undefined ? '' : Buffer.from(cursor, 'base64url').toString('latin1'),
  };
  const found: Found[] = [];
  for await (const file of filesOf(
    join(bucket, folderOfPrefix(prefix)),
    bytesOfKey(whole),
    requested,
  )) {
    found.push(file);
    if (found.length > limit) break;
  }
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  return {
    objects: (await Promise.all(page.map(factsOf))).filter((object) => object !== undefined),
    cursor: last && Buffer.from(last.key, 'latin1').toString('base64url'),
  };
}

async function* filesOf(folder: string, parent: string, requested: Listing): AsyncGenerator<Found> {
  const entries = (await unlessMissing(() => readdir(folder, { withFileTypes: true }))) ?? [];
  const within = entries.flatMap((entry) => {
    const name = readEntryName(parent, entry.name);
    // Links and whatever else lies here are not ours.
    if (!name || !(name.isFile ? entry.isFile() : entry.isDirectory())) return [];
    return mayHold(name, requested) ? [{ ...name, path: join(folder, entry.name) }] : [];
  });
  within.sort((a, b) => (a.key < b.key ? -1 : 1));
  for (const { isFile, key, path } of within) {
    if (isFile) yield { key, path };
    else yield* filesOf(path, key, requested);
  }
}

function mayHold(
  { isFile, key }: { readonly isFile: boolean; readonly key: string },
  { prefix, after }: Listing,
): boolean {
  if (isFile) return key.startsWith(prefix) && key > after;
  return (
    (key.startsWith(prefix) || prefix.startsWith(key)) && (key > after || after.startsWith(key))
  );
}

async function factsOf({ key, path }: Found): Promise<ListedObject | undefined> {
  const facts = await unlessMissing(() => lstat(path));
  return facts && { key: keyOfBytes(key), size: facts.size, modifiedAt: facts.mtime };
}
