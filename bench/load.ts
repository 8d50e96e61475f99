/**
 * Loads a server with wrk, which takes little of the processor away from what is measured. The requests are made here
 * and handed over in a script of wrk's own language, Lua.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { seededRandom } from './statistics.ts';

/** What requests are made of. */
export interface Material {
  /** Access tokens that the requests take turns with. Empty: no credential is sent. */
  readonly tokens: readonly string[];
  /** Ids of their users, in the same order. */
  readonly userIds: readonly string[];
  /** Ids of existing records. */
  readonly ids: readonly string[];
  /** Ids of existing records that only some users may read. */
  readonly sharedIds: readonly string[];
  /** Those that a user owns, by the id of the user. */
  readonly ownIds?: Readonly<Record<string, readonly string[]>>;
  /** Ids that the relation of a record may point to. */
  readonly authorIds: readonly string[];
}

/** One kind of request. In `path` and `body`, `{id}`, `{shared}`, `{own}`, `{author}`, `{user}` and `{code}` stand for one of each. */
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
  /** About how many requests are sent in a second, at moments that do not hang on the answers. Absent: as many as are answered. */
  readonly perSecond?: number | undefined;
}

export interface LoadResult {
  /** Successful requests per second. */
  readonly rate: number;
  readonly requests: number;
  /** Answers other than 2xx, connection errors and timeouts. Anything but 0 makes the figures worthless. */
  readonly failures: number;
  /** The same by kind, such as `9 by status, 1 by timeout`. */
  readonly failureKinds: string;
  /** Milliseconds. */
  readonly latency: { readonly p50: number; readonly p95: number; readonly p99: number };
}

/** Different requests that are sent in turns, by all connections together. */
const REQUESTS = 4_000;
/** Seconds beyond the measurement after which wrk is given up. */
const GRACE_SECONDS = 30;
/** Values of `code` that `{code}` takes turns with. */
export const CODES = 1_000;

const pick = <T>(values: readonly T[], random: () => number): T | undefined =>
  values[Math.floor(random() * values.length)];

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
export function requestOf(
  material: Material,
  { method, path, body }: RequestShape,
  index: number,
  random: () => number,
): SentRequest {
  const who = Math.floor(random() * material.userIds.length);
  const author = pick(material.authorIds, random);
  const user = material.userIds[who];
  const owned = path.includes('{own}') ? material.ownIds?.[user ?? ''] : undefined;
  const values: Readonly<Record<string, string | undefined>> = {
    id: pick(material.ids, random),
    author,
    shared: pick(material.sharedIds, random),
    user,
    own: owned && pick(owned, random),
    code: `c${Math.floor(random() * CODES)}`,
  };
  const filledIn = (template: string): string =>
    template.replace(
      /\{(id|shared|own|author|user|code)\}/g,
      (_, name: string) => values[name] ?? '',
    );
  const token = material.tokens[who];
  const text =
    body === 'draft'
      ? draft(index, author)
      : body === 'change'
        ? { rank: index * 2.5, title: `Changed ${index}` }
        : body;
  return {
    method,
    path: filledIn(path),
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(text !== undefined && { 'content-type': 'application/json' }),
    },
    ...(text !== undefined && { body: filledIn(JSON.stringify(text)) }),
  };
}

export interface SentRequest {
  readonly method: RequestShape['method'];
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

const run = promisify(execFile);

/** wrk is a program of the system, in no package of this repository. Throws what to do when it is absent. */
export async function requireWrk(): Promise<void> {
  // It knows no way to ask for its version alone: shown or not, the exit code is 1.
  await run('wrk', ['--version']).catch(({ code }: { code?: unknown }) => {
    if (code !== 'ENOENT') return;
    throw new Error(
      'The load generator wrk is not installed. Debian and Ubuntu: apt-get install wrk; macOS: brew install wrk',
    );
  });
}

/** A text of Lua. What we send is ASCII, and `\\ddd` is understood by every version. */
const lua = (text: string): string =>
  `"${text.replace(/[^\x20-\x7e]|["\\]/g, (character) => `\\${String(character.charCodeAt(0)).padStart(3, '0')}`)}"`;

function luaRequest({ method, path, headers, body }: SentRequest): string {
  const table = Object.entries(headers).map(([name, value]) => `[${lua(name)}]=${lua(value)}`);
  return `{${lua(method)}, ${lua(path)}, {${table.join(', ')}}, ${body === undefined ? 'nil' : lua(body)}}`;
}

/** Milliseconds that a connection waits before it sends: any up to twice the mean. */
const pauseText = ({
  perSecond,
  connections,
}: Pick<LoadJob, 'perSecond' | 'connections'>): string =>
  perSecond === undefined
    ? ''
    : `function delay() return math.random(0, ${Math.round((2_000 * connections) / perSecond)}) end`;

/** The first line of the answer is ours; times in microseconds. */
const script = (requests: readonly SentRequest[], pause: string): string => `
local list = {
${requests.map(luaRequest).join(',\n')}
}
local texts, at = {}, 0
function init(args)
  for i, r in ipairs(list) do texts[i] = wrk.format(r[1], r[2], r[3], r[4]) end
end
function request()
  at = at % #texts + 1
  return texts[at]
end
${pause}
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("measured %d %d %d %d %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(95), latency:percentile(99),
    e.status, e.timeout, e.connect, e.read, e.write))
end
`;

/** Sends the requests of a job for its time. Throws when wrk is absent or fails. */
export async function runLoad(job: LoadJob): Promise<LoadResult> {
  const random = seededRandom(1);
  const requests = Array.from({ length: REQUESTS }, (_, index) =>
    requestOf(job, job.request, index, random),
  );
  const folder = await mkdtemp(join(tmpdir(), 'penstock-wrk-'));
  try {
    const file = join(folder, 'requests.lua');
    await writeFile(file, script(requests, pauseText(job)));
    const options = [
      '--threads',
      '1',
      '--connections',
      String(job.connections),
      '--duration',
      `${job.seconds}s`,
      '--timeout',
      '30s',
    ];
    const timeout = (job.seconds + GRACE_SECONDS) * 1_000;
    const { stdout } = await run('wrk', [...options, '--script', file, job.origin], { timeout });
    return resultOf(stdout);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What wrk counts as failures, in the order in which the script prints them. */
const failureNames = ['status', 'timeout', 'connect', 'read', 'write'];

/** The figures in what wrk prints. */
export function resultOf(printed: string): LoadResult {
  const figures = /^measured ([\d ]+)$/m.exec(printed)?.[1]?.split(' ').map(Number);
  if (figures?.length !== 5 + failureNames.length)
    throw new Error(`wrk did not measure:\n${printed}`);
  const [requests = 0, duration = 1, ...rest] = figures;
  const [p50 = 0, p95 = 0, p99 = 0] = rest.slice(0, 3).map((microseconds) => microseconds / 1_000);
  const counts = rest.slice(3);
  const failures = counts.reduce((sum, count) => sum + count, 0);
  const failureKinds = counts.flatMap((count, i) =>
    count > 0 ? [`${count} by ${failureNames[i]}`] : [],
  );
  return {
    rate: (requests - failures) / (duration / 1e6),
    requests,
    failures,
    failureKinds: failureKinds.join(', '),
    latency: { p50, p95, p99 },
  };
}
