/**
 * The load generator: a process of its own (forked), so that its work is not
 * counted as the server's. It gets one job at a time and answers with the figures.
 */
import autocannon from 'autocannon';
import { percentile, seededRandom } from './statistics.ts';

/** What requests are made of. */
export interface Material {
  /** Access tokens that the requests take turns with. Empty: no credential is sent. */
  readonly tokens: readonly string[];
  /** Ids of their users, in the same order. */
  readonly userIds: readonly string[];
  /** Ids of existing records. */
  readonly ids: readonly string[];
  /** Ids that the relation of a record may point to. */
  readonly authorIds: readonly string[];
}

/** One kind of request. In `path`, `{id}`, `{author}`, `{user}` and `{code}` stand for one of each. */
export interface RequestShape {
  readonly method: 'GET' | 'POST' | 'PATCH';
  readonly path: string;
  /** A new record, a change of one, or always the same object. */
  readonly body?: 'draft' | 'change' | object;
}

export interface LoadJob extends Material {
  readonly request: RequestShape;
  /** Where the server listens: `http://127.0.0.1:3000`. */
  readonly origin: string;
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

const REQUESTS_PER_CONNECTION = 400;
/** Values of `code` that `{code}` takes turns with. */
export const CODES = 1_000;

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

/** One of the requests of a job, ready to be sent. */
export function requestOf(material: Material, { method, path, body }: RequestShape, index: number, random: () => number): SentRequest {
  const who = Math.floor(random() * material.userIds.length);
  const author = pick(material.authorIds, random);
  const values: Readonly<Record<string, string | undefined>> = {
    id: pick(material.ids, random),
    author,
    user: material.userIds[who],
    code: `c${Math.floor(random() * CODES)}`,
  };
  const token = material.tokens[who];
  const text = body === 'draft' ? draft(index, author) : body === 'change' ? { rank: index * 2.5, title: `Changed ${index}` } : body;
  return {
    method,
    path: path.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? ''),
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(text !== undefined && { 'content-type': 'application/json' }),
    },
    ...(text !== undefined && { body: JSON.stringify(text) }),
  };
}

export interface SentRequest {
  readonly method: RequestShape['method'];
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

/** The requests of one connection: built once and sent in turns. */
function requestsOf(job: LoadJob, connection: number): autocannon.Request[] {
  const random = seededRandom(connection + 1);
  return Array.from({ length: REQUESTS_PER_CONNECTION }, (_, index) => requestOf(job, job.request, index, random));
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
