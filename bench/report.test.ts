import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Results, summary, writeReport } from './report.ts';
import { type Workload, workloads } from './workloads.ts';

const figures = (rate: number) => ({ rate, p50: 1, p95: 2, p99: 3, nodeCpu: 40, postgresCpu: 20 });

const compared = workloads.filter(({ name }) => name === 'get' || name === 'list');

const results: Results = {
  machine: '2 × some processor',
  loadBefore: 0.1,
  date: '2026-01-01',
  plan: { rounds: 1, seconds: 1, connections: 1 },
  rows: 10_000,
  comparison: [0.8, 0.3].map((ratio, i) => ({
    workload: compared[i] as Workload,
    outcome: { bare: figures(1000), ours: figures(1000 * ratio), ratio },
  })),
  growth: [
    { title: 'a page', limit: 1.5, small: 1, large: 1.2 },
    { title: 'a create', limit: 1.5, small: 1, large: 2 },
    { title: 'a count', small: 1, large: 100 },
  ],
  start: {
    program: { empty: 900, existing: 300 },
    command: { empty: 1000, existing: 400 },
    idleMemory: 100 * 2 ** 20,
  },
  loadedMemory: 150 * 2 ** 20,
};

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'penstock-report-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

it('says which goals are met', () => {
  expect(summary(results)).toContain(
    '| read by id | 1,000 | 800 | **0.80** | >= 0.80, met | 1.00 |  |',
  );
  expect(summary(results)).toContain(
    '| list of 20 with exact count | 1,000 | 300 | **0.30** | >= 0.60, missed | 1.00 | <= 1.3, met |',
  );
  expect(summary(results)).toContain('| a page | 1.00 | 1.20 | **1.20** | <= 1.5, met |');
  expect(summary(results)).toContain('| a create | 1.00 | 2.00 | **2.00** | <= 1.5, missed |');
  expect(summary(results)).toContain('| a count | 1.00 | 100.00 | **100.00** |  |');
});

it('warns when the machine was busy with other work', async () => {
  const path = join(folder, 'RESULTS.md');
  await writeReport(pathToFileURL(path), results);
  expect(await readFile(path, 'utf8')).not.toContain('busy');
  await writeReport(pathToFileURL(path), { ...results, loadBefore: 4 });
  expect(await readFile(path, 'utf8')).toContain(
    'busy with other work** (load average 4.0 before the run)',
  );
});

it('keeps what was written by hand', async () => {
  const path = join(folder, 'RESULTS.md');
  const file = pathToFileURL(path);
  await writeReport(file, results);
  const written = await readFile(path, 'utf8');
  await writeFile(path, written.replace('Not written yet.', 'Most of it goes into $1 parsing.'));
  await writeReport(file, { ...results, date: '2026-02-02' });
  const rewritten = await readFile(path, 'utf8');
  expect(rewritten).toContain('Most of it goes into $1 parsing.');
  expect(rewritten).toContain('2026-02-02');
});
