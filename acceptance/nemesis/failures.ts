/** What happens to the processes while they are written to. Each failure is over, or on its way to be, when it returns. */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { descendants } from '../../test/support/processes.ts';
import type { SpawnedPlatform } from '../../test/support/spawn.ts';
import type { Cluster } from './cluster.ts';

export interface Failure {
  readonly name: string;
  /** It ends a process. */
  readonly kills: boolean;
  readonly possible: (cluster: Cluster) => boolean;
  run(cluster: Cluster, turn: number): Promise<void>;
}

const single = ({ postgres }: Cluster): boolean => postgres === undefined;
const cluster = ({ postgres }: Cluster): boolean => postgres !== undefined;
const always = (): boolean => true;

const nodeAt = ({ nodes }: Cluster, turn: number): SpawnedPlatform => {
  const node = nodes[turn % nodes.length];
  if (!node) throw new Error('There is no node');
  return node;
};

async function pause(pids: readonly number[], ms: number): Promise<void> {
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    await sleep(ms);
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
}

async function withConnection(
  cluster: Cluster,
  work: (client: pg.Client) => Promise<unknown>,
): Promise<void> {
  const client = await cluster.connect();
  try {
    await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** The postmaster of an embedded server, by its title. */
const embeddedPostmaster = async (node: SpawnedPlatform): Promise<number> => {
  const found = (await descendants(node.pid)).find(
    ({ command }) => / -D /.test(command) && /postgres/.test(command.split(' ', 1)[0] ?? ''),
  );
  if (!found) throw new Error('The embedded server does not run');
  return found.pid;
};

export const failures: readonly Failure[] = [
  {
    name: 'kill -9 of a node',
    kills: true,
    possible: always,
    run: (cluster, turn) => cluster.replace(turn % cluster.nodes.length),
  },
  {
    name: 'kill -9 of the postmaster',
    kills: true,
    possible: always,
    async run(cluster) {
      if (!cluster.postgres)
        return void process.kill(await embeddedPostmaster(nodeAt(cluster, 0)), 'SIGKILL');
      await cluster.postgres.killAndRestart();
    },
  },
  {
    name: 'end of all backends',
    kills: true,
    possible: always,
    run: (cluster) =>
      withConnection(cluster, (client) =>
        client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename is not null',
        ),
      ),
  },
  {
    name: 'kill -9 of Redis',
    kills: true,
    possible: cluster,
    run: (cluster) => cluster.replaceRedis(2_000),
  },
  {
    name: 'Redis hangs for 4 s',
    kills: false,
    possible: cluster,
    async run({ redis }) {
      await redis?.signal('SIGSTOP');
      await sleep(4_000);
      await redis?.signal('SIGCONT');
    },
  },
  {
    name: 'a node stands still for 3 s',
    kills: false,
    possible: always,
    run: async (cluster, turn) => pause(await nodeAt(cluster, turn).workers(), 3_000),
  },
  {
    name: 'a table is locked for 2 s',
    kills: false,
    possible: always,
    run: (cluster) =>
      withConnection(cluster, async (client) => {
        await client.query('begin');
        await client.query('lock table app."Entry" in access exclusive mode');
        await sleep(2_000);
        await client.query('commit');
      }),
  },
  {
    name: 'kill -9 of a worker',
    kills: true,
    possible: single,
    async run(cluster, turn) {
      const workers = await nodeAt(cluster, 0).workers();
      process.kill(workers[turn % workers.length] ?? 0, 'SIGKILL');
    },
  },
  {
    name: 'the disk is full for 3 s',
    kills: false,
    possible: ({ disk }) => disk !== undefined,
    async run({ disk }) {
      await disk?.fill();
      await sleep(3_000);
      await disk?.free();
    },
  },
  {
    name: 'SIGTERM to a node, and a new start',
    kills: true,
    possible: single,
    async run(cluster) {
      await nodeAt(cluster, 0).stop();
      await cluster.replace(0);
    },
  },
];
