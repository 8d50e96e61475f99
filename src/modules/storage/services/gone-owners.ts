/** Files whose owner was deleted: they go too, or stay and belong to nobody, as operators say (decision 253). */
import Type, { type Static } from 'typebox';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { isId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { releaseUsage } from '../queries/counters.ts';
import { type FileRow, lockFile } from '../queries/files.ts';
import {
  clearTrashOwners,
  dropCounters,
  idsWithoutRecord,
  lockFilesOf,
} from '../queries/gone-owners.ts';
import { releaseFileUsage, usageReleaseOf } from './quotas.ts';
import { removeFound } from './removing.ts';
import type { StorageParts } from './storage-parts.ts';

export interface GoneOwners {
  /** In the transaction that deletes these owners (`Type:id`): what becomes of their files follows its commit. */
  forget(transaction: Transaction, owners: readonly string[]): Promise<void>;
  /**
   * Those that are gone, though nobody said so. Of types without records nobody knows; an id that records do not have may be
   * one that only permissions know, so it is not gone while somebody is related to it, or nobody can be asked.
   */
  unnoticed(owners: readonly string[]): Promise<readonly string[]>;
  readonly job: JobDefinition;
}

const jobName = 'storage.forget-owners';
/** Seconds after which nothing of an owner is on its way any more: no request takes longer. */
const LATE_SECONDS = 3_900;
/** Milliseconds for which one job works; what is left then is the next one's. */
const WORK_MS = 60_000;
/** Files of one transaction. */
const AT_ONCE = 500;

const Sealed = Type.Object({ owners: Type.String() });
type Sealed = Static<typeof Sealed>;
type Context = Parameters<JobDefinition['handler']>[1];

export function createGoneOwners(parts: StorageParts): GoneOwners {
  const { database, jobs, secrets } = parts;
  // Rows of jobs outlive the user: nothing there says whom they are about.
  const seal = (owners: readonly string[]): Sealed => ({
    owners: secrets.seal(JSON.stringify(owners), jobName),
  });
  const open = ({ owners }: Sealed): readonly string[] => JSON.parse(secrets.open(owners, jobName));
  return {
    unnoticed: (owners) => unnoticedAmong(parts, owners),
    async forget(transaction, owners) {
      if (owners.length === 0) return;
      await jobs.enqueue(jobName, seal(owners), { transaction });
      await jobs.enqueue(jobName, seal(owners), { transaction, startAfterSeconds: LATE_SECONDS });
    },
    job: defineJob({
      name: jobName,
      data: Sealed,
      async handler(sealed, { signal, log }) {
        const owners = open(sealed);
        const time = AbortSignal.timeout(WORK_MS);
        const context = { signal: AbortSignal.any([signal, time]), log };
        const gone = await goneAmong(parts, owners);
        for (const owner of gone) await release(parts, owner, context);
        if (signal.aborted) throw signal.reason;
        if (time.aborted) await jobs.enqueue(jobName, seal(gone));
        else if (gone.length > 0) await dropCounters(database, gone);
      },
    }),
  };
}

async function goneAmong(
  { database, schemas }: StorageParts,
  owners: readonly string[],
): Promise<readonly string[]> {
  const byType = Map.groupBy(owners, (owner) => owner.slice(0, owner.indexOf(':')));
  const gone: string[] = [];
  for (const [type, some] of byType) {
    const schema = schemas.get(type);
    if (!schema || schema.mapping) continue;
    const ids = some.map((owner) => owner.slice(type.length + 1)).filter(isId);
    for (const id of await idsWithoutRecord(database, schema, ids)) gone.push(`${type}:${id}`);
  }
  return gone;
}

/** Users have records and nothing else; teams and others may be objects of permissions alone. */
async function unnoticedAmong(
  parts: StorageParts,
  owners: readonly string[],
): Promise<readonly string[]> {
  const gone: string[] = [];
  for (const owner of await goneAmong(parts, owners))
    if (owner.startsWith('User:') || (await parts.isRelated(owner)) === false) gone.push(owner);
  return gone;
}

/** Nothing is this owner's any more, unless the signal was aborted. */
async function release(parts: StorageParts, owner: string, context: Context): Promise<void> {
  const { database, config } = parts;
  const { signal } = context;
  if (config().deletedOwners.files === 'delete')
    await removeFound(
      parts,
      system(jobName),
      (transaction, question) => lockFilesOf(transaction, owner, question),
      // At once, so that a job that ends early has done something for the next one.
      {
        ...context,
        stays: ({ _id }) => clearOwner(parts, (inner) => lockFile(inner, _id).then(listOf)),
      },
    );
  const find = (transaction: Transaction) => lockFilesOf(transaction, owner, { limit: AT_ONCE });
  for (let some = AT_ONCE; some === AT_ONCE && !signal.aborted; )
    some = await clearOwner(parts, find);
  for (let some = AT_ONCE; some === AT_ONCE && !signal.aborted; )
    some = await database.transaction((transaction) =>
      clearTrashedOwners(parts, transaction, owner),
    );
}

const listOf = (file: FileRow | undefined): readonly FileRow[] => (file ? [file] : []);

/** Files that are locked first belong to nobody then; answers how many. Owners are locked last, as everybody does. */
const clearOwner = (
  parts: StorageParts,
  find: (transaction: Transaction) => Promise<readonly FileRow[]>,
): Promise<number> =>
  parts.database.transaction(async (transaction) => {
    const files = await find(transaction);
    await parts.fileWrites.clearOwner(
      transaction,
      files.map(({ _id }) => _id),
    );
    await releaseFileUsage(
      parts,
      transaction,
      files.filter(({ generation }) => generation > 0),
    );
    return files.length;
  });

async function clearTrashedOwners(
  parts: StorageParts,
  transaction: Transaction,
  owner: string,
): Promise<number> {
  const sizes = await clearTrashOwners(transaction, owner, AT_ONCE);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  const gone = usageReleaseOf(parts, owner, { bytes, files: sizes.length });
  await releaseUsage(transaction, sizes.length > 0 ? [gone] : []);
  return sizes.length;
}
