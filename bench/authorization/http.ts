/**
 * Checks over HTTP beside the bare program: in one life of the process at 10,000 tuples and at 1,000,000, then in a new
 * process. Objects that nothing but their owner stands on, and objects that hang on a tree of teams.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { BareConfig, BareReady } from '../bare.ts';
import { createBareTables } from '../bare-tables.ts';
import { startHelper } from '../child.ts';
import { compare, type Outcome, type Plan, type Side } from '../compare.ts';
import {
  authorSchema,
  type BenchData,
  fill,
  readSchema,
  sharedSchema,
  writeSchema,
} from '../dataset.ts';
import { type Platform, startPlatform } from '../platform.ts';
import type { Workload } from '../workloads.ts';
import { verdict, writeSection } from './sections.ts';

/** Tuples that are added, and levels of teams above the objects of a tree. */
const ADDED = 990_000;
const LEVELS = 5;
const TREES = 200;
const RATE_GOAL = 0.35;
const P99_GOAL = 1.5;

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

/** A row of the table: what was checked where, and what it came to. */
function rowOf(title: string, name: string, { bare, ours, ratio }: Outcome): string {
  const p99 = ours.p99 / bare.p99;
  const cpu = (side: typeof ours): string =>
    `${Math.round(side.nodeCpu)} + ${Math.round(side.postgresCpu)}`;
  return `| ${title}, ${name} | ${Math.round(ours.rate)} | ${ratio.toFixed(2)} | ${verdict(ratio >= RATE_GOAL)} | ${p99.toFixed(1)}x | ${verdict(p99 <= P99_GOAL)} | ${cpu(ours)} | ${cpu(bare)} |`;
}

const head = `Measured by \`npm run bench:authorization -- --http\`, \`GET /authorization/check\` beside an exists-query of the bare program, 32 connections. \`object\`: only its owner stands on it. \`tree\`: it hangs below ${LEVELS} levels of teams. Goals: at least 0.35 of bare, p99 at most 1.5 times bare, a tree at most twice an object. CPU of a check in microseconds: Node + PostgreSQL.

| | checks a second | of bare | | p99, of bare | | CPU | CPU of bare |
| --- | --- | --- | --- | --- | --- | --- | --- |`;

/** Both kinds of objects against the bare program, which is started anew: it must not be the older one. */
async function measure(
  title: string,
  { platform, tables, data, plan, print }: Run,
): Promise<readonly string[]> {
  const rows: string[] = [];
  const database = await platform.database();
  const bare = startHelper<BareConfig, BareReady>('bare.ts');
  try {
    const { port } = await bare.ask({
      connection: database.connection,
      ...tables,
      readConnections: 4,
      writeConnections: 8,
    });
    const { grants: _, ...material } = data;
    const trees = Array.from(
      { length: TREES },
      (_, i) => prefix(2) + (i + 1).toString(16).padStart(12, '0'),
    );
    for (const [name, sharedIds] of [
      ['object', data.sharedIds],
      ['tree', trees],
    ] as const) {
      const side = (own: Pick<Side, 'name' | 'pid' | 'origin'>): Side => ({
        ...own,
        material: { ...material, sharedIds, ...(own.name === 'bare' && { tokens: [] }) },
      });
      const sides = [
        side({ name: 'bare', pid: bare.pid, origin: `http://127.0.0.1:${port}` }),
        side({ name: 'ours', pid: platform.pid, origin: platform.clientOrigin }),
      ] as const;
      const bench = { sides, postgresPid: database.pid, plan };
      const [result] = await compare(bench, [check(name, title)], () => undefined);
      if (!result) continue;
      rows.push(rowOf(title, name, result.outcome));
      print(rows.at(-1) ?? '');
    }
    return rows;
  } finally {
    bare.close();
  }
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
    const stage = (title: string): Promise<readonly string[]> =>
      measure(title, { platform, tables, data, plan, print });
    const rows = [...(await stage('10,000 tuples'))];
    await run(platform, growTexts);
    rows.push(...(await stage('1,000,000 tuples, the same process')));
    await platform.stop();
    platform = await startPlatform({ dataDir });
    rows.push(...(await stage('1,000,000 tuples, a new process')));
    if (!dry) await writeSection(report, '## Checks over HTTP', [head, ...rows].join('\n'));
  } finally {
    await platform.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
