/**
 * The load generator: a process of its own (forked), so that its work is not
 * counted as the server's. It gets one job at a time and answers with the figures.
 */
import autocannon from 'autocannon';
import { percentile, seededRandom } from './statistics.ts';

/** The three things that are measured. */
export type Workload = 'get' | 'list' | 'create';

export interface LoadJob {
  readonly workload: Workload;
  /** Where the server listens: `http://127.0.0.1:3000`. */
  readonly origin: string;
  /** Path of the collection that is read, and of the one that is written. */
  readonly readPath: string;
  readonly writePath: string;
  /** Access tokens that the requests take turns with. Empty: no credential is sent. */
  readonly tokens: readonly string[];
  /** Ids of existing records. */
  readonly ids: readonly string[];
  /** Ids that the relation of a new record may point to. */
  readonly authorIds: readonly string[];
  readonly connections: number;
  readonly seconds: number;
}

export interface LoadResult {
  /** Successful requests per second. */
  readonly rate: number;
  readonly requests: number;
  /** Answers other than 2xx, connection errors and timeouts. Anything but 0 makes the figures worthless. */
  readonly failures: number;
  /** Milliseconds. */
  readonly latency: { readonly p50: number; readonly p95: number; readonly p99: number };
}

/** Rows of a page in the list workload. */
export const PAGE_SIZE = 20;
const REQUESTS_PER_CONNECTION = 400;

const pick = <T>(values: readonly T[], random: () => number): T | undefined => values[Math.floor(random() * values.length)];

/** The body of a create. */
export function draft(index: number, author: string | undefined): Record<string, unknown> {
  return {
    title: `Draft number ${index}`,
    body: 'A few words that make a paragraph of usual length. '.repeat(3),
    rank: index * 1.5,
    published: index % 2 === 0,
    tags: ['alpha', 'beta', 'gamma'],
    publishedAt: new Date(Date.UTC(2026, 0, 1) + index * 61_237).toISOString(),
    author,
  };
}

function requestOf(job: LoadJob, index: number, random: () => number): autocannon.Request {
  const token = pick(job.tokens, random);
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  switch (job.workload) {
    case 'get':
      return { method: 'GET', path: `${job.readPath}/${pick(job.ids, random)}`, headers };
    case 'list':
      return { method: 'GET', path: `${job.readPath}?skip=0&limit=${PAGE_SIZE}`, headers };
    case 'create':
      return {
        method: 'POST',
        path: job.writePath,
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(draft(index, pick(job.authorIds, random))),
      };
  }
}

/** The requests of one connection: built once and sent in turns. */
function requestsOf(job: LoadJob, connection: number): autocannon.Request[] {
  const random = seededRandom(connection + 1);
  return Array.from({ length: REQUESTS_PER_CONNECTION }, (_, index) => requestOf(job, index, random));
}

async function run(job: LoadJob): Promise<LoadResult> {
  let connection = 0;
  const times: number[] = [];
  const load = autocannon({
    url: job.origin,
    connections: job.connections,
    duration: job.seconds,
    setupClient: (client) => client.setRequests(requestsOf(job, connection++)),
  });
  // Autocannon's own histogram holds whole milliseconds only.
  load.on('response', (_client: unknown, _status: number, _bytes: number, milliseconds: number) => times.push(milliseconds));
  const result = await load;
  const sorted = Float64Array.from(times).sort();
  return {
    rate: result['2xx'] / result.duration,
    requests: sorted.length,
    failures: result.non2xx + result.errors + result.timeouts,
    latency: { p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), p99: percentile(sorted, 0.99) },
  };
}

if (process.send) {
  process.on('message', (job: LoadJob) => void run(job).then((result) => process.send?.(result)));
  process.once('disconnect', () => process.exit());
}
