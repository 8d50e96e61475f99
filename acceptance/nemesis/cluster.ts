/** The platforms that are hurt: one with its embedded server, or two with an own PostgreSQL 15 and Redis. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { connectToEmbedded } from '../../test/support/embedded-database.ts';
import {
  findPostgres,
  type KillablePostgres,
  startKillablePostgres,
} from '../../test/support/servers/postgres.ts';
import {
  provideRedis,
  type RedisServer,
  startRedisServer,
} from '../../test/support/servers/redis.ts';
import { mountSmallDisk, type SmallDisk } from '../../test/support/small-disk.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';

export interface Cluster {
  readonly name: string;
  /** The platforms as they are now; one that was killed is replaced. */
  readonly nodes: SpawnedPlatform[];
  readonly postgres: KillablePostgres | undefined;
  redis: RedisServer | undefined;
  /** Of the embedded server, where it can be filled: it takes root. */
  readonly disk: SmallDisk | undefined;
  /** kill -9 of Redis; it comes back at its address, with nothing in it. */
  replaceRedis(awayMs: number): Promise<void>;
  /** Kills a platform, with the server that it started, and starts it again with what it kept. */
  replace(index: number): Promise<void>;
  /** All nodes answer `/ready` with 200. */
  caughtUp(): Promise<void>;
  /** Past the platform. */
  connect(): Promise<pg.Client>;
  close(): Promise<void>;
}

const env = { LOG_LEVEL: 'error' };

async function settle(nodes: readonly SpawnedPlatform[]): Promise<void> {
  for (const [index, node] of nodes.entries()) {
    const ready = async () => {
      const answer = await node.adminAnonymous
        .get('/ready', { signal: AbortSignal.timeout(5_000) })
        .catch(() => undefined);
      return answer?.status === 200;
    };
    await waitFor(ready, { timeoutMs: 120_000, what: `node ${index} to be ready` });
  }
}

/** A connection to a server that may just be on its way up. */
async function insistent(connect: () => Promise<pg.Client>): Promise<pg.Client> {
  const client = await waitFor(() => connect().catch(() => undefined), {
    timeoutMs: 60_000,
    what: 'the database to take connections',
  });
  client.on('error', () => undefined);
  return client;
}

/** Megabytes: the log of the embedded server grows to 1,024. */
const DISK_MEGABYTES = 1_600;

/** One platform of two workers with the server in its data folder. */
export async function createSingle(): Promise<Cluster> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-nemesis-'));
  const disk = await mountSmallDisk(folder, DISK_MEGABYTES);
  const dataDir = join(folder, 'data');
  const supervised = { ...env, WORKERS: '2' };
  const nodes = [await spawnPlatform({ dataDir, env: supervised })];
  return {
    name: 'two workers, embedded PostgreSQL',
    nodes,
    postgres: undefined,
    redis: undefined,
    disk,
    replaceRedis: async () => undefined,
    async replace(index) {
      await nodes[index]?.dispose();
      nodes[index] = await spawnPlatform({ dataDir, env: supervised });
    },
    caughtUp: () => settle(nodes),
    connect: () => insistent(() => connectToEmbedded(dataDir)),
    async close() {
      await stopAll(nodes);
      await disk?.unmount();
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
    },
  };
}

/** Why the second cluster cannot be had here; `undefined` when it can. */
export async function missingForCluster(): Promise<string | undefined> {
  const [postgres, redis] = [await findPostgres(), await provideRedis()];
  return 'missing' in postgres ? postgres.missing : 'missing' in redis ? redis.missing : undefined;
}

/** Two platforms that act as one. */
export async function createCluster(): Promise<Cluster> {
  const [programs, redisProgram] = [await findPostgres(), await provideRedis()];
  if ('missing' in programs) throw new Error(programs.missing);
  if ('missing' in redisProgram) throw new Error(redisProgram.missing);
  const folder = await mkdtemp(join(tmpdir(), 'penstock-nemesis-'));
  // The server runs as another user, who must be able to pass.
  await chmod(folder, 0o755);
  await using failed = new AsyncDisposableStack();
  failed.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 }));
  const postgres = await startKillablePostgres(programs.path, folder);
  failed.defer(() => postgres.stop());
  const startRedis = (port?: number) => startRedisServer(redisProgram.path, port, folder);
  const redis = await startRedis();
  failed.defer(() => cluster.redis?.stop());
  const shared = {
    ...env,
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    READY_CHECK_REDIS: 'false',
  };
  const start = (index: number) =>
    spawnPlatform({ dataDir: join(folder, `data-${index}`), env: shared });
  const nodes: SpawnedPlatform[] = [];
  failed.defer(() => stopAll(nodes));
  const cluster: Cluster = {
    name: 'two nodes, PostgreSQL 15 and Redis',
    nodes,
    postgres,
    redis,
    disk: undefined,
    async replaceRedis(awayMs) {
      await cluster.redis?.signal('SIGKILL');
      await cluster.redis?.stop();
      await sleep(awayMs);
      cluster.redis = await startRedis(redis.port);
    },
    async replace(index) {
      await nodes[index]?.dispose();
      nodes[index] = await start(index);
    },
    caughtUp: () => settle(nodes),
    connect: () =>
      insistent(async () => {
        const client = new pg.Client(postgres.url);
        await client.connect();
        return client;
      }),
    close: () => closing.disposeAsync(),
  };
  for (const index of [0, 1]) nodes.push(await start(index));
  const closing = failed.move();
  return cluster;
}

async function stopAll(nodes: readonly SpawnedPlatform[]): Promise<void> {
  for (const node of nodes) {
    await node.stop();
    await node.dispose();
  }
}
