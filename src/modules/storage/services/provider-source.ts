/** The store as the configuration names it: opened when it is first needed, and anew when the configuration changes. */

import { createHash } from 'node:crypto';
import type { Kernel } from '../../../host/kernel.ts';
import type { ConfigHandle } from '../../../kernel/config/config-definition.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageConfig } from '../config.ts';
import { ProviderError, type StorageProvider } from '../providers/provider.ts';
import { createRoutedProvider, markedBucket } from '../providers/routed.ts';
import { knownStore, storeById } from '../queries/stores.ts';
import { createOpenStores } from './open-stores.ts';
import { fingerprintOf, s3Options, settingsOf } from './store-settings.ts';

/* What containers are called on the store, by its kind. */

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

export interface ProviderSource {
  /** All stores that files lie on; its abilities are those of the one that is configured. */
  current(): Promise<StorageProvider>;
  /** Id of the store that is configured. */
  storeId(): Promise<string>;
  /** What a container is called on the store. It is kept with the container, so another scheme never loses what is there. */
  bucketOf(container: string): Promise<string>;
  close(): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'secrets'> {
  readonly config: ConfigHandle<StorageConfig>;
  readonly dataDir: string;
  readonly log: Logger;
}

export function createProviderSource(dependencies: Dependencies): ProviderSource {
  const { config, database, secrets } = dependencies;
  const stores = createOpenStores(dependencies);
  let known: { readonly settings: string; readonly id: Promise<string> } | undefined;

  const storeId = (): Promise<string> => {
    const now = config.current();
    const settings = settingsOf(now);
    if (known?.settings === settings) return known.id;
    const id = database.outside(() =>
      knownStore(database, fingerprintOf(now), (its) => secrets.seal(settings, sealedFor(its))),
    );
    const entry = { settings, id };
    known = entry;
    id.catch(() => {
      if (known === entry) known = undefined;
    });
    return id;
  };

  const another = async (id: string): Promise<StorageProvider> => {
    const there = stores.opened(id);
    if (there) return there;
    const row = await database.outside(() => storeById(database, id));
    if (!row)
      throw new ProviderError('UNAVAILABLE', `There is no store with the id "${id}" any more`);
    return stores.open(id, secrets.open(row.settings, sealedFor(id)));
  };

  let routed: { readonly of: StorageProvider; readonly provider: StorageProvider } | undefined;
  return {
    storeId,
    async current() {
      const settings = settingsOf(config.current());
      const id = await storeId();
      const store = await stores.open(id, settings);
      if (routed?.of !== store)
        routed = {
          of: store,
          provider: createRoutedProvider(store, async (asked) =>
            asked === id ? store : another(asked),
          ),
        };
      return routed.provider;
    },
    bucketOf: async (container) =>
      markedBucket(await storeId(), await bareBucketOf(config.current(), container)),
    async close() {
      await stores.close();
      known = undefined;
      routed = undefined;
    },
  };
}

const sealedFor = (id: string): string => `storage store ${id}`;
