/**
 * What one transfer costs, whatever else the machine does: CPU time of the process that serves it and of PostgreSQL,
 * transactions, and how often the log of the database is synced. And where that time goes (`--profile`).
 */
import { join } from 'node:path';
import pg from 'pg';
import { cpuTime, familyCpuTime } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { describeProfile, type ProfileWindow, profileClock, profiling } from '../profile.ts';
import { bareTarget, openStorage, platformTarget, type Target } from './targets.ts';
import { addressesOf, type Kind, transfers, type Work } from './work.ts';

interface Counters {
  readonly own: number;
  readonly postgres: number;
  readonly commits: number;
  readonly syncs: number;
}

interface Side {
  readonly name: string;
  readonly target: Target;
  counters(): Promise<Counters>;
}

const bareSide = (port: number, pid: number): Side => ({
  name: 'bare',
  target: bareTarget(port),
  counters: async () => ({ own: cpuTime(pid), postgres: 0, commits: 0, syncs: 0 }),
});

async function oursSide(platform: Platform, token: string) {
  const { connection, pid } = await platform.database();
  const database = new pg.Client(connection);
  await database.connect();
  const side: Side = {
    name: 'ours',
    target: platformTarget(platform, token),
    async counters() {
      const { rows } = await database.query<{ commits: string; syncs: string }>(
        `select (select sum(xact_commit) from pg_stat_database) as commits,
           (select sum(fsyncs) from pg_stat_io where object = 'wal') as syncs`,
      );
      return {
        own: cpuTime(platform.pid),
        postgres: familyCpuTime(pid),
        commits: Number(rows[0]?.commits),
        syncs: Number(rows[0]?.syncs),
      };
    },
  };
  return { side, close: () => database.end() };
}

const SETTLE_MS = 1_500;
/** Statistics of the database are written a second late. */
const settled = () => new Promise((resolve) => setTimeout(resolve, SETTLE_MS));

/** What is counted while something is done, less what is counted anyway in that time. */
async function countedOf(side: Side, work: () => Promise<unknown>): Promise<Counters> {
  const during = async (some: () => Promise<unknown>) => {
    const [before, began] = [await side.counters(), performance.now()];
    await some();
    await settled();
    const [after, ms] = [await side.counters(), performance.now() - began];
    return { ms, more: (name: keyof Counters) => after[name] - before[name] };
  };
  await settled();
  const idle = await during(settled);
  const busy = await during(work);
  const less = (name: keyof Counters) =>
    Math.max(0, busy.more(name) - (idle.more(name) * busy.ms) / idle.ms);
  return {
    own: less('own'),
    postgres: less('postgres'),
    commits: less('commits'),
    syncs: less('syncs'),
  };
}

async function costOf(side: Side, work: Work, kind: Kind): Promise<string> {
  const content = Buffer.alloc(work.bytes, 'penstock');
  const addresses = kind === 'upload' ? [] : await addressesOf(side.target, work);
  let times = 0;
  const counted = await countedOf(side, async () => {
    times = await transfers(side.target, { ...work, kind, content, addresses });
  });
  const each = (name: keyof Counters): string => (counted[name] / times).toFixed(2);
  const milliseconds = (name: 'own' | 'postgres'): string =>
    (counted[name] / times / 1_000).toFixed(2);
  return `${kind} of ${work.name}, ${side.name}: ${milliseconds('own')} ms, PostgreSQL ${milliseconds('postgres')} ms, ${each('commits')} commits, ${each('syncs')} syncs`;
}

/** Prints what each kind of transfer costs on both sides. */
export async function printCosts(
  platform: Platform,
  bare: { readonly port: number; readonly pid: number },
  plan: { readonly sizes: readonly Work[]; readonly kinds: readonly Kind[] },
): Promise<void> {
  const { side, close } = await oursSide(platform, await openStorage(platform));
  for (const work of plan.sizes)
    for (const kind of plan.kinds)
      for (const each of [bareSide(bare.port, bare.pid), side]) {
        // Once for the compiler.
        await costOf(each, { ...work, times: Math.ceil(work.times / 4) }, kind);
        console.log(await costOf(each, work, kind));
      }
  await close();
}

/** Prints where the time of the platform's process goes. */
export async function printProfile(
  folder: string,
  plan: { readonly sizes: readonly Work[]; readonly kinds: readonly Kind[] },
): Promise<void> {
  const profiles = join(folder, 'profiles');
  const platform = await startPlatform({
    dataDir: join(folder, 'profiled'),
    nodeArguments: profiling(profiles),
  });
  const windows: ProfileWindow[] = [];
  try {
    const target = platformTarget(platform, await openStorage(platform));
    for (const work of plan.sizes) {
      const content = Buffer.alloc(work.bytes, 'penstock');
      const addresses = await addressesOf(target, work);
      for (const kind of plan.kinds) {
        const transfer = { ...work, kind, content, addresses };
        await transfers(target, transfer);
        const from = profileClock();
        const requests = await transfers(target, transfer);
        windows.push({ workload: `${kind} of ${work.name}`, from, to: profileClock(), requests });
      }
    }
  } finally {
    await platform.stop();
  }
  console.log((await describeProfile(profiles, windows)).join('\n'));
}
