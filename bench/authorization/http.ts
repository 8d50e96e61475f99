/**
 * Checks and lists of own records over HTTP beside the bare program: in one life of the process at 10,000 tuples and at
 * 1,000,000, then in a new process. Checks of objects that nothing but their owner stands on, and of objects that hang on
 * a tree of teams.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { BareConfig, BareReady } from '../bare.ts';
import { createBareTables } from '../bare-tables.ts';
import { startHelper } from '../child.ts';
import {
  type Bench,
  compare,
  type Figures,
  type Outcome,
  type Plan,
  type Side,
} from '../compare.ts';
import {
  authorSchema,
  type BenchData,
  fill,
  readSchema,
  sharedSchema,
  writeSchema,
} from '../dataset.ts';
import { describeMachine } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import type { Workload } from '../workloads.ts';
import { verdict, writeSection } from './sections.ts';

/** Tuples that are added, and levels of teams above the objects of a tree. */
const ADDED = 990_000;
const LEVELS = 5;
const TREES = 200;
const RATE_GOAL = 0.35;
const P99_GOAL = 1.5;
const OWN_GOAL = 0.9;
/** Checks per second that both sides answer without a queue: the goal of the rate. */
const STEADY = 6_000;
/** Rounds of these checks, of a second, for each round of the others. */
const STEADY_ROUNDS = 4;

const check = (name: string, title: string): Workload => ({
  name,
  title,
  goal: RATE_GOAL,
  p99Goal: P99_GOAL,
  ours: {
    method: 'GET',
    path: `/authorization/check?action=read&resource=${sharedSchema}:{shared}`,
  },
  bare: { method: 'GET', path: '/check?record={shared}&user={user}' },
});

const ownPath = `/database/${sharedSchema}`;
const range = 'skip=0&limit=20';
const ownRecords: readonly Workload[] = [
  {
    name: 'own',
    title: 'own records, 20 with exact count',
    goal: OWN_GOAL,
    ours: { method: 'GET', path: `${ownPath}?${range}` },
    bare: { method: 'GET', path: `/shared?${range}&user={user}` },
  },
  {
    name: 'own-filtered',
    title: 'own records that fit a filter, 20 with exact count',
    goal: OWN_GOAL,
    ours: {
      method: 'POST',
      path: `${ownPath}/query?${range}`,
      body: { query: { published: true } },
    },
    bare: { method: 'GET', path: `/shared-published?${range}&user={user}` },
  },
];

const prefix = (n: number): string => `0198f000-0000-7${n}00-8000-`;
const id = (n: number, number: string): string =>
  `('${prefix(n)}' || lpad(to_hex((${number})::bigint), 12, '0'))`;

const insert = (values: string, from: string): string =>
  `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
   select gen_random_uuid(), ${values} from ${from}`;

/** Trees of teams in a row, each over one object; the first user owns the top of all. */
const treeTexts = (user: string): readonly string[] => [
  insert(
    `'Team', ${id(1, 'tree * 16 + level')}, 'owner', 'Team', ${id(1, 'tree * 16 + level + 1')}`,
    `generate_series(1, ${TREES}) tree, generate_series(1, ${LEVELS - 1}) level`,
  ),
  insert(
    `'Team', ${id(1, `tree * 16 + ${LEVELS}`)}, 'owner', '${sharedSchema}', ${id(2, 'tree')}`,
    `generate_series(1, ${TREES}) tree`,
  ),
  insert(
    `'User', '${user}', 'owner', 'Team', ${id(1, 'tree * 16 + 1')}`,
    `generate_series(1, ${TREES}) tree`,
  ),
];

/** Rights of others about other objects. */
const growTexts: readonly string[] = [
  insert(
    `'User', ${id(3, 'n % 100000')}, 'reader', '${sharedSchema}', ${id(4, 'n / 3')}`,
    `generate_series(1, ${ADDED}) n`,
  ),
  `insert into bare.grants select ${id(3, 'n % 100000')}::uuid, ${id(4, 'n / 3')}::uuid from generate_series(1, ${ADDED}) n`,
  // What the server would do in the background meanwhile counts for neither side.
  'vacuum (analyze) penstock.tuples',
  'vacuum (analyze) bare.grants',
  'checkpoint',
];

async function run(platform: Platform, texts: readonly string[]): Promise<void> {
  const client = new pg.Client((await platform.database()).connection);
  await client.connect();
  for (const text of texts) await client.query(text);
  await client.end();
}

type Tables = Omit<Awaited<ReturnType<typeof createBareTables>>, 'serverVersion'>;

interface Run {
  readonly platform: Platform;
  readonly tables: Tables;
  readonly data: BenchData;
  readonly plan: Plan;
  readonly print: (line: string) => void;
}

const cpuOf = ({ nodeCpu, postgresCpu }: Figures): string =>
  `${Math.round(nodeCpu)} + ${Math.round(postgresCpu)}`;

/** A row of the table: what was checked where, and what it came to. `steady`: at the same rate for both. */
function checkRow(title: string, { bare, ours, ratio }: Outcome, steady: Outcome): string {
  const p99 = ours.p99 / bare.p99;
  const steadyP99 = steady.ours.p99 / steady.bare.p99;
  return `| ${title} | ${Math.round(ours.rate)} | ${ratio.toFixed(2)} | ${verdict(ratio >= RATE_GOAL)} | ${steady.ours.p99.toFixed(2)} ms, ${steadyP99.toFixed(1)}x | ${verdict(steadyP99 <= P99_GOAL)} | ${p99.toFixed(1)}x | ${cpuOf(ours)} | ${cpuOf(bare)} |`;
}

