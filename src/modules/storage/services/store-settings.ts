/** What of the configuration is about the store, and what of that makes it another store. */
import { createHash } from 'node:crypto';
import type { StorageConfig } from '../config.ts';
import { type TransportLimits, usualLimits } from '../providers/provider.ts';
import type { S3ProviderOptions } from '../providers/s3.ts';

export type StoreSettings = Pick<
  StorageConfig,
  'provider' | 'local' | 'aws' | 'azure' | 'google' | 'aliyun'
> & {
  /** Settings of before have none. */
  readonly connection?: StorageConfig['connection'];
};

/** Milliseconds in which a connection stands, however long a store may take afterwards. */
const CONNECT_MS = 10_000;

/** How long a store outside may take, and how often it is asked. */
export function limitsOf({ connection }: StoreSettings): TransportLimits {
  if (!connection) return usualLimits;
  const idleMs = connection.timeout * 1_000;
  return { connectMs: Math.min(CONNECT_MS, idleMs), idleMs, attempts: connection.attempts };
}

/** By configuration: a new one is another object. */
const known = new WeakMap<StoreSettings, string>();

/** What of the configuration decides how bytes are reached. */
export function settingsOf(config: StoreSettings): string {
  const there = known.get(config);
  if (there !== undefined) return there;
  const settings = settingsText(config);
  known.set(config, settings);
  return settings;
}

const settingsText = ({
  provider,
  connection,
  local,
  aws,
  azure,
  google,
  aliyun,
}: StoreSettings): string =>
  JSON.stringify({
    provider,
    connection,
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
    google: () => [
      google.serviceAccountKeyPath,
      projectOf(google.serviceAccountKeyJson),
      // Another way to it is not another store, unless it leads to another server.
      ...(isGoogle(google.endpoint) ? [] : [google.endpoint]),
    ],
    aliyun: () => [aliyun.region],
  };
  return digestOf([provider, ...(places[provider]?.() ?? [])]);
}

const digestOf = (where: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(where)).digest('hex');

/** Of the local store in the data folder, which is where a backup looks for contents. */
export const dataFolderFingerprint = digestOf(['local', '']);

/** Settings of before have no endpoint. */
const isGoogle = (endpoint: string | undefined): boolean =>
  !endpoint || new URL(endpoint).hostname.endsWith('.googleapis.com');

function projectOf(key: string): string {
  try {
    return String((JSON.parse(key) as { project_id?: unknown }).project_id ?? '');
  } catch {
    return '';
  }
}

/** How the stores of Amazon and Alibaba, and those that speak as they do, are reached. */
export function s3Options(settings: StoreSettings): S3ProviderOptions {
  const { provider, aws, aliyun } = settings;
  const limits = limitsOf(settings);
  if (provider === 'aliyun') {
    const { region, accessKeyId, accessKeySecret } = aliyun;
    return {
      name: 'aliyun',
      region,
      accessKeyId,
      secretAccessKey: accessKeySecret,
      endpoint: `https://s3.${region}.aliyuncs.com`,
      usePathStyle: false,
      limits,
    };
  }
  const { region, accessKeyId, secretAccessKey, endpoint, usePathStyle } = aws;
  const { encryption: algorithm, encryptionKey: keyId } = aws;
  return {
    name: 'aws',
    region: region || 'us-east-1',
    accessKeyId,
    secretAccessKey,
    endpoint: endpoint || undefined,
    usePathStyle,
    encryption: algorithm ? { algorithm, keyId } : undefined,
    limits,
  };
}
