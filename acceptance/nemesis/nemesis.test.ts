import { afterEach, describe, expect, it } from 'vitest';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { type Cluster, createCluster, createSingle } from './cluster.ts';
import { isClean, type Outcome, report, runNemesis } from './nemesis.ts';

/** Each failure about once; `npm run nemesis` is the long form. */
const short = { seconds: 30, kills: 3, writes: 200, writers: 2, restMs: 700 };

const expectClean = (outcome: Outcome): void => {
  if (!isClean(outcome)) throw new Error(report(outcome));
  expect(outcome.kills).toBeGreaterThanOrEqual(2);
  const { create, createMany, update, logout, revoke } = outcome.journal.acknowledged;
  for (const count of [create, createMany, update, logout, revoke])
    expect(count).toBeGreaterThan(0);
};

describe('nothing acknowledged is lost, doubled or stale under failures', {
  timeout: 300_000,
}, () => {
  let cluster: Cluster | undefined;
  afterEach(() => cluster?.close(), 120_000);

  it('one node with its embedded server', async () => {
    cluster = await createSingle();
    expectClean(await runNemesis(cluster, short));
  });
});

await describeWithPostgres15(
  'nothing acknowledged is lost, doubled or stale under faults of several servers',
  () => {
    let cluster: Cluster | undefined;
    afterEach(() => cluster?.close(), 120_000);

    it('two nodes with PostgreSQL 15 and Redis', { timeout: 300_000 }, async () => {
      cluster = await createCluster();
      expectClean(await runNemesis(cluster, short));
    });
  },
);