const ownRow = (title: string, { bare, ours, ratio }: Outcome): string =>
  `| ${title} | ${Math.round(ours.rate)} | ${ratio.toFixed(2)} | ${verdict(ratio >= OWN_GOAL)} | ${cpuOf(ours)} | ${cpuOf(bare)} |`;

const checkHead = `Measured by \`npm run bench:authorization -- --http\` on ${new Date().toISOString().slice(0, 10)}: ${describeMachine('the embedded one')}. \`GET /authorization/check\` beside an exists-query of the bare program, 32 connections. \`object\`: only its owner stands on it. \`tree\`: it hangs below ${LEVELS} levels of teams. Goals: at least 0.35 of bare, p99 at most 1.5 times bare, a tree at most twice an object. The p99 of the goal is taken where both answer about ${STEADY} checks a second. At full load, where each answers as many as it can, every request waits for the 31 others: there the p99 follows the rate. CPU of a check in microseconds: Node + PostgreSQL.

| | checks a second | of bare | | p99 at ${STEADY} a second, of bare | | p99 at full load, of bare | CPU | CPU of bare |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |`;

const ownHead = `Measured by the same run: 157 records of 10,000 belong to whoever asks; a page of 20 with the exact number of all. The bare program finds them by its table of rights. Goal: at least ${OWN_GOAL} of bare. CPU of a list in microseconds: Node + PostgreSQL.

| | lists a second | of bare | | CPU | CPU of bare |
| --- | --- | --- | --- | --- | --- |`;

interface Rows {
  readonly checks: readonly string[];
  readonly own: readonly string[];
}

/** Everything against the bare program, which is started anew: it must not be the older one. */
async function measure(title: string, run: Run): Promise<Rows> {
  const { platform, tables, print } = run;
  const database = await platform.database();
  const bare = startHelper<BareConfig, BareReady>('bare.ts');
  try {
    const { port } = await bare.ask({
      connection: database.connection,
      ...tables,
      readConnections: 4,
      writeConnections: 8,
    });
    const place = { pid: bare.pid, origin: `http://127.0.0.1:${port}`, postgresPid: database.pid };
    const rows = {
      checks: await checkRows(title, run, place),
      own: await ownRows(title, run, place),
    };
    for (const row of [...rows.checks, ...rows.own]) print(row);
    return rows;
  } finally {
    bare.close();
  }
}

interface Place {
  readonly pid: number;
  readonly origin: string;
  readonly postgresPid: number;
}

/** Of a second few requests decide about the p99: so it is taken of many short rounds. */
const steadyPlan = ({ rounds, connections }: Plan): Plan => ({
  rounds: rounds * STEADY_ROUNDS,
  seconds: 1,
  connections,
  perSecond: STEADY,
});

/** Both sides, about these objects. */
const benchOf = (
  { platform, data, plan }: Run,
  { pid, origin, postgresPid }: Place,
  sharedIds: readonly string[],
): Bench => {
  const { grants: _, ...material } = data;
  const bare: Side = {
    name: 'bare',
    pid,
    origin,
    material: { ...material, sharedIds, tokens: [] },
  };
  const ours: Side = {
    name: 'ours',
    pid: platform.pid,
    origin: platform.clientOrigin,
    material: { ...material, sharedIds },
  };
  return { sides: [bare, ours], postgresPid, plan };
};

async function checkRows(title: string, run: Run, place: Place): Promise<readonly string[]> {
  const rows: string[] = [];
  const trees = Array.from(
    { length: TREES },
    (_, i) => prefix(2) + (i + 1).toString(16).padStart(12, '0'),
  );
  for (const [name, sharedIds] of [
    ['object', run.data.sharedIds],
    ['tree', trees],
  ] as const) {
    const bench = benchOf(run, place, sharedIds);
    const work = [check(name, title)];
    const [full] = await compare(bench, work, () => undefined);
    const steadily = { ...bench, plan: steadyPlan(run.plan) };
    const [steady] = await compare(steadily, work, () => undefined);
    if (full && steady) rows.push(checkRow(`${title}, ${name}`, full.outcome, steady.outcome));
  }
  return rows;
}

async function ownRows(title: string, run: Run, place: Place): Promise<readonly string[]> {
  const bench = benchOf(run, place, run.data.sharedIds);
  const compared = await compare(bench, ownRecords, () => undefined);
  return compared.map(({ workload, outcome }) => ownRow(`${title}, ${workload.title}`, outcome));
}

/** Measures, prints a line for each stage and kind of object, and writes the section of the report. */
export async function measureOverHttp(
  plan: Plan,
  { report, dry }: { readonly report: URL; readonly dry: boolean },
  print: (line: string) => void,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-checks-'));
  const dataDir = join(folder, 'data');
  let platform = await startPlatform({ dataDir });
  try {
    const data = await fill(platform);
    const names = {
      read: readSchema,
      write: writeSchema,
      author: authorSchema,
      shared: sharedSchema,
    };
    const { connection } = await platform.database();
    const { serverVersion: _, ...tables } = await createBareTables(connection, names, data.grants);
    await run(platform, treeTexts(data.userIds[0] ?? ''));
    const stage = (title: string): Promise<Rows> =>
      measure(title, { platform, tables, data, plan, print });
    const stages = [await stage('10,000 tuples')];
    await run(platform, growTexts);
    stages.push(await stage('1,000,000 tuples, the same process'));
    await platform.stop();
    platform = await startPlatform({ dataDir });
    stages.push(await stage('1,000,000 tuples, a new process'));
    if (dry) return;
    const checks = [checkHead, ...stages.flatMap((rows) => rows.checks)];
    await writeSection(report, '## Checks over HTTP', checks.join('\n'));
    const own = [ownHead, ...stages.flatMap((rows) => rows.own)];
    await writeSection(report, '## Own records over HTTP', own.join('\n'));
  } finally {
    await platform.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
