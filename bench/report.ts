/** Writes the figures as `RESULTS.md`. The part between the marks is written by hand and kept. */
import { readFile, writeFile } from 'node:fs/promises';
import {
  type Comparison,
  type Figures,
  type Outcome,
  type Plan,
  WARM_UP_SECONDS,
} from './compare.ts';
import { type GrowthRow, LARGE, SMALL } from './growth.ts';
import type { StartFigures } from './startup.ts';
import type { Workload } from './workloads.ts';

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
  readonly growth: readonly GrowthRow[];
  /** Bytes, right after the load. */
  readonly loadedMemory: number;
}

const integer = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const milliseconds = (value: number): string => value.toFixed(1);
const seconds = (value: number): string => `${(value / 1000).toFixed(2)} s`;
const megabytes = (value: number): string => `${Math.round(value / 2 ** 20)} MB`;
const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const eachWorkload = <T>(
  comparison: Comparison,
  make: (workload: Workload, outcome: Outcome) => T,
): T[] => comparison.map(({ workload, outcome }) => make(workload, outcome));

function ratios(comparison: Comparison): string {
  return table(
    ['', 'bare, requests/s', 'ours, requests/s', 'ratio', 'goal', 'p99, times bare', 'goal'],
    eachWorkload(comparison, ({ title, goal, p99Goal }, { bare, ours, ratio }) => [
      title,
      integer.format(bare.rate),
      integer.format(ours.rate),
      `**${ratio.toFixed(2)}**`,
      `>= ${goal.toFixed(2)}, ${ratio >= goal ? 'met' : 'missed'}`,
      (ours.p99 / bare.p99).toFixed(2),
      p99Goal === undefined
        ? ''
        : `<= ${p99Goal}, ${ours.p99 <= p99Goal * bare.p99 ? 'met' : 'missed'}`,
    ]),
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
    eachWorkload(comparison, ({ title }, { bare, ours }) => [
      line(`${title}, bare`, bare),
      line(`${title}, ours`, ours),
    ]).flat(),
  );
}

function startUp(start: StartFigures, loadedMemory?: number): string {
  const { program, command, idleMemory } = start;
  return table(
    ['', 'measured', 'goal'],
    [
      ['ready, existing data folder, the program itself', seconds(program.existing), '<= 1.5 s'],
      [
        'ready, existing data folder, through `npm start`’s runner',
        seconds(command.existing),
        '<= 1.5 s',
      ],
      ['ready, empty data folder, the program itself', seconds(program.empty), '<= 5 s'],
      ['ready, empty data folder, through `npm start`’s runner', seconds(command.empty), '<= 5 s'],
      ['resident memory of our own process, idle', megabytes(idleMemory), '<= 180 MB'],
      ...(loadedMemory === undefined
        ? []
        : [
            [
              'resident memory of our own process, right after the load',
              megabytes(loadedMemory),
              '<= 250 MB',
            ],
          ]),
    ],
  );
}

function growthTable(growth: readonly GrowthRow[]): string {
  return table(
    ['', `${integer.format(SMALL)} rows, ms`, `${integer.format(LARGE)} rows, ms`, 'times', 'goal'],
    growth.map(({ title, small, large, limit }) => [
      title,
      small.toFixed(2),
      large.toFixed(2),
      `**${(large / small).toFixed(2)}**`,
      limit === undefined ? '' : `<= ${limit}, ${large <= limit * small ? 'met' : 'missed'}`,
    ]),
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

Written by \`npm run bench\` on ${results.date}. The load generator (wrk), both servers and PostgreSQL share the machine:
${results.machine}.
${caution(results)}
## Requests

The bare program (\`bare.ts\`) is the fastest plain one we know how to write: Fastify without logger or validation, pipelined
connections, prepared statements, JSON rendered by PostgreSQL. Ours does the same through the whole stack: access token and
session check, rate limit, validation, the schema's rules, and on writes the outbox event in the same transaction. Both work on
tables with the same definition and the same ${integer.format(results.rows)} rows on the same server, and are checked to give the same answers.
Of GraphQL both are sent the same POST: the bare program is a resolver that knows its documents by their text. The fixed answer is
asked for without a credential; only ours is sent an access token with all else.
${results.plan.connections} connections, ${results.plan.rounds} rounds of ${results.plan.seconds} s each in turns after ${WARM_UP_SECONDS} s that warm up, medians; the ratio is
the median of the rounds' ratios. All latencies are under full load.

${ratios(results.comparison)}

${details(results.comparison)}

## Growth

The same requests over a table of ${integer.format(SMALL)} rows and of ${integer.format(LARGE)}: median latencies with four connections. An exact
count reads every row, so its cost grows with them; \`count=estimated\` (exact up to 10,000) and \`count=none\` do not
([decision](../docs/decisions/027-query-insights.md)).

${growthTable(results.growth)}

## Start and memory

Medians from the start of the process to the first 200 on \`/ready\`.

${startUp(results.start, results.loadedMemory)}

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
  partialSummary({ ...results, measured: results });

export interface Part {
  readonly start: StartFigures | undefined;
  readonly measured: Pick<Results, 'comparison' | 'loadedMemory'> | undefined;
  readonly growth: readonly GrowthRow[];
}

/** The tables of what was measured. */
export function partialSummary({ start, measured, growth }: Part): string {
  return [
    ...(measured ? [ratios(measured.comparison), details(measured.comparison)] : []),
    ...(growth.length > 0 ? [growthTable(growth)] : []),
    ...(start ? [startUp(start, measured?.loadedMemory)] : []),
  ].join('\n\n');
}
