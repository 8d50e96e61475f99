/** What owners of files may use, and how that is counted with the files (decision 250). */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { StorageConfig } from '../config.ts';
import { storageErrors } from '../errors.ts';
import {
  addGrowth,
  type Charge,
  type CountResult,
  count,
  releaseUsage,
  type Usage,
  type UsageRelease,
  usageOf,
} from '../queries/counters.ts';
import type { FileRow } from '../queries/files.ts';
import { ownerOf } from './access.ts';
import type { StorageParts } from './storage-parts.ts';

type Configured = Pick<StorageParts, 'config'>;

/** Bytes that all files of an owner may have; null: any number. */
function quotaOf({ limits }: Pick<StorageConfig, 'limits'>, owner: string): number | null {
  const { perUserQuota, perTeamQuota } = limits;
  return (owner.startsWith('User:') ? perUserQuota : perTeamQuota || perUserQuota) || null;
}

/** Whom a file is counted for beside its container. Those of operators and modules count for nobody. */
export const chargeOf = ({ config }: Configured, owner: string | null): Charge | undefined =>
  owner === null ? undefined : { owner, quota: quotaOf(config(), owner) };

/** The owner whose usage has to be known before bytes are taken; nobody where there is no quota, or a scope decides. */
export function boundedOwner(
  parts: Configured,
  caller: Caller,
  scope: string | undefined,
): string | null {
  const owner = scope === undefined ? ownerOf(caller) : null;
  return owner !== null && quotaOf(parts.config(), owner) !== null ? owner : null;
}

/** Bytes that an owner has left for a new file; nothing where any number is. */
export const roomOf = (
  { config }: Configured,
  owner: string | null,
  usedBytes: number,
): number | undefined => {
  const quota = owner === null ? null : quotaOf(config(), owner);
  return quota === null ? undefined : quota - usedBytes;
};

/**
 * Whether a new file can have room at all: before its bytes are sent for nothing. A content of unknown length needs some.
 * Throws QUOTA_EXCEEDED.
 */
export function requireRoom(room: number | undefined, size: number | undefined): void {
  if (room !== undefined && (size ?? 1) > Math.max(0, room)) throw noRoom();
}

/** The same for an owner whose usage is not known yet. */
export async function requireRoomOf(
  parts: Pick<StorageParts, 'database' | 'config'>,
  owner: string | null,
  size: number,
): Promise<void> {
  if (owner === null || size === 0 || quotaOf(parts.config(), owner) === null) return;
  requireRoom(roomOf(parts, owner, (await usageOf(parts.database, owner)).size), size);
}

/** Adds up what was written down before there were quotas, so that they count all that is there. */
export async function foldWhenBounded(
  { database }: Pick<StorageParts, 'database'>,
  next: StorageConfig,
  previous?: StorageConfig,
): Promise<void> {
  const isBounded = ({ limits }: StorageConfig) => limits.perUserQuota + limits.perTeamQuota > 0;
  if (isBounded(next) && !(previous && isBounded(previous))) await addGrowth(database);
}

/** Throws QUOTA_EXCEEDED. The transaction is to end with it. */
export function requireCounted(result: CountResult): void {
  if (result === 'ownerFull') throw noRoom();
  if (result === 'containerFull') throw storageErrors.QUOTA_EXCEEDED();
}

const noRoom = () =>
  storageErrors.QUOTA_EXCEEDED({
    message:
      'Whoever owns this file has no room left for it: delete files, also from the trash (GET /storage/usage)',
  });

/** Takes files out of the counters. Those in `kept`, which lie in the trash, stay with their owners. */
export async function uncount(
  parts: Configured,
  transaction: Transaction,
  files: readonly FileRow[],
  kept: readonly FileRow[],
): Promise<void> {
  const counted = files.filter(({ generation }) => generation > 0);
  const containers = sums(counted, ({ container }) => container);
  // In one order, so that two deletions never wait for each other.
  for (const [container, { bytes, files: some }] of containers)
    await count(transaction, { container, bytes: -bytes, files: -some, charge: undefined });
  await releaseFileUsage(
    parts,
    transaction,
    counted.filter((file) => !kept.includes(file)),
  );
}

/** Takes what is gone for good from its owners. */
export const releaseFileUsage = (
  parts: Configured,
  transaction: Transaction,
  files: readonly Pick<FileRow, 'owner' | 'size'>[],
): Promise<void> =>
  releaseUsage(
    transaction,
    sums(files, ({ owner }) => owner).map(([owner, gone]) => usageReleaseOf(parts, owner, gone)),
  );

export const usageReleaseOf = (
  { config }: Configured,
  owner: string,
  gone: Pick<UsageRelease, 'bytes' | 'files'>,
): UsageRelease => ({ ...gone, owner, hasQuota: quotaOf(config(), owner) !== null });

function sums<F extends { readonly size: number }>(
  files: readonly F[],
  keyOf: (file: F) => string | null,
): readonly (readonly [string, { readonly bytes: number; readonly files: number }])[] {
  const found = new Map<string, { bytes: number; files: number }>();
  for (const file of files) {
    const key = keyOf(file);
    if (key === null) continue;
    const sum = found.get(key) ?? { bytes: 0, files: 0 };
    sum.bytes += file.size;
    sum.files += 1;
    found.set(key, sum);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** What an owner uses, and may. */
export interface OwnerUsage extends Usage {
  readonly owner: string;
  /** Bytes; null: any number. */
  readonly quota: number | null;
  /** Bytes that are left; null: any number. */
  readonly left: number | null;
}

export const ownerUsage = async (
  { database, config }: Pick<StorageParts, 'database' | 'config'>,
  owner: string,
): Promise<OwnerUsage> => usageWith(config(), { owner, ...(await usageOf(database, owner)) });

export const usageWith = (
  config: StorageConfig,
  usage: Usage & { readonly owner: string },
): OwnerUsage => {
  const quota = quotaOf(config, usage.owner);
  return { ...usage, quota, left: quota === null ? null : Math.max(0, quota - usage.size) };
};
