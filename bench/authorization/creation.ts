/**
 * What a right costs when a record is created: the same record into a schema with row authorization and into one without,
 * at 10,000 stored relations and at 1,000,000; and how many bytes the right takes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type Bench, compare, type Plan, type Side } from '../compare.ts';
import { fill, ROWS, readSchema, sharedSchema, writeSchema } from '../dataset.ts';
import { type Platform, startPlatform } from '../platform.ts';
import type { Workload } from '../workloads.ts';
import { verdict, writeSection } from './sections.ts';

const CPU_GOAL = 1.3;
const BYTES_GOAL = 150;
const ADDED = 990_000;

const creation: Workload = {
  name: 'create',
  title: 'create',
  goal: 0,
  ours: { method: 'POST', path: `/database/${sharedSchema}`, body: 'draft' },
  bare: { method: 'POST', path: `/database/${writeSchema}`, body: 'draft' },
  writes: true,
};

interface Stage {
  readonly title: string;
  /** CPU of ours to the plain creation: process and PostgreSQL together. */
  readonly cpu: number;
  /** Microseconds of a plain creation. */
  readonly plainCpu: number;
  /** Requests per second of ours to the plain creation. */
  readonly rate: number;
}

async function withDatabase<T>(
  platform: Platform,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client((await platform.database()).connection);
  await client.connect();
  return work(client).finally(() => client.end());
}

/** Bytes that a record takes more where it has an owner: its table with all indexes, and what is stored beside it. */
const bytesOfRight = (platform: Platform): Promise<number> =>
  withDatabase(platform, async (client) => {
    for (const table of [`app."${sharedSchema}"`, `app."${readSchema}"`, 'penstock.tuples'])
      await client.query(`vacuum (full, analyze) ${table}`);
    const { rows } = await client.query<{ bytes: string }>(
      `select pg_total_relation_size('app."${sharedSchema}"') - pg_total_relation_size('app."${readSchema}"')
        + (select coalesce(sum(pg_column_size(t.*)), 0) from penstock.tuples t where t.resource_type = '${sharedSchema}') as bytes`,
    );
    return Number(rows[0]?.bytes ?? 0) / ROWS;
  });

/** Rights of others about other objects. */
const grow = (platform: Platform): Promise<unknown> =>
  withDatabase(platform, async (client) => {
    await client.query(`insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
      select gen_random_uuid(), 'User', gen_random_uuid()::text, 'reader', '${sharedSchema}', gen_random_uuid()::text from generate_series(1, ${ADDED})`);
    await client.query('vacuum (analyze) penstock.tuples');
    return client.query('checkpoint');
  });

async function measureStage(title: string, bench: Bench): Promise<Stage> {
  const [result] = await compare(bench, [creation], () => undefined);
  if (!result) throw new Error('nothing was measured');
  const { bare, ours, ratio } = result.outcome;
  const plainCpu = bare.nodeCpu + bare.postgresCpu;
  return { title, cpu: (ours.nodeCpu + ours.postgresCpu) / plainCpu, plainCpu, rate: ratio };
}

function sectionOf(stages: readonly Stage[], bytes: number, date: string): string {
  const rows = stages.map(
    ({ title, cpu, plainCpu, rate }) =>
      `| ${title} | ${cpu.toFixed(2)}x (plain: ${Math.round(plainCpu)} us) | <= ${CPU_GOAL}x | ${verdict(cpu <= CPU_GOAL)} | ${rate.toFixed(2)} |`,
  );
  return `Measured over HTTP by \`npm run bench:authorization -- --create\` on ${date}, beside the creation of the same record without row authorization in the same process. CPU is that of the process and of PostgreSQL together.

| stored relations | CPU | goal |  | requests per second, of plain |
| --- | --- | --- | --- | --- |
${rows.join('\n')}

A right takes ${Math.round(bytes)} bytes of a record (goal: <= ${BYTES_GOAL}, ${verdict(bytes <= BYTES_GOAL)}): table, indexes and stored relations, over ${ROWS} records.
`;
}

/** Measures, prints the section, and puts it at the end of the report. */
export async function measureCreation(
  plan: Plan,
  { report, dry }: { readonly report: URL; readonly dry: boolean },
  print: (line: string) => void,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'penstock-creation-'));
  const platform = await startPlatform({ dataDir: join(folder, 'data') });
  try {
    const { grants: _, ...material } = await fill(platform);
    const bytes = await bytesOfRight(platform);
    const side = (name: Side['name']): Side => ({
      name,
      pid: platform.pid,
      origin: platform.clientOrigin,
      material,
    });
    const { pid: postgresPid } = await platform.database();
    const bench = { sides: [side('bare'), side('ours')], postgresPid, plan } as const;
    const stages = [await measureStage('10,000', bench)];
    await grow(platform);
    stages.push(await measureStage('1,000,000', bench));
    const section = sectionOf(stages, bytes, new Date().toISOString().slice(0, 10));
    print(section);
    if (dry) return;
    await writeSection(report, '## Creating with rights', section);
  } finally {
    await platform.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
