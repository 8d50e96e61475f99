/** What containers are called on the store, by its kind. */
import { createHash } from 'node:crypto';
import type { StorageConfig } from '../config.ts';
import { s3Options } from './store-settings.ts';

/** Without the mark of the store. */
export async function bareBucketOf(now: StorageConfig, container: string): Promise<string> {
  switch (now.provider) {
    case 'local':
      return container;
    case 'azure':
      return bucketName([container]);
    case 'aws':
      return bucketName(['penstock', now.aws.accountId || (await accountIdOf(now)), container]);
    default:
      return bucketName(['penstock', container]);
  }
}

/** Empty where nobody tells: on other stores than Amazon's. */
async function accountIdOf(config: StorageConfig): Promise<string> {
  const { readAccountId } = await import('../providers/s3.ts');
  return (await readAccountId(s3Options(config))) ?? '';
}

const MAX_BUCKET = 63;

/** Names are shared with everybody on most stores, and know hyphens only, one at a time. */
function bucketName(parts: readonly string[]): string {
  const joined = parts.filter((part) => part !== '').join('-');
  const name = joined.replaceAll(/[^a-z0-9]+/g, '-');
  if (name === joined && name.length <= MAX_BUCKET) return name;
  const digest = createHash('sha256').update(joined).digest('hex').slice(0, 10);
  return `${name.slice(0, MAX_BUCKET - digest.length - 1)}-${digest}`;
}
