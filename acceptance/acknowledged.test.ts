/**
 * What one node has acknowledged holds at the other, whatever stands between them: Redis hangs, is killed or cut off,
 * the other node is paused (its open connections hold requests meanwhile), its listening connection ends or hangs.
 * Faults and load 2026-11-22, B2 to B4; docs/decisions/041.
 *
 * Short here. At length: `ACKNOWLEDGED_ROUNDS=20 ACKNOWLEDGED_PAUSES=1,5,20,30 npm test -- acceptance/acknowledged.test.ts`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type AcknowledgedChange, prepareChanges } from '../test/support/acknowledged-changes.ts';
import { type KeptConnection, keepConnection } from '../test/support/kept-connections.ts';
import { expectStatus } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { descendants } from '../test/support/processes.ts';
import {
  describeWithPostgres15,
  describeWithRedis,
  startTestRedis,
} from '../test/support/servers/fixtures.ts';
import type { RedisServer } from '../test/support/servers/redis.ts';
import { startTcpProxy, type TcpProxy } from '../test/support/tcp-proxy.ts';
import { startTwoNodes, type TwoNodes } from '../test/support/two-nodes.ts';
import { waitFor } from '../test/support/wait-for.ts';

const rounds = Number(process.env.ACKNOWLEDGED_ROUNDS ?? 1);
/** Seconds. */
const pauses = (process.env.ACKNOWLEDGED_PAUSES ?? '1.5').split(',').map(Number);
/** Milliseconds after the acknowledgement at which the other node is asked. */
const askedAfter = [0, 300, 1_500];
const connections = 2;

interface Failure {
  begin(): Promise<unknown>;
  end(): Promise<unknown>;
}

let nodes: TwoNodes;

/** Asks over connections that were open before the failure; answers what was wrong. */
async function wrongAnswers(
  { kind, path, headers, after }: AcknowledgedChange,
  kept: readonly KeptConnection[],
): Promise<string[]> {
  const asked = askedAfter.map(async (ms) => {
    await sleep(ms);
    return Promise.all(
      kept.map(async (connection) => ({ ms, status: await connection.ask(path, headers) })),
    );
  });
  const answers = (await Promise.all(asked)).flat();
  return answers
    .filter(({ status }) => !after.includes(status))
    .map(({ ms, status }) => `${kind} +${ms} ms: ${status}`);
}

/** All changes at once under one failure. Answers what was wrong, and how many changes named a node that did not confirm. */
async function underFailure(
  failure: Failure,
  pauseMs?: number,
): Promise<{ readonly wrong: readonly string[]; readonly unconfirmed: number }> {
  const changes = await prepareChanges(nodes.first);
  const kept = await Promise.all(
    changes.map(() =>
      Promise.all(
        Array.from({ length: connections }, () => keepConnection(nodes.second.addresses.client)),
      ),
    ),
  );
  for (const [index, { kind, path, headers }] of changes.entries())
    for (const connection of kept[index] ?? [])
      expect([kind, await connection.ask(path, headers)]).toEqual([kind, 200]);
  let unconfirmed = 0;
  await failure.begin();
  const paused = pauseMs === undefined ? undefined : sleep(pauseMs);
  const acknowledged: Promise<unknown>[] = [];
  const asked = changes.map(async (change, index) => {
    const applied = change.apply();
    acknowledged.push(applied);
    const answer = expectStatus(await applied, 200, change.kind);
    if (answer.headers.has('penstock-unconfirmed-nodes')) unconfirmed += 1;
    return wrongAnswers(change, kept[index] ?? []);
  });
  try {
    // Whoever is paused goes on when the requests wait on its connections.
    if (paused)
      await Promise.all([paused, ...acknowledged])
        .then(() => sleep(400))
        .then(failure.end);
    return { wrong: (await Promise.all(asked)).flat(), unconfirmed };
  } finally {
    if (!paused) await failure.end();
    for (const connection of kept.flat()) connection.close();
  }
}

