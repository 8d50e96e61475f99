/**
 * Measures files up and down beside a bare Node program (bare.ts) on the same disk, in turns, in one run; and what
 * memory the platform needs while many large uploads run at once. `npm run bench:storage -- --help` lists the options.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine, residentMemory } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median } from '../statistics.ts';
import { printCosts, printProfile } from './costs.ts';
import { agent, bareTarget, openStorage, platformTarget, type Target } from './targets.ts';
import { type Kind, kinds, MEGABYTE, sizes, transfers, type Work } from './work.ts';

const help = `Measures files beside a bare program and writes bench/storage/RESULTS.md.

  npm run bench:storage -- [options]

  --dry              print the figures, leave RESULTS.md as it is
  --only <parts>     sizes ("4 KiB", "1 MiB", "100 MiB"), kinds (upload, download, range), growth, with commas; leaves RESULTS.md as it is
  --rounds <n>       measurements of each kind, in turns (3)
  --parallel <n>     large uploads at once (50), of so many --megabytes <n> (200)
  --costs            instead: CPU time, transactions and syncs of one transfer, which a busy machine does not change
  --profile          instead: where the time of our own process goes, by area and function`;

const { values } = parseArgs({
  options: {
    dry: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    parallel: { type: 'string', default: '50' },
    megabytes: { type: 'string', default: '200' },
    costs: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const only = values.only?.split(',').map((part) => part.trim());
/** Those of a list that were asked for; all where none of them was. */
function selected<T>(all: readonly T[], nameOf: (one: T) => string): readonly T[] {
  const some = all.filter((one) => only?.includes(nameOf(one)));
  return some.length > 0 ? some : all;
}
const plan = { sizes: selected(sizes, ({ name }) => name), kinds: selected(kinds, (kind) => kind) };
const withGrowth = only === undefined || only.includes('growth');
const withSizes = only === undefined || only.some((part) => part !== 'growth');

/** How often a second, of each kind. */
async function measure(
  target: Target,
  work: Work,
  asked: readonly Kind[],
): Promise<ReadonlyMap<Kind, number>> {
  const content = Buffer.alloc(work.bytes, 'penstock');
  const addresses: string[] = [];
  const rates = new Map<Kind, number>();
  // Reading needs what was sent.
  for (const kind of kinds.filter((one) => one === 'upload' || asked.includes(one))) {
    const began = performance.now();
    const times = await transfers(target, { ...work, kind, content, addresses });
    rates.set(kind, (times * 1_000) / (performance.now() - began));
  }
  return rates;
}

/** `alone`: bare uploads of nothing but the file. */
interface Sides {
  readonly bare: Target;
  readonly alone: Target;
  readonly ours: Target;
}
type Rates = Readonly<Record<keyof Sides, ReadonlyMap<Kind, number>>>;

async function measureRound({ bare, alone, ours }: Sides, work: Work): Promise<Rates> {
  const withUploads = plan.kinds.includes('upload');
  return {
    bare: await measure(bare, work, plan.kinds),
    alone: withUploads ? await measure(alone, work, []) : new Map(),
    ours: await measure(ours, work, plan.kinds),
  };
}

async function compared(sides: Sides, work: Work): Promise<readonly string[]> {
  // Once for the compiler: servers run for longer than a measurement.
  await measureRound(sides, work);
  const found: Rates[] = [];
  for (let round = 0; round < Number(values.rounds); round += 1)
    found.push(await measureRound(sides, work));
  return plan.kinds.map((kind) => {
    const rate = (side: keyof Sides) => median(found.map((one) => one[side].get(kind) ?? 0));
    const [alone, served] = [rate('bare'), rate('ours')];
    const body = kind === 'upload' ? rate('alone').toFixed(1) : '';
    const goal = kind === 'range' ? 0.8 : work.goal;
    const row = `| ${kind} of ${work.name} | ${body} | ${alone.toFixed(1)} | ${served.toFixed(1)} | ${(served / alone).toFixed(2)} | ${goal} |`;
    console.log(row);
    return row;
  });
}

/** Bytes by which the platform grows at most while many large uploads run at once. */
async function growth(platform: Platform, target: Target): Promise<number> {
  const content = Buffer.alloc(Number(values.megabytes) * MEGABYTE, 'penstock');
  const before = residentMemory(platform.pid);
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, residentMemory(platform.pid));
  }, 100);
  await Promise.all(Array.from({ length: Number(values.parallel) }, () => target.upload(content)));
  clearInterval(timer);
  return peak - before;
}

async function measureAll(platform: Platform, port: number): Promise<void> {
  const ours = platformTarget(platform, await openStorage(platform));
  const sides = { bare: bareTarget(port), alone: bareTarget(port, 'body'), ours };
  const rows: string[] = [];
  for (const work of withSizes ? plan.sizes : []) rows.push(...(await compared(sides, work)));
  const large = `${values.parallel} uploads of ${values.megabytes} MiB at once`;
  const grown = withGrowth ? Math.round((await growth(platform, ours)) / MEGABYTE) : undefined;
  if (grown !== undefined) console.log(`${large}: ${grown} MiB more`);
  if (values.dry || only) return;
  const text = [
    '# Files up and down',
    '',
    describeMachine('the embedded one'),
    '',
    `Requests a second, median of ${values.rounds} rounds in turns after one that is not counted, beside a bare Node program that streams to files of the same disk, syncs and renames them (bare.ts). Both take the same forms; the first column is the bare program where the request is nothing but the file. A range is 64 KiB (or half of the file).`,
    '',
    '| | Bare, no form | Bare | Penstock | Ratio | Goal |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
    `${large}: the process of the platform grows by ${grown} MiB (goal: at most 150).`,
    '',
  ].join('\n');
  await writeFile(fileURLToPath(new URL('RESULTS.md', import.meta.url)), text);
}

/** Both servers on one disk. */
async function beside(
  folder: string,
  work: (platform: Platform, bare: { port: number; child: ChildProcess }) => Promise<void>,
): Promise<void> {
  const child = fork(fileURLToPath(new URL('bare.ts', import.meta.url)), [join(folder, 'bare')]);
  const [port] = (await once(child, 'message')) as [number];
  const platform = await startPlatform({ dataDir: join(folder, 'data') });
  try {
    await work(platform, { port, child });
  } finally {
    await platform.stop();
    child.kill();
  }
}

async function main(): Promise<void> {
  if (values.help) return console.log(help);
  const folder = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
  try {
    if (values.profile) await printProfile(folder, plan);
    else
      await beside(folder, (platform, { port, child }) =>
        values.costs
          ? printCosts(platform, { port, pid: child.pid ?? 0 }, plan)
          : measureAll(platform, port),
      );
  } finally {
    agent.destroy();
    await rm(folder, { recursive: true, force: true });
  }
}

await main();
