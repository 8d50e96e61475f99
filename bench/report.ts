/** Writes the figures as `RESULTS.md`. The part between the marks is written by hand and kept. */
import { readFile, writeFile } from 'node:fs/promises';
import type { Comparison, Figures, Plan } from './compare.ts';
import type { Workload } from './load.ts';
import type { StartFigures } from './startup.ts';

const beginMark = '<!-- written by hand: begin -->';
const endMark = '<!-- written by hand: end -->';
const noNotes = '\nNot written yet.\n';

export interface Results {
  readonly machine: string;
  /** Load average before the run: what else the machine was busy with. */
  readonly loadBefore: number;
  readonly date: string;
  readonly plan: Plan;
  readonly rows: number;
  readonly comparison: Comparison;
  readonly start: StartFigures;
  /** Bytes, right after the load. */
  readonly loadedMemory: number;
}

/** The least ratio that we accept. */
const goals: Readonly<Record<Workload, number>> = { get: 0.65, list: 0.55, create: 0.6 };
const titles: Readonly<Record<Workload, string>> = {
  get: 'read by id',
  list: 'list of 20 with exact count',
  create: 'create',
};

const integer = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const milliseconds = (value: number): string => value.toFixed(1);
const seconds = (value: number): string => `${(value / 1000).toFixed(2)} s`;
const megabytes = (value: number): string => `${Math.round(value / 2 ** 20)} MB`;
const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const eachWorkload = <T>(comparison: Comparison, make: (workload: Workload, sides: Comparison[Workload]) => T): T[] =>
  (Object.keys(comparison) as Workload[]).map((workload) => make(workload, comparison[workload]));

function ratios(comparison: Comparison): string {
  return table(
    ['', 'bare, requests/s', 'ours, requests/s', 'ratio', 'goal'],
    eachWorkload(comparison, (workload, { bare, ours, ratio }) => {
      const verdict = ratio >= goals[workload] ? 'met' : 'missed';
      return [
        titles[workload],
        integer.format(bare.rate),
        integer.format(ours.rate),
        `**${ratio.toFixed(2)}**`,
        `>= ${goals[workload].toFixed(2)}, ${verdict}`,
      ];
    }),
  );
}

function details(comparison: Comparison): string {
  const line = (title: string, { p50, p95, p99, nodeCpu, postgresCpu }: Figures): string[] => [
    title,
    milliseconds(p50),
    milliseconds(p95),
    milliseconds(p99),
    integer.format(nodeCpu),
    integer.format(postgresCpu),
  ];
  return table(
    ['', 'p50 ms', 'p95 ms', 'p99 ms', 'CPU in Node, us', 'CPU in PostgreSQL, us'],
    eachWorkload(comparison, (workload, { bare, ours }) => [
      line(`${titles[workload]}, bare`, bare),
      line(`${titles[workload]}, ours`, ours),
    ]).flat(),
  );
}

function startUp({ start, loadedMemory }: Results): string {
  const { program, command, idleMemory } = start;
  return table(
    ['', 'measured', 'goal'],
    [
      ['ready, existing data folder, the program itself', seconds(program.existing), '<= 1.5 s'],
      ['ready, existing data folder, through `npm start`’s runner', seconds(command.existing), '<= 1.5 s'],
      ['ready, empty data folder, the program itself', seconds(program.empty), '<= 5 s'],
      ['ready, empty data folder, through `npm start`’s runner', seconds(command.empty), '<= 5 s'],
      ['resident memory of our own process, idle', megabytes(idleMemory), '<= 180 MB'],
      ['resident memory of our own process, right after the load', megabytes(loadedMemory), ''],
    ],
  );
}

/** Above this load average before the run the machine had other work to do. */
const BUSY = 0.5;

const caution = ({ loadBefore }: Results): string =>
  loadBefore <= BUSY
    ? ''
    : `\n**The machine was busy with other work** (load average ${loadBefore.toFixed(1)} before the run): rates, latencies and start-up times are
worse than they would be, and the ratios are uncertain. The CPU figures suffer least.\n`;

const document = (results: Results, notes: string): string => `# Measured

Written by \`npm run bench\` on ${results.date}. The load generator, both servers and PostgreSQL share the machine:
${results.machine}.
${caution(results)}
## Requests

The bare program (\`bare.ts\`) is the fastest plain one we know how to write: Fastify without logger or validation, pipelined
connections, prepared statements, JSON rendered by PostgreSQL. Ours does the same through the whole stack: access token and
session check, rate limit, validation, the schema's rules, and on writes the outbox event in the same transaction. Both work on
tables with the same definition and the same ${integer.format(results.rows)} rows on the same server, and are checked to give the same answers.
${results.plan.connections} connections, ${results.plan.rounds} rounds of ${results.plan.seconds} s each in turns, medians; the ratio is the median of the
rounds' ratios. All latencies are under full load.

${ratios(results.comparison)}

${details(results.comparison)}

## Start and memory

Medians from the start of the process to the first 200 on \`/ready\`.

${startUp(results)}

## Where the rest goes

${beginMark}${notes}${endMark}
`;

/** What is between the marks of the file as it stands. */
async function keptNotes(file: URL): Promise<string> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const begin = text.indexOf(beginMark);
  const end = text.indexOf(endMark);
  return begin === -1 || end === -1 ? noNotes : text.slice(begin + beginMark.length, end);
}

export async function writeReport(file: URL, results: Results): Promise<void> {
  await writeFile(file, document(results, await keptNotes(file)));
}

/** The tables, for the terminal. */
export const summary = (results: Results): string =>
  [ratios(results.comparison), details(results.comparison), startUp(results)].join('\n\n');
