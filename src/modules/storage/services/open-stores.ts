/** Stores that are open: each is opened when it is first needed, and closed after another has taken its place. */
import { join } from 'node:path';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { StorageProvider } from '../providers/provider.ts';
import { limitsOf, type StoreSettings, s3Options } from './store-settings.ts';

interface OpenStores {
  opened(id: string): Promise<StorageProvider> | undefined;
  /** The store with that id, opened anew when its settings are others. */
  open(id: string, settings: string): Promise<StorageProvider>;
  close(): Promise<void>;
}

/** Milliseconds for which a store that was replaced serves those who still read from it. */
const LINGER_MS = 60_000;

interface OpenStore {
  readonly settings: string;
  readonly provider: Promise<StorageProvider>;
}

export function createOpenStores({
  dataDir,
  log,
}: {
  readonly dataDir: string;
  readonly log: Logger;
}): OpenStores {
  const opened = new Map<string, OpenStore>();
  const closing = new Map<NodeJS.Timeout, Promise<StorageProvider>>();

  const end = (provider: Promise<StorageProvider>): Promise<void> =>
    provider
      .then((store) => store.close())
      .catch((error: unknown) => log.warn({ err: error }, 'A store could not be closed'));
  const endLater = (provider: Promise<StorageProvider>): void => {
    const timer = setTimeout(() => {
      closing.delete(timer);
      void end(provider);
    }, LINGER_MS);
    closing.set(timer.unref(), provider);
  };

  return {
    opened: (id) => opened.get(id)?.provider,
    open(id, settings) {
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
    },
    async close() {
      for (const timer of closing.keys()) clearTimeout(timer);
      const all = [...closing.values(), ...[...opened.values()].map(({ provider }) => provider)];
      await Promise.all(all.map(end));
      closing.clear();
      opened.clear();
    },
  };
}

/** The folder of the local store. */
export const localRoot = ({ local }: Pick<StoreSettings, 'local'>, dataDir: string): string =>
  local.storagePath || join(dataDir, 'storage');

/** Each way to a store is code that only those read who use it. */
export async function openProvider(
  config: StoreSettings,
  dataDir: string,
): Promise<StorageProvider> {
  switch (config.provider) {
    case 'local': {
      const { createLocalProvider } = await import('../providers/local.ts');
      return createLocalProvider({ root: localRoot(config, dataDir) });
    }
    case 'azure': {
      const { createAzureProvider } = await import('../providers/azure.ts');
      return createAzureProvider({ ...config.azure, limits: limitsOf(config) });
    }
    case 'google': {
      const { createGoogleProvider } = await import('../providers/google.ts');
      return createGoogleProvider({ ...config.google, limits: limitsOf(config) });
    }
    default: {
      const { createS3Provider } = await import('../providers/s3.ts');
      return createS3Provider(s3Options(config));
    }
  }
}
