/**
 * Compares documents with what lies on the store, and mends what crashes left: uploads whose time is over, objects that
 * nothing refers to, contents that are not there, counters that are wrong. Foreign objects are counted and left alone.
 */
import { storageErrors } from '../errors.ts';
import type { ListedObject, StorageProvider } from '../providers/provider.ts';
import { containerById, containerByName } from '../queries/containers.ts';
import { addGrowth, recountOwners } from '../queries/counters.ts';
import { knownObjects } from '../queries/files.ts';
import { ownersAfter } from '../queries/gone-owners.ts';
import {
  containerAfter,
  recountContainer,
  type StoredFile,
  storedFilesAfter,
} from '../queries/reconcile.ts';
import { expiredUploads } from '../queries/uploads.ts';
import type { GoneOwners } from './gone-owners.ts';
import { contentKeyOf } from './naming.ts';
import type { SignedUploads } from './signed-uploads.ts';
import { onStore, type StorageParts } from './storage-parts.ts';
import type { Slice, TaskWork } from './tasks.ts';

/** One thing that was found, for people. */
interface Example {
  readonly container: string;
  readonly what: string;
}

/** What was found so far. Without `dryRun` it is mended. */
export interface ReconcileReport {
  dryRun: boolean;
  phase: Phase | 'done';
  objects: number;
  files: number;
  expiredUploads: number;
  orphanObjects: number;
  orphanBytes: number;
  missingObjects: number;
  /** Contents that were missing and are there again. */
  foundAgain: number;
  wrongCounters: number;
  missingBuckets: number;
  /** Owners of files that were deleted. */
  goneOwners: number;
  /** Objects whose names are not ours. */
  foreignObjects: number;
  /** The first of them. */
  orphans: Example[];
  missing: Example[];
  owners: string[];
}

type Phase = 'uploads' | 'objects' | 'files' | 'counters' | 'owners';

interface Position {
  readonly phase: Phase;
  /** Container whose objects or counters are looked at; those before it by name are done. */
  readonly container?: string;
  readonly cursor?: string;
  /** Id of the last file that was looked at, or the last owner. */
  readonly after?: string;
}

const EXAMPLES = 100;
const PAGE = 1_000;
const FILES = 200;
/** Questions to the store at once. */
const AT_ONCE = 10;
const ZERO_ID = '00000000-0000-0000-0000-000000000000';
export const OBJECT_MISSING = 'OBJECT_MISSING';

const emptyReport = (dryRun: boolean): ReconcileReport => ({
  dryRun,
  phase: 'uploads',
  objects: 0,
  files: 0,
  expiredUploads: 0,
  orphanObjects: 0,
  orphanBytes: 0,
  missingObjects: 0,
  foundAgain: 0,
  wrongCounters: 0,
  missingBuckets: 0,
  goneOwners: 0,
  foreignObjects: 0,
  orphans: [],
  missing: [],
  owners: [],
});

interface Run {
  readonly parts: StorageParts;
  readonly signedUploads: SignedUploads;
  readonly goneOwners: GoneOwners;
  readonly report: ReconcileReport;
  readonly store: StorageProvider;
}

type Step = (run: Run, position: Position) => Promise<Position | null>;

export function createReconcile(
  parts: StorageParts,
  services: Pick<Run, 'signedUploads' | 'goneOwners'>,
): TaskWork {
  return async (task, until, signal): Promise<Slice> => {
    const before = task.progress as Partial<ReconcileReport>;
    const report = { ...emptyReport(task.input.dryRun === true), ...structuredClone(before) };
    const store = await onStore(parts.log, parts.provider);
    // Without this a store that is away would look like one from which everything has gone.
    await onStore(parts.log, () => store.probe());
    const run = { parts, ...services, report, store };
    let position: Position | null = (task.position as Position | null) ?? { phase: 'uploads' };
    do {
      position = await steps[position.phase](run, position);
      report.phase = position?.phase ?? 'done';
    } while (position && performance.now() < until && !signal.aborted);
    return { progress: { ...report }, position: position && { ...position } };
  };
}

const steps: Readonly<Record<Phase, Step>> = {
  uploads: endUploads,
  objects: lookAtObjects,
  files: lookAtFiles,
  counters: recount,
  owners: lookAtOwners,
};

async function endUploads({ parts, signedUploads, report }: Run): Promise<Position> {
  const { database } = parts;
  const first = await expiredUploads(database, PAGE);
  report.expiredUploads += first.length;
  if (report.dryRun || first.length === 0) return { phase: 'objects', container: '' };
  for (const upload of first) await signedUploads.expire(upload);
  return { phase: 'uploads' };
}

