/** What the services of this module share, and the ways in which failures of the store become answers. */
import type { Kernel } from '../../../host/kernel.ts';
import { type ErrorFactory, errors, PenstockError } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageConfig } from '../config.ts';
import { storageErrors } from '../errors.ts';
import { ProviderError, type StorageProvider } from '../providers/provider.ts';
import type { FileWrites } from '../queries/file-writes.ts';
import type { FileAccess } from './access.ts';
import type { KnownFiles } from './known-files.ts';
import type { Links } from './links.ts';
import type { StorageMeasures } from './measure.ts';
import type { RecordsWithFiles } from './records-with-files.ts';

export interface StorageParts
  extends Pick<
    Kernel,
    | 'database'
    | 'events'
    | 'identity'
    | 'jobs'
    | 'metrics'
    | 'permissions'
    | 'records'
    | 'schemas'
    | 'secrets'
  > {
  readonly config: () => StorageConfig;
  /** The store as it is configured now. */
  readonly provider: () => Promise<StorageProvider>;
  /** Id of the store as it is configured now (queries/stores.ts). */
  readonly storeId: () => Promise<string>;
  /** What a new container is called on the store, with the mark of the store. */
  readonly bucketOf: (container: string) => Promise<string>;
  readonly access: FileAccess;
  readonly recordsWithFiles: RecordsWithFiles;
  /** Whether permissions know a relation to this object (`Type:id`); nothing where nobody can be asked. */
  readonly isRelated: (object: string) => Promise<boolean | undefined>;
  readonly links: Links;
  readonly fileWrites: FileWrites;
  readonly knownFiles: KnownFiles;
  readonly measures: StorageMeasures;
  readonly log: Logger;
}

/** Seconds after which a store that is full or away is asked again. */
const FULL_SECONDS = 30;
const AWAY_SECONDS = 5;

/** A failure of the store as callers hear of it. What the store said stays in the log; any other failure comes back as it is. */
export function publicError(error: unknown, log: Logger): unknown {
  if (!(error instanceof ProviderError)) return error;
  if (error.problem === 'ABORTED') return error;
  if (error.problem === 'LENGTH_MISMATCH') return storageErrors.LENGTH_MISMATCH({ cause: error });
  log.error({ err: error, problem: error.problem }, 'The store of the files failed');
  if (error.problem === 'NO_SPACE')
    return errors.STORAGE_FULL({
      message: 'There is no room left in the store of the files: an operator must make some',
      retryAfter: FULL_SECONDS,
      cause: error,
    });
  if (error.problem === 'UNAVAILABLE')
    return storageErrors.PROVIDER_UNAVAILABLE({ retryAfter: AWAY_SECONDS, cause: error });
  return storageErrors.PROVIDER_ERROR({ cause: error });
}

/** Runs something on the store. Throws errors of the catalogue. */
export async function onStore<T>(log: Logger, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw publicError(error, log);
  }
}

export const isMissingObject = (error: unknown): boolean =>
  error instanceof ProviderError && error.problem === 'NOT_FOUND';

/** The code under which a failure is kept with a file. */
export const codeOfError = (error: unknown): string =>
  error instanceof PenstockError ? error.code : 'INTERNAL_SERVER_ERROR';

/** The value, or the error that says that there is none. */
export function existing<T>(value: T | undefined, missing: ErrorFactory): T {
  if (value === undefined) throw missing();
  return value;
}
