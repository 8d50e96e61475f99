import { createTestDatabase, type TestServer } from './database.ts';
import { liftLimits } from './permissions.ts';
import { platformDatabase } from './platform.ts';
import { startTestRedis } from './servers/fixtures.ts';
import type { RedisServer } from './servers/redis.ts';
import { type SpawnedPlatform, spawnPlatform } from './spawn.ts';

export interface TwoNodesOptions {
  /** Whether the nodes share a Redis, or have only PostgreSQL between them. */
  readonly redis: boolean;
  /** Addresses of one Redis, one for each node, in place of a Redis of their own. */
  readonly redisUrls?: readonly [string, string];
  /** `external15` unless set: the embedded server of a data folder is for one node. */
  readonly server?: TestServer;
  /** Both make what a first start makes, at once. Otherwise that start is over already, which is faster. */
  readonly emptyDatabase?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

export interface TwoNodes {
  readonly first: SpawnedPlatform;
  readonly second: SpawnedPlatform;
  readonly databaseUrl: string;
  readonly redis: RedisServer | undefined;
  close(): Promise<void>;
}

/** Two platform processes that act as one: same database, same master key, data folders of their own. */
export async function startTwoNodes(options: TwoNodesOptions): Promise<TwoNodes> {
  const server = options.server ?? 'external15';
  const database = await (options.emptyDatabase
    ? createTestDatabase({ server })
    : platformDatabase(server, options));
  const redis = options.redis ? await startTestRedis() : undefined;
  const start = (redisUrl = redis?.url ?? '') =>
    spawnPlatform({ env: { ...options.env, DATABASE_URL: database.url, REDIS_URL: redisUrl } });
  const nodes = await Promise.allSettled([
    start(options.redisUrls?.[0]),
    start(options.redisUrls?.[1]),
  ]);
  const close = async () => {
    await Promise.all(
      nodes.map((node) => (node.status === 'fulfilled' ? stopAndRemove(node.value) : undefined)),
    );
    await redis?.stop();
    await database.drop();
  };
  const [first, second] = nodes;
  if (first.status === 'rejected' || second.status === 'rejected') {
    await close();
    throw new Error('A node did not start', {
      cause: first.status === 'rejected' ? first.reason : (second as PromiseRejectedResult).reason,
    });
  }
  await liftLimits(first.value.admin);
  return { first: first.value, second: second.value, databaseUrl: database.url, redis, close };
}

async function stopAndRemove(node: SpawnedPlatform): Promise<void> {
  await node.stop();
  await node.dispose();
}
