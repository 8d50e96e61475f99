/**
 * Measures what MCP adds to the admin surface: the list of all tools, and a tool call beside the same call over
 * HTTP, in turns. `npm run bench:mcp -- --dry` leaves RESULTS.md as it is.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median, percentile } from '../statistics.ts';

const ROUNDS = 500;
const WARM_UP = 50;
/** Tool calls of one token within the budget of ten seconds. */
const CALLS_PER_TOKEN = 50;

interface Times {
  readonly list: readonly number[];
  readonly tool: readonly number[];
  readonly http: readonly number[];
  readonly tools: number;
}

type Headers = Readonly<Record<string, string>>;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

interface Question {
  readonly method: string;
  readonly headers: Headers;
  readonly text: string | undefined;
}

/**
 * By `node:http`, not `fetch`: what `fetch` does for a body (streams) would be charged to the tool call alone, which is the
 * only one of the two that has one.
 */
function sent(
  agent: Agent,
  url: string,
  { method, headers, text }: Question,
): Promise<{ status: number; text: string }> {
  const length: Headers =
    text === undefined ? {} : { 'content-length': String(Buffer.byteLength(text)) };
  return new Promise((resolve, reject) => {
    const all = {
      accept: 'application/json',
      'content-type': 'application/json',
      ...length,
      ...headers,
    };
    const outgoing = request(url, { agent, method, headers: all }, (response) => {
      response.setEncoding('utf8');
      let answer = '';
      response.on('data', (piece: string) => (answer += piece));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: answer }));
    });
    outgoing.on('error', reject).end(text);
  });
}

function createCalls({ adminOrigin, masterKey }: Platform) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = async (
    path: string,
    headers: Headers,
    body?: unknown,
    method = body === undefined ? 'GET' : 'POST',
  ): Promise<unknown> => {
    const answer = await sent(agent, adminOrigin + path, {
      method,
      headers,
      text: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text);
  };
  const rpc = (method: string, headers: Headers, params: object = {}) =>
    send('/mcp?modules=all', headers, { jsonrpc: '2.0', id: 1, method, params });
  return {
    /** The budget of ordinary requests out of the way; that of tool calls cannot be. */
    lift: () =>
      send(
        '/config/router',
        { masterkey: masterKey },
        { rateLimit: { maxRequests: 1_000_000 } },
        'PATCH',
      ),
    async token(): Promise<Headers> {
      const { token } = (await send(
        '/api-tokens',
        { masterkey: masterKey },
        { name: 'bench' },
      )) as { token: string };
      return { credential: token };
    },
    async list(headers: Headers): Promise<number> {
      const { result } = (await rpc('tools/list', headers)) as { result: { tools: unknown[] } };
      return result.tools.length;
    },
    tool: (headers: Headers) => rpc('tools/call', headers, { name: 'get_admins', arguments: {} }),
    http: (headers: Headers) => send('/admins', headers),
  };
}

async function measure(platform: Platform): Promise<Times> {
  const calls = createCalls(platform);
  const times = { list: [] as number[], tool: [] as number[], http: [] as number[] };
  await calls.lift();
  let headers = await calls.token();
  const tools = await calls.list(headers);
  for (let i = -WARM_UP; i < ROUNDS; i += 1) {
    if ((i + WARM_UP) % CALLS_PER_TOKEN === 0) headers = await calls.token();
    const [tool, http] = [
      await timed(() => calls.tool(headers)),
      await timed(() => calls.http(headers)),
    ];
    if (i < 0) continue;
    times.tool.push(tool);
    times.http.push(http);
    if (i % 10 === 0) times.list.push(await timed(() => calls.list(headers)));
  }
  return { ...times, tools };
}

const ms = (value: number): string => value.toFixed(2);
const sorted = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

function reportOf({ list, tool, http, tools }: Times, machine: string): string {
  const row = (name: string, values: readonly number[]): string =>
    `| ${name} | ${ms(median(values))} | ${ms(percentile(sorted(values), 0.99))} |`;
  const ratio = median(tool) / median(http);
  return `# MCP, measured

Written by \`npm run bench:mcp\` on ${new Date().toISOString().slice(0, 10)}: ${machine}. Milliseconds over HTTP on one connection, one question after the other.

| | p50 | p99 |
| --- | --: | --: |
${row(`\`tools/list\` with all modules (${tools} tools), warm`, list)}
${row('`tools/call` of get_admins', tool)}
${row('`GET /admins`', http)}

| | goal | measured | |
| --- | --- | --- | --- |
| \`tools/list\` with all modules, p50 | <= 50 ms | ${ms(median(list))} ms | ${median(list) <= 50 ? 'met' : '**missed**'} |
| a tool call against the same HTTP call, p50 | <= 1.3x | ${ratio.toFixed(2)}x | ${ratio <= 1.3 ? 'met' : '**missed**'} |
`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { dry: { type: 'boolean', default: false } } });
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-mcp-'));
  const platform = await startPlatform({ dataDir });
  try {
    const report = reportOf(await measure(platform), describeMachine('18'));
    if (values.dry) console.log(report);
    else await writeFile(new URL('RESULTS.md', import.meta.url), report);
  } finally {
    await platform.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
