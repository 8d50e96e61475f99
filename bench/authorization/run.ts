/** Measures the permission engine at growing sizes and writes `RESULTS.md`. `npm run bench:authorization -- --help` lists the options. */
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { measureCreation } from './creation.ts';
import { measureOverHttp } from './http.ts';
import { type Measured, measureAt } from './measure.ts';
import { measureOverPages } from './pages.ts';
import { writeReport } from './report.ts';

const help = `Measures permissions and writes bench/authorization/RESULTS.md (about two minutes, 1.5 GB of disk for that time).

  npm run bench:authorization -- [options]

  --tuples <list>  sizes, smallest first (10000,100000,1000000)
  --http           instead: checks and own records over HTTP beside the bare program, at 10,000 and 1,000,000 tuples (five minutes; needs wrk)
  --pages          instead: pages by any order, with exclusion, in deep and in wide trees, beside those without permissions (four minutes; needs wrk)
  --create         instead: what a right costs when a record is created (two minutes; needs wrk)
  --rounds <n>     of each measurement over HTTP (3); fewer are sooner done, and less sure
  --dry            print the figures, leave RESULTS.md as it is`;

const print = (line: string): void => console.log(line);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      tuples: { type: 'string', default: '10000,100000,1000000' },
      http: { type: 'boolean', default: false },
      pages: { type: 'boolean', default: false },
      create: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '3' },
      dry: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return print(help);
  const report = new URL('RESULTS.md', import.meta.url);
  const rounds = Number(values.rounds);
  if (!Number.isSafeInteger(rounds) || rounds < 1) throw new Error('--rounds takes a whole number');
  if (values.http) {
    const plan = { rounds, seconds: 2, connections: 32 };
    return measureOverHttp(plan, { report, dry: values.dry }, print);
  }
  if (values.pages) {
    const plan = { rounds, seconds: 1, connections: 8 };
    return measureOverPages(plan, { report, dry: values.dry }, print);
  }
  if (values.create) {
    const plan = { rounds, seconds: 3, connections: 16 };
    return measureCreation(plan, { report, dry: values.dry }, print);
  }
  const sizes = values.tuples.split(',').map(Number);
  if (sizes.some((size) => !Number.isSafeInteger(size) || size < 2_000))
    throw new Error('--tuples takes whole numbers of 2000 and more');
  const all: Measured[] = [];
  for (const size of sizes) all.push(await measureAt(size, print));
  if (values.dry) return print(JSON.stringify(all, undefined, 2));
  await writeReport(
    new URL('.', import.meta.url),
    all,
    describeMachine(all.at(-1)?.serverVersion ?? ''),
  );
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
