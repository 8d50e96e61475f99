/**
 * Measures the platform beside the bare program, in one run on this machine, and
 * writes `RESULTS.md`. `npm run bench -- --help` lists the options.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { BareConfig, BareReady } from './bare.ts';
import { createBareTables } from './bare-tables.ts';
import { startHelper } from './child.ts';
import { assertSameAnswers, type Comparison, compare, type Plan, type Side } from './compare.ts';
import {
  authorSchema,
  type BenchData,
  fill,
  ROWS,
  readSchema,
  sharedSchema,
  writeSchema,
} from './dataset.ts';
import { type GrowthRow, measureGrowth } from './growth.ts';
import { type Material, requireWrk } from './load.ts';
import { describeMachine, residentMemory } from './machine.ts';
import { type Platform, startPlatform } from './platform.ts';
import { profilePlatform } from './profile.ts';
import { partialSummary, summary, writeReport } from './report.ts';
import { measureStartUp } from './startup.ts';
import { type Workload, workloads } from './workloads.ts';

const help = `Measures Penstock beside a bare program and writes bench/RESULTS.md: about 8 minutes. Needs wrk.

  npm run bench -- [options]

  --rounds <n>       measurements of each kind, in turns (5)
  --seconds <n>      length of each (2)
  --connections <n>  at the same time (32)
  --dry              print the figures, leave RESULTS.md as it is
  --only <parts>     start, requests (or names of them, such as get), growth, with commas; leaves RESULTS.md as it is
  --profile          instead: where the time of our own process goes, by area and function`;

const benchSchemas = {
  read: readSchema,
  write: writeSchema,
  author: authorSchema,
  shared: sharedSchema,
};

/** Connections of the bare program to PostgreSQL: what measured best. */
const bareConnections = { readConnections: 4, writeConnections: 8 };

const print = (line: string): void => console.log(line);

interface Options {
  readonly plan: Plan;
  readonly dry: boolean;
  /** Names of parts; all unless set. */
  readonly only: readonly string[] | undefined;
  readonly profile: boolean;
}

function readOptions(): Options | undefined {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      connections: { type: 'string', default: '32' },
      dry: { type: 'boolean', default: false },
      only: { type: 'string' },
      profile: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return undefined;
  const [rounds, seconds, connections] = [values.rounds, values.seconds, values.connections].map(
    Number,
  );
  if (!rounds || !seconds || !connections)
    throw new Error('--rounds, --seconds and --connections must be numbers above 0');
  return {
    plan: { rounds, seconds, connections },
    dry: values.dry,
    only: values.only?.split(','),
    profile: values.profile,
  };
}

interface Measured {
  readonly comparison: Comparison;
  readonly loadedMemory: number;
  readonly serverVersion: string;
}

const materialOf = ({ grants: _, ...material }: BenchData): Material => material;

const oursSide = (platform: Platform, data: BenchData): Side => ({
  name: 'ours',
  pid: platform.pid,
  origin: platform.clientOrigin,
  material: materialOf(data),
});

/** Both servers on one PostgreSQL server. */
async function measureRequests(
  platform: Platform,
  plan: Plan,
  chosen: readonly Workload[],
): Promise<Measured> {
  print('Filling the platform');
  const data = await fill(platform);
  const database = await platform.database();
  const { serverVersion, ...tables } = await createBareTables(
    database.connection,
    benchSchemas,
    data.grants,
  );
  const bare = startHelper<BareConfig, BareReady>('bare.ts');
  try {
    const { port } = await bare.ask({
      connection: database.connection,
      ...tables,
      ...bareConnections,
    });
    const bareSide: Side = {
      name: 'bare',
      pid: bare.pid,
      origin: `http://127.0.0.1:${port}`,
      material: { ...materialOf(data), tokens: [] },
    };
    const sides = [bareSide, oursSide(platform, data)] as const;
    await assertSameAnswers(sides);
    const comparison = await compare({ sides, postgresPid: database.pid, plan }, chosen, print);
    return { comparison, loadedMemory: residentMemory(platform.pid), serverVersion };
  } finally {
    bare.close();
  }
}

const chosenOf = ({ only }: Pick<Options, 'only'>): readonly Workload[] =>
  workloads.filter(
    ({ name }) => only === undefined || only.includes('requests') || only.includes(name),
  );

async function measureAll(folder: string, { plan, dry, only }: Options): Promise<void> {
  const loadBefore = loadavg()[0] ?? 0;
  const isSelected = (part: string): boolean => only === undefined || only.includes(part);
  if (isSelected('start')) print('Measuring the start');
  const start = isSelected('start') ? await measureStartUp(folder) : undefined;
  const chosen = chosenOf({ only });
  const measured =
    chosen.length > 0 ? await measureFilled(join(folder, 'requests'), plan, chosen) : undefined;
  if (isSelected('growth')) print('Measuring growth');
  const growth: readonly GrowthRow[] = isSelected('growth')
    ? await measureGrowth(join(folder, 'growth'), print)
    : [];
  if (!start || !measured || growth.length === 0)
    return print(`\n${partialSummary({ start, measured, growth })}`);
  const results = {
    ...measured,
    loadBefore,
    start,
    growth,
    plan,
    rows: ROWS,
    machine: describeMachine(measured.serverVersion),
    date: new Date().toISOString().slice(0, 10),
  };
  if (!dry) await writeReport(new URL('RESULTS.md', import.meta.url), results);
  print(`\n${summary(results)}`);
}

async function measureFilled(
  dataDir: string,
  plan: Plan,
  chosen: readonly Workload[],
): Promise<Measured> {
  const platform = await startPlatform({ dataDir });
  return measureRequests(platform, plan, chosen).finally(() => platform.stop());
}

async function main(): Promise<void> {
  const options = readOptions();
  if (!options) return print(help);
  await requireWrk();
  const folder = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
  try {
    if (options.profile)
      print((await profilePlatform(folder, options.plan, chosenOf(options))).join('\n'));
    else await measureAll(folder, options);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
