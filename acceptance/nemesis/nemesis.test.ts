import { afterEach, describe, expect, it } from 'vitest';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { isClean, type Outcome, report, runNemesis } from './nemesis.ts';
import { createCluster, createSingle, type World } from './world.ts';

/** Each fault about once; `npm run nemesis` is the long form. */
const short = { seconds: 30, kills: 3, writes: 200, writers: 2, restMs: 700 };

const expectClean = (outcome: Outcome): void => {
  if (!isClean(outcome)) throw new Error(report(outcome));
  expect(outcome.kills).toBeGreaterThanOrEqual(2);
  const { create, createMany, update, logout, revoke } = outcome.journal.acknowledged;
  for (const count of [create, createMany, update, logout, revoke])
    expect(count).toBeGreaterThan(0);
};

describe('nothing acknowledged is lost, doubled or stale under faults', {
  timeout: 300_000,
}, () => {
  let world: World | undefined;
  afterEach(() => world?.close(), 120_000);

  it('one node with its embedded server', async () => {
    world = await createSingle();
    expectClean(await runNemesis(world, short));
  });
});

await describeWithPostgres15(
  'nothing acknowledged is lost, doubled or stale under faults of several servers',
  () => {
    let world: World | undefined;
    afterEach(() => world?.close(), 120_000);

    it('two nodes with PostgreSQL 15 and Redis', { timeout: 300_000 }, async () => {
      world = await createCluster();
      expectClean(await runNemesis(world, short));
    });
  },
);
