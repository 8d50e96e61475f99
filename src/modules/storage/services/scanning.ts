/**
 * What is found out about a content after it came, by jobs that exist exactly when the content does: whether it is harmful,
 * and its checksum where it did not pass this process in one piece.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { system } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { StorageConfig } from '../config.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import { type FileRow, fileById, type ScanState } from '../queries/files.ts';
import { placeOf } from './naming.ts';
import { isMissingObject, type StorageParts } from './storage-parts.ts';

const scanJob = 'storage.scan';
/** Attempts over about a day and a half; what is not answered then stays away from everybody. */
const RETRIES = 40;
const MAX_ANSWER = 64 * 1_024;

/** How a new content begins. */
export const toScan = ({ config }: Pick<StorageParts, 'config'>): ScanState | null =>
  config().scan.url === '' ? null : 'waiting';

/** Asks for the examination of a content that needs one, with the change that made it. */
export async function enqueueScan(
  { jobs }: Pick<StorageParts, 'jobs'>,
  transaction: Queryable,
  { _id, objectKey, scan }: FileRow,
): Promise<void> {
  if (scan !== 'waiting' || objectKey === null) return;
  await jobs.enqueue(scanJob, { id: _id, objectKey }, { transaction });
}

/** Whether nobody gets the content as it is now. */
export const isWithheld = (
  { scan: { quarantine } }: Pick<StorageConfig, 'scan'>,
  { scan }: Pick<FileRow, 'scan'>,
): boolean => scan === 'infected' || (scan === 'waiting' && quarantine);

/** The file, if its content may be given out. Throws FILE_EXAMINED, FILE_INFECTED. */
export function servable(
  { scan: { quarantine } }: Pick<StorageConfig, 'scan'>,
  file: FileRow,
): FileRow {
  if (file.scan === 'infected') throw storageErrors.FILE_INFECTED();
  if (file.scan === 'waiting' && quarantine) throw storageErrors.FILE_EXAMINED({ retryAfter: 5 });
  return file;
}

const answerShape = Compile(Type.Object({ result: Type.Enum(['clean', 'infected']) }));

export const createScanJob = (parts: StorageParts): JobDefinition =>
  defineJob({
    name: scanJob,
    data: Type.Object({ id: Type.String({ format: 'uuid' }), objectKey: Type.String() }),
    retries: RETRIES,
    expireInSeconds: 900,
    async handler({ id, objectKey }, { signal, log }) {
      const { database, events, config } = parts;
      const file = await fileById(database, id);
      if (!file || file.objectKey !== objectKey || file.scan !== 'waiting') return;
      const isExamined = config().scan.url !== '' && file.size <= config().scan.maxSize;
      const result = isExamined ? await ask(parts, file, signal) : 'clean';
      if (result === 'infected') log.warn({ file: id }, 'Something harmful was found in a file');
      await database.transaction(async (transaction) => {
        const examined = await parts.fileWrites.setScan(transaction, { id, objectKey }, result);
        if (!examined) return;
        const what = result === 'infected' ? 'infected' : 'update';
        await events.emit(transaction, system(scanJob), fileEvent(what, examined));
      });
    },
  });

/** Throws when there is no answer that can be understood: the job comes back then. */
async function ask(
  { provider, config }: StorageParts,
  file: FileRow,
  signal: AbortSignal,
): Promise<'clean' | 'infected'> {
  const { url, secret, timeout } = config().scan;
  const content = Readable.from(await (await provider()).get(placeOf(file), undefined, signal));
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/octet-stream',
        'content-length': String(file.size),
        'x-file-id': file._id,
        'x-file-sha256': file.checksum ?? '',
        ...(secret && { authorization: `Bearer ${secret}` }),
      },
      body: Readable.toWeb(content) as never,
      duplex: 'half',
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeout * 1_000)]),
    } as RequestInit);
    if (!response.ok) throw new Error(`The scanner answered ${response.status}`);
    const answer: unknown = JSON.parse(await textOf(response));
    if (!answerShape.Check(answer)) throw new Error('The scanner said neither clean nor infected');
    return answer.result as 'clean' | 'infected';
  } finally {
    content.destroy();
  }
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_ANSWER) throw new Error('The scanner answered too much');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/* SHA-256 of contents that did not pass this process in one piece: resumable uploads, and uploads to the address of a store. A job
   that exists exactly when the content does reads it once, from the store. */

const checksumJob = 'storage.checksum';
const CHECKSUM_RETRIES = 20;
/** A file of a terabyte is read in this time at 150 MB/s. */
const LONGEST_SECONDS = 2 * 3_600;

/** Asks for the checksum of a content that has none, with the change that made it. */
export async function enqueueChecksum(
  { jobs }: Pick<StorageParts, 'jobs'>,
  transaction: Queryable,
  { _id, objectKey, checksum }: FileRow,
): Promise<void> {
  if (checksum !== null || objectKey === null) return;
  await jobs.enqueue(checksumJob, { id: _id, objectKey }, { transaction });
}

export const createChecksumJob = ({
  database,
  provider,
  fileWrites,
}: StorageParts): JobDefinition =>
  defineJob({
    name: checksumJob,
    data: Type.Object({ id: Type.String({ format: 'uuid' }), objectKey: Type.String() }),
    retries: CHECKSUM_RETRIES,
    expireInSeconds: LONGEST_SECONDS,
    async handler({ id, objectKey }, { signal }) {
      const file = await fileById(database, id);
      if (!file || file.objectKey !== objectKey || file.checksum !== null) return;
      const hash = createHash('sha256');
      try {
        const content = await (await provider()).get(placeOf(file), undefined, signal);
        await pipeline(content, hash, { signal });
      } catch (error) {
        // It was replaced or deleted meanwhile, or reconciling will say that it is missing.
        if (isMissingObject(error)) return;
        throw error;
      }
      await database.transaction((transaction) =>
        fileWrites.setChecksum(transaction, { id, objectKey }, hash.digest('hex')),
      );
    },
  });
