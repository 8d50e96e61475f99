/** Uploads in parts: a folder per upload below the root, a file per part. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import {
  type MultipartUpload,
  type ObjectFacts,
  type ObjectPlace,
  ProviderError,
  requirePartNumber,
} from '../provider.ts';
import { isFolder, onDisk, syncFolder, unlessMissing } from './folders.ts';
import type { Writing, Written } from './write.ts';

export interface LocalMultipartParts {
  /** Folder of all uploads. */
  readonly uploads: string;
  /** Writes a body whole under a temporary name. */
  writeTemporary(body: Readable, writing: Writing): Promise<Written>;
  /** Moves a file to where the object lies. The file is gone afterwards, whatever happens. */
  publish(written: Written, place: ObjectPlace): Promise<ObjectFacts>;
  requireBucket(place: ObjectPlace): Promise<void>;
}

export function createLocalMultipart(parts: LocalMultipartParts): MultipartUpload {
  const { uploads } = parts;
  return {
    async begin(place) {
      await parts.requireBucket(place);
      const id = randomUUID();
      await onDisk(() => mkdir(folderOf(uploads, place, id), { mode: 0o700 }));
      return id;
    },
    async part(place, uploadId, { number, body, size }) {
      const folder = folderOf(uploads, place, uploadId);
      requirePartNumber(number);
      if (!(await isFolder(folder))) throw unknownUpload(uploadId);
      const temporary = (await parts.writeTemporary(body, { size })).path;
      return onDisk(async () => {
        const path = join(folder, String(number));
        await rename(temporary, path).catch(async (error: unknown) => {
          await rm(temporary, { force: true });
          throw error;
        });
        await syncFolder(folder);
        return tagOf(path);
      });
    },
    async complete(place, uploadId, tags) {
      const folder = folderOf(uploads, place, uploadId);
      if (!(await isFolder(folder))) throw unknownUpload(uploadId);
      const paths = await Promise.all(tags.map((part) => requirePart(folder, part)));
      const whole = await parts.writeTemporary(Readable.from(bytesOf(paths)), {});
      const facts = await parts.publish(whole, place);
      await rm(folder, { recursive: true, force: true });
      return facts;
    },
    async abort(place, uploadId) {
      await onDisk(() => rm(folderOf(uploads, place, uploadId), { recursive: true, force: true }));
    },
  };
}

/** The name binds an upload to its place without anything to read. */
function folderOf(uploads: string, { bucket, key }: ObjectPlace, uploadId: string): string {
  if (!/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(uploadId))
    throw unknownUpload(uploadId);
  const place = createHash('sha256').update(`${bucket}/${key}`).digest('hex').slice(0, 16);
  return join(uploads, `${uploadId}.${place}`);
}

const unknownUpload = (id: string): ProviderError =>
  new ProviderError('NOT_FOUND', `There is no upload ${JSON.stringify(id)} for this object`);

async function* bytesOf(paths: readonly string[]): AsyncGenerator<Buffer> {
  for (const path of paths) yield* createReadStream(path, { highWaterMark: 1024 * 1024 });
}

async function tagOf(path: string): Promise<string> {
  const { ino, size, mtimeNs } = await lstat(path, { bigint: true });
  return [mtimeNs, size, ino].map((number) => number.toString(36)).join('-');
}

async function requirePart(
  folder: string,
  { number, tag }: { readonly number: number; readonly tag: string },
): Promise<string> {
  const path = join(folder, String(number));
  if ((await unlessMissing(() => tagOf(path))) !== tag)
    throw new ProviderError('NOT_FOUND', `Part ${number} is not there, or is another one`);
  return path;
}
