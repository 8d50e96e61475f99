/** Compares the versions that the database has with those that this node has loaded, and loads what is older. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Database } from '../database/database.ts';
import { healthSql } from '../database/sql.ts';
import { PenstockError } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Topic } from './freshness.ts';

/** What one look at the database found. */
export interface VersionReading {
  /** Another one after a restart, a failover or a restore: versions from before mean nothing then. */
  readonly server: string;
  readonly versions: Readonly<Record<string, number>> | null;
}

export interface Versions {
  watch(topic: Topic, refresh: () => Promise<unknown>): () => void;
  /** Loads what is older than this reading. Throws when the database cannot be asked. */
  take(reading: VersionReading): Promise<void>;
  /** Reads the versions after this call, and takes them. Callers at the same time share a statement. */
  catchUp(): Promise<void>;
}

interface Watch {
  readonly topic: Topic;
  readonly refresh: () => Promise<unknown>;
  /** What is loaded is at least as new as this. */
  server: string;
  version: number;
}

/** Nothing that was loaded before the first reading exists, so what is watched starts from it. */
export function createVersions(database: Database, first: VersionReading, log: Logger): Versions {
  const watches = new Set<Watch>();
  // A reading is shared, so it belongs to no request's transaction and to no request's account.
  const outside = AsyncLocalStorage.snapshot();
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const renew = async (watch: Watch, server: string, version: number): Promise<void> => {
    try {
      await watch.refresh();
    } catch (error) {
      // Without the database nobody can say what holds. Any other failure would come again: it must not stop the node.
      if (error instanceof PenstockError && error.status >= 503) throw error;
      log.error(
        { err: error, topic: watch.topic },
        'A change of another node could not be taken in',
      );
    }
    if (watch.server === server && watch.version >= version) return;
    watch.server = server;
    watch.version = version;
  };

  const take = async ({ server, versions }: VersionReading): Promise<void> => {
    const renewals = [...watches].flatMap((watch) => {
      const version = versions?.[watch.topic] ?? 0;
      return watch.server === server && watch.version >= version
        ? []
        : [renew(watch, server, version)];
    });
    if (renewals.length > 0) await Promise.all(renewals);
  };

  const begin = (): Promise<void> => {
    const asked = outside(async () => take(await readVersions(database)));
    running = asked;
    const end = (): void => {
      running = undefined;
    };
    asked.then(end, end);
    return asked;
  };

  return {
    watch(topic, refresh) {
      const version = first.versions?.[topic] ?? 0;
      const watch: Watch = { topic, refresh, server: first.server, version };
      watches.add(watch);
      return () => void watches.delete(watch);
    },
    take,
    catchUp() {
      if (!running) return begin();
      // What is being read may have been read before this call; the next reading is not.
      next ??= running
        .catch(() => undefined)
        .then(() => {
          next = undefined;
          return running ?? begin();
        });
      return next;
    },
  };
}

async function readVersions(database: Database): Promise<VersionReading> {
  const { rows } = await database.query<VersionReading>(healthSql`
    select pg_postmaster_start_time()::text as server, (select json_object_agg(topic, version) from penstock.versions) as versions`);
  const [reading] = rows;
  if (!reading) throw new Error('The database did not answer which versions it has');
  return reading;
}