/** Until changes are confirmed again. */
const recovered = () =>
  waitFor(
    async () => {
      const { status, headers } = await nodes.first.admin.patch('/config/router', {
        transports: { graphql: true },
      });
      return status === 200 && !headers.has('penstock-unconfirmed-nodes');
    },
    { what: 'the nodes to hear each other again' },
  );

async function holdsUnder(failure: Failure, pauseMs?: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const { wrong, unconfirmed } = await underFailure(failure, pauseMs);
    expect(wrong).toEqual([]);
    expect(unconfirmed).toBeGreaterThan(0);
    await recovered();
  }
}

/** The second node with all its processes. */
const paused: Failure = {
  begin: () => signalSecond('SIGSTOP'),
  end: () => signalSecond('SIGCONT'),
};

async function signalSecond(signal: NodeJS.Signals): Promise<void> {
  const { pid } = nodes.second;
  for (const each of [pid, ...(await descendants(pid)).map((process) => process.pid)])
    process.kill(each, signal);
}

function suiteOfPauses(): void {
  it.each(pauses)(
    'the other node is paused for %d s',
    (seconds) => holdsUnder(paused, seconds * 1_000),
    240_000 * rounds,
  );
}

await describeWithRedis('acknowledged changes, with Redis between the nodes', () => {
  let proxy: TcpProxy;
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startTestRedis();
    proxy = await startTcpProxy(redis.port);
    nodes = await startTwoNodes({
      redis: false,
      redisUrls: [redis.url, `redis://127.0.0.1:${proxy.port}`],
    });
    await liftLimits(nodes.first.admin);
  }, 120_000);
  afterAll(async () => {
    await nodes?.close();
    await proxy?.close();
    await redis?.stop();
  }, 60_000);

  const timeout = 120_000 * rounds;
  it(
    'Redis hangs',
    () => holdsUnder({ begin: () => redis.signal('SIGSTOP'), end: () => redis.signal('SIGCONT') }),
    timeout,
  );
  it(
    'Redis is killed',
    () => {
      const { port } = redis;
      const end = async () => {
        redis = await startTestRedis(port);
      };
      return holdsUnder({ begin: () => redis.stop(), end }, undefined);
    },
    timeout,
  );
  it(
    'the other node is cut off from Redis',
    () => holdsUnder({ begin: async () => proxy.cut(), end: async () => proxy.mend() }),
    timeout,
  );
  suiteOfPauses();
});

await describeWithPostgres15(
  'acknowledged changes, with PostgreSQL alone between the nodes',
  () => {
    let database: pg.Client;
    beforeAll(async () => {
      nodes = await startTwoNodes({ redis: false });
      database = new pg.Client(nodes.databaseUrl);
      await database.connect();
      await liftLimits(nodes.first.admin);
    }, 120_000);
    afterAll(async () => {
      await database?.end();
      await nodes?.close();
    }, 60_000);

    const listeners = `from pg_stat_activity where datname = current_database() and starts_with(application_name, 'penstock listener')`;
    const signalListeners = async (signal: NodeJS.Signals): Promise<void> => {
      const { rows } = await database.query<{ pid: number }>(`select pid ${listeners}`);
      expect(rows).toHaveLength(2);
      for (const { pid } of rows) process.kill(pid, signal);
    };

    it(
      'the listening connections hang',
      () =>
        holdsUnder({
          begin: () => signalListeners('SIGSTOP'),
          end: () => signalListeners('SIGCONT'),
        }),
      120_000 * rounds,
    );
    it(
      'the listening connections end again and again',
      async () => {
        let timer: NodeJS.Timeout | undefined;
        const end = () => database.query(`select pg_terminate_backend(pid) ${listeners}`);
        const begin = async () => {
          expect((await end()).rows).toHaveLength(2);
          timer = setInterval(() => void end(), 50);
        };
        const cut = { begin, end: async () => clearInterval(timer) };
        for (let round = 0; round < rounds; round += 1) {
          expect((await underFailure(cut)).wrong).toEqual([]);
          await recovered();
        }
      },
      120_000 * rounds,
    );
    suiteOfPauses();
  },
);
