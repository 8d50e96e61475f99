/** How suites reach what the fixture broker owns. */
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, inject, it } from 'vitest';
import type { Fixture, FixtureName } from './fixture-broker.ts';
import { type RedisServer, startRedisServer } from './redis.ts';

/** Asks the broker; the first request for a server waits until it runs. */
export async function askFixture(name: FixtureName): Promise<Fixture> {
  const { promise, resolve, reject } = Promise.withResolvers<Fixture>();
  const asked = request(
    {
      socketPath: inject('fixtureSocket'),
      path: `/${name}/${process.env.VITEST_POOL_ID ?? '0'}`,
      agent: false,
    },
    async (response) => {
      const body = await text(response);
      if (response.statusCode === 200) resolve(JSON.parse(body) as Fixture);
      else reject(new Error(`The fixture ${name} could not start: ${body}`));
    },
  );
  asked.once('error', reject);
  asked.end();
  return promise;
}

/** Address or path of a fixture that must be there. */
export async function requireFixture(name: FixtureName): Promise<string> {
  const fixture = await askFixture(name);
  if ('missing' in fixture) throw new Error(fixture.missing);
  return fixture.value;
}

/**
 * A suite that needs a foreign server. Where that cannot be had, the suite is reported as skipped with
 * the reason in its name; with `CI` set it fails instead.
 */
async function describeWith(
  fixtureName: FixtureName,
  name: string,
  suite: () => void,
): Promise<void> {
  const fixture = await askFixture(fixtureName);
  if ('value' in fixture) {
    describe(name, suite);
  } else if (process.env.CI) {
    it(`${name}: needs ${fixtureName}`, () => {
      throw new Error(fixture.missing);
    });
  } else {
    describe.skip(`${name} [skipped: ${fixture.missing}]`, suite);
  }
}

/** `await describeWithRedis('...', () => {...})` at the top level of a test file. */
export const describeWithRedis = (name: string, suite: () => void): Promise<void> =>
  describeWith('redis-program', name, suite);

/** The same for suites on a PostgreSQL 15 that is not ours. */
export const describeWithPostgres15 = (name: string, suite: () => void): Promise<void> =>
  describeWith('external15', name, suite);

/** A Redis of the caller's own; on `port` when it takes the place of one that was stopped. */
export async function startTestRedis(port?: number): Promise<RedisServer> {
  return startRedisServer(await requireFixture('redis-program'), port);
}
