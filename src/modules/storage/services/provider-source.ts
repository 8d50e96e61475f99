/** The store as the configuration names it: opened when it is first needed, and anew when the configuration changes. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { ConfigHandle } from '../../../kernel/config/config-definition.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageConfig } from '../config.ts';
import type { StorageProvider } from '../providers/provider.ts';
import type { S3ProviderOptions } from '../providers/s3.ts';

export interface ProviderSource {
  current(): Promise<StorageProvider>;
  /** What a container is called on the store. It is kept with the container, so another scheme never loses what is there. */
  bucketOf(container: string): Promise<string>;
  close(): Promise<void>;
}

interface Dependencies {
  readonly config: ConfigHandle<StorageConfig>;
  readonly dataDir: string;
  readonly log: Logger;
}

/** What of the configuration decides where the bytes lie. */
const keyOf = ({ provider, local, aws, azure, google, aliyun }: StorageConfig): string =>
  JSON.stringify([provider, { local: local.storagePath, aws, azure, google, aliyun }[provider]]);

/** Milliseconds for which a store that was replaced serves those who still read from it. */
const LINGER_MS = 60_000;

export function createProviderSource({ config, dataDir, log }: Dependencies): ProviderSource {
  let opened: { readonly key: string; readonly provider: Promise<StorageProvider> } | undefined;
  const closing = new Set<NodeJS.Timeout>();

  const end = (provider: Promise<StorageProvider>): Promise<void> =>
    provider
      .then((store) => store.close())
      .catch((error: unknown) => log.warn({ err: error }, 'A store could not be closed'));

  const current = (): Promise<StorageProvider> => {
    const now = config.current();
    const key = keyOf(now);
    if (opened?.key === key) return opened.provider;
    const before = opened?.provider;
    if (before) {
      const timer = setTimeout(() => {
        closing.delete(timer);
        void end(before);
      }, LINGER_MS);
      closing.add(timer.unref());
    }
    const provider = openProvider(now, dataDir);
    opened = { key, provider };
    // One that could not be opened is tried again by the next who needs it.
    provider.catch(() => {
      if (opened?.provider === provider) opened = undefined;
    });
    return provider;
  };

  return {
    current,
    async bucketOf(container) {
      const now = config.current();
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
    },
    async close() {
      for (const timer of closing) clearTimeout(timer);
      if (opened) await end(opened.provider);
      opened = undefined;
    },
  };
}

/** Each way to a store is code that only those read who use it. */
async function openProvider(config: StorageConfig, dataDir: string): Promise<StorageProvider> {
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

function s3Options({ provider, aws, aliyun }: StorageConfig): S3ProviderOptions {
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
async function accountIdOf(config: StorageConfig): Promise<string> {
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
