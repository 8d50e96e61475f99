import { expect, it } from 'vitest';
import { freePort } from '../../test/support/free-port.ts';
import { silentLog } from '../../test/support/quiet.ts';
import { describeWithRedis, startTestRedis } from '../../test/support/servers/fixtures.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { openRedis } from './redis.ts';
import { StartError } from './start-error.ts';

it('is absent without REDIS_URL', async () => {
  expect(await openRedis({ redisUrl: undefined }, silentLog, 'x')).toBeUndefined();
});

it('refuses to start on an address that is none or where nobody answers, without showing the password', async () => {
  const port = await freePort();
  for (const redisUrl of [
    'not an address',
    'http://user:geheim@127.0.0.1',
    `redis://user:geheim@127.0.0.1:${port}/2`,
  ]) {
    const failure = await openRedis({ redisUrl }, silentLog, 'x').catch(
      (error: unknown) => error as Error,
    );
    expect(failure).toBeInstanceOf(StartError);
    expect((failure as StartError).message).toContain('REDIS_URL');
    expect((failure as StartError).message).not.toMatch(/geheim|\n/);
    if (redisUrl.startsWith('redis:'))
      expect((failure as StartError).message).toContain(
        `127.0.0.1:${port}/2 (REDIS_URL) cannot be used (ECONNREFUSED)`,
      );
  }
});

await describeWithRedis('Redis', () => {
  it('names its keys, says when it is away, and comes back by itself', async () => {
    let server = await startTestRedis();
    const redis = await openRedis({ redisUrl: server.url }, silentLog, 'installation-1');
    if (!redis) throw new Error('REDIS_URL was given');
    expect(redis.key('limit', 'login')).toBe('penstock:installation-1:limit:login');
    await redis.ping(500);
    await server.stop();
    await expect(redis.ping(500)).rejects.toThrow();
    server = await startTestRedis(server.port);
    await waitFor(() => redis.ping(500).then(() => true));
    await redis.close();
    await server.stop();
  });

  it('connects anew when its server became a replica: behind the name may be another primary', async () => {
    const [server, primary] = await Promise.all([startTestRedis(), startTestRedis()]);
    const redis = await openRedis({ redisUrl: server.url }, silentLog, 'installation-3');
    if (!redis) throw new Error('REDIS_URL was given');
    const connection = () => redis.commands.client('ID');
    const before = await connection();
    await redis.commands.replicaof('127.0.0.1', primary.port);
    await expect(redis.commands.set('count', '1')).rejects.toThrow(/READONLY/);
    await waitFor(async () => (await connection()) !== before);
    await redis.close();
    await Promise.all([server.stop(), primary.stop()]);
  });

  it('closes at once while the server is away', async () => {
    const server = await startTestRedis();
    const redis = await openRedis({ redisUrl: server.url }, silentLog, 'installation-2');
    await redis?.subscriber.subscribe('anything');
    await server.stop();
    await waitFor(() => redis?.subscriber.status !== 'ready');
    // Used to wait for the server to come back; the time-out of the test would tell.
    await redis?.close();
    expect(redis?.subscriber.status).not.toBe('ready');
  });
});
