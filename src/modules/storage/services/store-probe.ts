/**
 * A store is asked before a configuration that leads to it is kept (decision 180): whether it answers, takes the
 * credentials, and lets us have the bucket of the default container. What is wrong is said of the field that decides it.
 */
import { invalid } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageConfig } from '../config.ts';
import { ProviderError, type StorageProvider } from '../providers/provider.ts';
import { openProvider } from './open-stores.ts';
import { settingsOf } from './store-settings.ts';

/** A dead address is known soon, and one who passes a bad moment tries again. */
const PROBE = { timeout: 10, attempts: 1 } as const;

interface ProbeOptions {
  readonly dataDir: string;
  /** What the default container is called on the store. */
  bucketOf(config: StorageConfig): Promise<string>;
  readonly log: Logger;
}

/** Whether another configuration reaches the store in another way. */
export const reachesDifferently = (next: StorageConfig, previous: StorageConfig): boolean => {
  const ways = [next, previous].map((config) => {
    const { provider, connection: _connection, ...settings } = JSON.parse(settingsOf(config));
    return JSON.stringify([provider, settings[provider]]);
  });
  return ways[0] !== ways[1];
};

/** Throws 400 that names a field of the configuration. */
export async function probeStore(
  config: StorageConfig,
  { dataDir, bucketOf, log }: ProbeOptions,
): Promise<void> {
  let store: StorageProvider | undefined;
  let asked: 'store' | 'bucket' = 'store';
  try {
    store = await openProvider({ ...config, connection: PROBE }, dataDir);
    await store.probe();
    const bucket = await bucketOf({ ...config, connection: PROBE });
    asked = 'bucket';
    await store.bucketExists(bucket);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    log.warn(
      { err: error, provider: config.provider },
      'A store that was to be used does not work',
    );
    throw asked === 'bucket' && error.problem !== 'UNAVAILABLE'
      ? invalid(
          'defaultContainer',
          'store',
          'the store does not let you have the bucket of this container: it may belong to somebody else',
        )
      : unusable(config, error);
  } finally {
    await store?.close();
  }
}

interface Fields {
  /** Where the store is. */
  readonly place: string;
  readonly credentials: string;
}

const fieldsOf = ({ provider, aws, google }: StorageConfig): Fields => {
  switch (provider) {
    case 'local':
      return { place: 'local.storagePath', credentials: 'local.storagePath' };
    case 'azure':
      return { place: 'azure.connectionString', credentials: 'azure.connectionString' };
    case 'google':
      return {
        place: 'google.endpoint',
        credentials: google.serviceAccountKeyJson
          ? 'google.serviceAccountKeyJson'
          : 'google.serviceAccountKeyPath',
      };
    case 'aliyun':
      return { place: 'aliyun.region', credentials: 'aliyun.accessKeySecret' };
    default:
      return {
        place: aws.endpoint ? 'aws.endpoint' : 'aws.region',
        credentials: 'aws.secretAccessKey',
      };
  }
};

/** What stores of this kind say, by the code of their refusal. */
const byCode = new Map<string, string>([
  ['InvalidAccessKeyId', 'accessKeyId'],
  ['AuthorizationHeaderMalformed', 'region'],
  ['PermanentRedirect', 'region'],
  ['IllegalLocationConstraintException', 'region'],
]);

function unusable(config: StorageConfig, error: ProviderError): Error {
  const { place, credentials } = fieldsOf(config);
  if (config.provider === 'local')
    return invalid(place, 'store', 'this folder cannot be written to');
  if (error.problem === 'UNAVAILABLE')
    return invalid(place, 'store', 'nothing that works as such a store answers there');
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const field = byCode.get(code);
  const known = field !== undefined && ['aws', 'aliyun'].includes(config.provider);
  return invalid(
    known ? `${config.provider}.${field}` : credentials,
    'store',
    error.problem === 'REFUSED'
      ? 'the store does not take this'
      : 'what answers there is no such store',
  );
}
