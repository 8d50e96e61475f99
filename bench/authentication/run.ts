/**
 * Measures whether time tells who has an account (the same request for known and for unknown addresses, in
 * turns), and what a flood of logins does to everybody else. `npm run bench:authentication -- --help` lists the options.
 */
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { floodReport, measureFlood } from './flood.ts';
import { measureRoutes } from './measure.ts';
import { reportOf, writeReport } from './report.ts';

const help = `Measures whether time tells who has an account and what a flood of logins does to others, and writes bench/authentication/RESULTS.md (about a minute).

  npm run bench:authentication -- [options]

  --requests <n>  requests per route, for known and for unknown addresses each (200)
  --dry           print the figures, leave RESULTS.md as it is`;

const print = (line: string): void => console.log(line);

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      requests: { type: 'string', default: '200' },
      dry: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return print(help);
  const requests = Number(values.requests);
  if (!Number.isSafeInteger(requests) || requests < 10)
    throw new Error('--requests takes a whole number of 10 and more');
  const { routes, serverVersion } = await measureRoutes(requests, print);
  const flood = await measureFlood(print);
  const report =
    reportOf(routes, { requests, machine: describeMachine(serverVersion) }) + floodReport(flood);
  if (values.dry) return print(report);
  await writeReport(new URL('.', import.meta.url), report);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
