/** The store as the configuration names it: opened when it is first needed, and anew when the configuration changes. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Kernel } from '../../../host/kernel.ts';
import type { ConfigHandle } from '../../../kernel/config/config-definition.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageConfig } from '../config.ts';
import { ProviderError, type StorageProvider } from '../providers/provider.ts';
import { createRoutedProvider, markedBucket } from '../providers/routed.ts';
import type { S3ProviderOptions } from '../providers/s3.ts';
import { knownStore, storeById } from '../queries/stores.ts';

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

type StoreSettings = Pick<
  StorageConfig,
  'provider' | 'local' | 'aws' | 'azure' | 'google' | 'aliyun'
>;

/** What of the configuration decides how bytes are reached. */
const settingsOf = ({ provider, local, aws, azure, google, aliyun }: StoreSettings): string =>
  JSON.stringify({
    provider,
    local: { storagePath: local.storagePath },
    aws,
    azure,
    google,
    aliyun,
  });

/** What decides where they lie: the same store with other credentials is the same store. */
export function fingerprintOf(config: StoreSettings): string {
  const { provider, local, aws, azure, google, aliyun } = config;
  const places: Record<string, () => readonly string[]> = {
    local: () => [local.storagePath],
    aws: () => [aws.endpoint, aws.region, aws.accountId],
    azure: () => [/AccountName=([^;]*)/.exec(azure.connectionString)?.[1] ?? ''],
    google: () => [google.serviceAccountKeyPath, projectOf(google.serviceAccountKeyJson)],
    aliyun: () => [aliyun.region],
  };
  const where = [provider, ...(places[provider]?.() ?? [])];
  return createHash('sha256').update(JSON.stringify(where)).digest('hex');
}

function projectOf(key: string): string {
  try {
    return String((JSON.parse(key) as { project_id?: unknown }).project_id ?? '');
  } catch {
    return '';
  }
}

/** Milliseconds for which a store that was replaced serves those who still read from it. */
const LINGER_MS = 60_000;

interface OpenStore {
  readonly settings: string;
  readonly provider: Promise<StorageProvider>;
}

export function createProviderSource(dependencies: Dependencies): ProviderSource {
  const { config, dataDir, database, secrets, log } = dependencies;
  const opened = new Map<string, OpenStore>();
  const closing = new Set<NodeJS.Timeout>();
  let known: { readonly settings: string; readonly id: Promise<string> } | undefined;

  const end = (provider: Promise<StorageProvider>): Promise<void> =>
    provider
      .then((store) => store.close())
      .catch((error: unknown) => log.warn({ err: error }, 'A store could not be closed'));
  const endLater = (provider: Promise<StorageProvider>): void => {
    const timer = setTimeout(() => {
      closing.delete(timer);
      void end(provider);
    }, LINGER_MS);
    closing.add(timer.unref());
  };

  /** The store with that id, opened anew when its settings are others. */
  const openStore = (id: string, settings: string): Promise<StorageProvider> => {
    const there = opened.get(id);
    if (there?.settings === settings) return there.provider;
    if (there) endLater(there.provider);
    const provider = openProvider(JSON.parse(settings) as StoreSettings, dataDir);
    const entry = { settings, provider };
    opened.set(id, entry);
    // One that could not be opened is tried again by the next who needs it.
    provider.catch(() => {
      if (opened.get(id) === entry) opened.delete(id);
    });
    return provider;
  };

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
    const there = opened.get(id);
    if (there) return there.provider;
    const row = await database.outside(() => storeById(database, id));
    if (!row)
      throw new ProviderError('UNAVAILABLE', `There is no store with the id "${id}" any more`);
    return openStore(id, secrets.open(row.settings, sealedFor(id)));
  };

  let routed: { readonly of: StorageProvider; readonly provider: StorageProvider } | undefined;
  return {
    storeId,
    async current() {
      const settings = settingsOf(config.current());
      const id = await storeId();
      const store = await openStore(id, settings);
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
      for (const timer of closing) clearTimeout(timer);
      await Promise.all([...opened.values()].map(({ provider }) => end(provider)));
      opened.clear();
      known = undefined;
      routed = undefined;
    },
  };
}

const sealedFor = (id: string): string => `storage store ${id}`;

async function bareBucketOf(now: StorageConfig, container: string): Promise<string> {
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

/** Each way to a store is code that only those read who use it. */
async function openProvider(config: StoreSettings, dataDir: string): Promise<StorageProvider> {
  switch (config.provider) {
    case 'local': {
      const { createLocalProvider } = await import('../providers/local.ts');
      return createLocalProvider({ root: config.local.storagePath || join(dataDir, 'storage') });
    }
    case 'azure': {
      const { createAzureProvider } = await import('../providers/azure.ts');
      return createAzureProvider(config.azure);
    }
    case 'google': {
      const { createGoogleProvider } = await import('../providers/google.ts');
      return createGoogleProvider(config.google);
    }
    default: {
      const { createS3Provider } = await import('../providers/s3.ts');
      return createS3Provider(s3Options(config));
    }
  }
}

function s3Options({ provider, aws, aliyun }: StoreSettings): S3ProviderOptions {
  if (provider === 'aliyun') {
    const { region, accessKeyId, accessKeySecret } = aliyun;
    return {
      name: 'aliyun',
      region,
      accessKeyId,
      secretAccessKey: accessKeySecret,
      endpoint: `https://s3.${region}.aliyuncs.com`,
      usePathStyle: false,
    };
  }
  const { region, accessKeyId, secretAccessKey, endpoint, usePathStyle } = aws;
  return {
    name: 'aws',
    region: region || 'us-east-1',
    accessKeyId,
    secretAccessKey,
    endpoint: endpoint || undefined,
    usePathStyle,
  };
}

/** Empty where nobody tells: on other stores than Amazon's. */
async function accountIdOf(config: StoreSettings): Promise<string> {
  const { readAccountId } = await import('../providers/s3.ts');
  return (await readAccountId(s3Options(config))) ?? '';
}

const MAX_BUCKET = 63;

/** Names are shared with everybody on most stores, and know hyphens only, one at a time. */
function bucketName(parts: readonly string[]): string {
  const wanted = parts.filter((part) => part !== '').join('-');
  const name = wanted.replaceAll(/[^a-z0-9]+/g, '-');
  if (name === wanted && name.length <= MAX_BUCKET) return name;
  const digest = createHash('sha256').update(wanted).digest('hex').slice(0, 10);
  return `${name.slice(0, MAX_BUCKET - digest.length - 1)}-${digest}`;
}