/** One page of one bucket. */
async function lookAtObjects(run: Run, { container = '', cursor }: Position): Promise<Position> {
  const { parts, report, store } = run;
  const next = await (cursor === undefined
    ? containerAfter(parts.database, container)
    : containerByName(parts.database, container));
  if (!next)
    return cursor === undefined
      ? { phase: 'files', after: ZERO_ID }
      : { phase: 'objects', container };
  const { name, bucket } = next;
  if (cursor === undefined && !(await hasBucket(run, bucket)))
    return { phase: 'objects', container: name };
  const page = await onStore(parts.log, () => store.list(bucket, '', cursor, PAGE));
  report.objects += page.objects.length;
  const own = page.objects.filter(({ key }) => contentKeyOf(key) !== undefined);
  report.foreignObjects += page.objects.length - own.length;
  await removeOrphans(run, next, own);
  return page.cursor === undefined
    ? { phase: 'objects', container: name }
    : { phase: 'objects', container: name, cursor: page.cursor };
}

/** Whether there is a bucket to look into; a missing one is made, and is empty. */
async function hasBucket({ parts, report, store }: Run, bucket: string): Promise<boolean> {
  if (await onStore(parts.log, () => store.bucketExists(bucket))) return true;
  report.missingBuckets++;
  if (!report.dryRun) await onStore(parts.log, () => store.createBucket(bucket));
  return false;
}

async function removeOrphans(
  { parts, report, store }: Run,
  { name, bucket }: { readonly name: string; readonly bucket: string },
  objects: readonly ListedObject[],
): Promise<void> {
  const contents = objects.map(({ key }) => contentKeyOf(key) ?? key);
  const known = await knownObjects(parts.database, bucket, contents);
  for (const { key, size } of objects) {
    if (known.has(contentKeyOf(key) ?? key)) continue;
    report.orphanObjects++;
    report.orphanBytes += size;
    if (report.orphans.length < EXAMPLES) report.orphans.push({ container: name, what: key });
    if (!report.dryRun) await onStore(parts.log, () => store.delete({ bucket, key }));
  }
}

async function lookAtFiles(run: Run, { after = ZERO_ID }: Position): Promise<Position> {
  const { parts, report } = run;
  const files = await storedFilesAfter(parts.database, after, FILES);
  for (let i = 0; i < files.length; i += AT_ONCE)
    await Promise.all(files.slice(i, i + AT_ONCE).map((file) => lookAtFile(run, file)));
  report.files += files.length;
  const last = files.at(-1);
  return last ? { phase: 'files', after: last._id } : { phase: 'counters', container: '' };
}

async function lookAtFile({ parts, report, store }: Run, file: StoredFile): Promise<void> {
  const place = { bucket: file.bucket, key: file.objectKey };
  const facts = await onStore(parts.log, () => store.head(place));
  const isMissing = facts?.size !== file.size;
  const wasMissing = file.failure === OBJECT_MISSING;
  if (isMissing) {
    // One that was replaced or deleted since it was read is nothing to report.
    const known = await knownObjects(parts.database, file.bucket, [file.objectKey]);
    if (!known.has(file.objectKey)) return;
    report.missingObjects++;
    if (report.missing.length < EXAMPLES)
      report.missing.push({ container: file.container, what: file._id });
  } else if (wasMissing) report.foundAgain++;
  if (isMissing === wasMissing || report.dryRun) return;
  const content = { id: file._id, objectKey: file.objectKey };
  await parts.database.transaction((transaction) =>
    parts.fileWrites.noteMissing(transaction, content, isMissing ? OBJECT_MISSING : null),
  );
}

async function recount(run: Run, { container = '' }: Position): Promise<Position | null> {
  const { parts, report } = run;
  const next = await containerAfter(parts.database, container);
  if (!next) {
    report.wrongCounters += await recountOwners(parts.database, !report.dryRun);
    await addGrowth(parts.database);
    return { phase: 'owners', after: '' };
  }
  await parts.database.transaction(async (transaction) => {
    if (!(await containerById(transaction, next._id, true)))
      throw storageErrors.CONTAINER_NOT_FOUND();
    const counted = await recountContainer(transaction, next.name, !report.dryRun);
    if (counted && (counted.usedBytes !== counted.bytes || counted.fileCount !== counted.files))
      report.wrongCounters++;
  });
  return { phase: 'counters', container: next.name };
}

/** Files of those who are gone are released by the job that also follows a deletion. */
async function lookAtOwners(run: Run, { after = '' }: Position): Promise<Position | null> {
  const { parts, report, goneOwners } = run;
  const owners = await ownersAfter(parts.database, after, FILES);
  const gone = await goneOwners.unnoticed(owners);
  report.goneOwners += gone.length;
  report.owners.push(...gone.slice(0, EXAMPLES - report.owners.length));
  if (!report.dryRun)
    await parts.database.transaction((transaction) => goneOwners.forget(transaction, gone));
  const last = owners.at(-1);
  return last === undefined ? null : { phase: 'owners', after: last };
}
