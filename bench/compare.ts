/** The same jobs against two servers, in turns, and what came out of it. */
import { isDeepStrictEqual } from 'node:util';
import { type Material, requestOf, runLoad } from './load.ts';
import { cpuTime, familyCpuTime } from './machine.ts';
import { median } from './statistics.ts';
import { type Workload, workloads } from './workloads.ts';

/** One of the two servers. */
export interface Side {
  readonly name: 'bare' | 'ours';
  readonly pid: number;
  readonly origin: string;
  readonly material: Material;
}

/** What the requests of a workload to it are made of. */
const materialFor = ({ material }: Side, { anonymous }: Workload): Material =>
  anonymous ? { ...material, tokens: [] } : material;

/** Medians over the rounds. */
export interface Figures {
  readonly rate: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  /** Microseconds of CPU per request, in the server's process and in PostgreSQL. */
  readonly nodeCpu: number;
  readonly postgresCpu: number;
}

export interface Outcome {
  readonly bare: Figures;
  readonly ours: Figures;
  /** Requests per second of ours to bare: the median over the rounds, each of which measures both. */
  readonly ratio: number;
}

/** In the order of the workloads. */
export type Comparison = readonly { readonly workload: Workload; readonly outcome: Outcome }[];

export interface Plan {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /** Requests per second that both sides are sent (load.ts). */
  readonly perSecond?: number;
}

export interface Bench {
  readonly sides: readonly [Side, Side];
  readonly postgresPid: number;
  readonly plan: Plan;
}

async function answer(side: Side, workload: Workload): Promise<Record<string, unknown>> {
  const { name, origin } = side;
  const material = materialFor(side, workload);
  const { path, ...request } = requestOf(material, workload[name], 0, () => 0);
  const response = await fetch(origin + path, request);
  const text = await response.text();
  if (!response.ok)
    throw new Error(`${workload.name} of ${name} answered ${response.status}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

/** What differs between two creations of the same record. */
const withoutOwn = ({ _id, createdAt, updatedAt, ...rest }: Record<string, unknown>): unknown =>
  rest;

/** Both sides must give the same answers, else the comparison means nothing. */
export async function assertSameAnswers([first, second]: Bench['sides']): Promise<void> {
  for (const workload of workloads) {
    const answers = await Promise.all([answer(first, workload), answer(second, workload)]);
    const [one, other] = workload.writes ? answers.map(withoutOwn) : answers;
    if (!isDeepStrictEqual(one, other)) {
      throw new Error(
        `${workload.name}: the answers differ\n${JSON.stringify(one)}\n${JSON.stringify(other)}`,
      );
    }
  }
}

async function measure(
  { postgresPid, plan }: Bench,
  side: Side,
  workload: Workload,
): Promise<Figures> {
  const node = cpuTime(side.pid);
  const postgres = familyCpuTime(postgresPid);
  const { origin, name } = side;
  const result = await runLoad({
    ...materialFor(side, workload),
    origin,
    request: workload[name],
    connections: plan.connections,
    seconds: plan.seconds,
    perSecond: plan.perSecond,
  });
  if (result.failures > 0)
    throw new Error(
      `${workload.name} of ${name}: ${result.failures} of ${result.requests} requests failed (${result.failureKinds})`,
    );
  return {
    rate: result.rate,
    ...result.latency,
    nodeCpu: (cpuTime(side.pid) - node) / result.requests,
    postgresCpu: (familyCpuTime(postgresPid) - postgres) / result.requests,
  };
}

const middle = (rounds: readonly Figures[]): Figures => {
  const of = (key: keyof Figures): number => median(rounds.map((figures) => figures[key]));
  return {
    rate: of('rate'),
    p50: of('p50'),
    p95: of('p95'),
    p99: of('p99'),
    nodeCpu: of('nodeCpu'),
    postgresCpu: of('postgresCpu'),
  };
};

/**
 * Seconds of load on each side before the first measurement of a workload. V8 has compiled what runs after about 25,000
 * requests; until then one takes two to three times as long, and the threads that compile share the processors with
 * both programs (docs/decisions/366-warm-up-of-benchmarks.md).
 */
export const WARM_UP_SECONDS = 4;

/** One measurement of each side. The order changes from round to round, so that neither is always first. */
async function measureBoth(
  bench: Bench,
  workload: Workload,
  round: number,
): Promise<Record<Side['name'], Figures>> {
  const figures = {} as Record<Side['name'], Figures>;
  const order = round % 2 === 0 ? bench.sides : bench.sides.toReversed();
  for (const side of order) figures[side.name] = await measure(bench, side, workload);
  return figures;
}

async function outcomeOf(
  bench: Bench,
  workload: Workload,
  onProgress: (text: string) => void,
): Promise<Outcome> {
  await measureBoth({ ...bench, plan: { ...bench.plan, seconds: WARM_UP_SECONDS } }, workload, 0);
  const bare: Figures[] = [];
  const ours: Figures[] = [];
  for (let round = 1; round <= bench.plan.rounds; round += 1) {
    const both = await measureBoth(bench, workload, round);
    bare.push(both.bare);
    ours.push(both.ours);
    onProgress(
      `${workload.name} round ${round}: bare ${Math.round(both.bare.rate)}/s, ours ${Math.round(both.ours.rate)}/s`,
    );
  }
  const ratio = median(ours.map(({ rate }, round) => rate / (bare[round]?.rate ?? Number.NaN)));
  return { bare: middle(bare), ours: middle(ours), ratio };
}

/** Warms both sides up, then measures them in turns, so that a slow moment of the machine hits both. */
export async function compare(
  bench: Bench,
  chosen: readonly Workload[],
  onProgress: (text: string) => void,
): Promise<Comparison> {
  const outcomes: { workload: Workload; outcome: Outcome }[] = [];
  for (const workload of chosen)
    outcomes.push({ workload, outcome: await outcomeOf(bench, workload, onProgress) });
  return outcomes;
}
