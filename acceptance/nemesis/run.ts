/** The long form of the nemesis suite. `npm run nemesis -- --help` lists the options. */
import { parseArgs } from 'node:util';
import { createCluster, createSingle, missingForCluster } from './cluster.ts';
import { isClean, report, runNemesis } from './nemesis.ts';

const help = `Writes to platforms while their processes are killed, paused and locked out, and compares what was acknowledged with what is there.

  npm run nemesis -- [options]

  --cluster <name>   single, cluster (needs PostgreSQL 15 and Redis), or both (both)
  --kills <n>      processes to end in each (30)
  --writes <n>     writes to be acknowledged in each (100000)
  --seconds <n>    after which it ends in any case (3600)
  --writers <n>    at a time (16)
  --rest <ms>      between two faults (5000)`;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      cluster: { type: 'string', default: 'both' },
      kills: { type: 'string', default: '30' },
      writes: { type: 'string', default: '100000' },
      seconds: { type: 'string', default: '3600' },
      writers: { type: 'string', default: '16' },
      rest: { type: 'string', default: '5000' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return print(help);
  const [kills, writes, seconds, writers, restMs] = [
    values.kills,
    values.writes,
    values.seconds,
    values.writers,
    values.rest,
  ].map(Number);
  const numbers = { kills, writes, seconds, writers, restMs } as Record<
    'kills' | 'writes' | 'seconds' | 'writers' | 'restMs',
    number
  >;
  if (Object.values(numbers).some((value) => !Number.isSafeInteger(value) || value < 0))
    throw new Error('The options take whole numbers');
  const missing = values.cluster === 'single' ? undefined : await missingForCluster();
  if (missing !== undefined) throw new Error(`${missing}: --cluster single does without`);
  const makers = [
    ...(values.cluster === 'cluster' ? [] : [createSingle]),
    ...(values.cluster === 'single' ? [] : [createCluster]),
  ];
  for (const make of makers) {
    const cluster = await make();
    try {
      const outcome = await runNemesis(cluster, { ...numbers, say: print });
      print(report(outcome));
      if (!isClean(outcome)) process.exitCode = 1;
    } finally {
      await cluster.close();
    }
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
});
