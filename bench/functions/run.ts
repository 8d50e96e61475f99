/**
 * Measures functions over HTTP with wrk: what a warm one costs, a cold one, a hook before a write, 500 that are only
 * stored, and what 100 hostile ones at once do to reads. `npm run bench:functions`; `--dry` leaves RESULTS.md as it is,
 * `--only warm,cold` measures parts, `--seconds 3` is the length of each measurement, `--profile` keeps a CPU profile of
 * the warm function beside the data folder.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type LoadResult, type RequestShape, requireWrk, runLoad } from '../load.ts';
import { describeMachine, residentMemory } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median } from '../statistics.ts';
import { type Attack, startAttack } from './attack.ts';

const { values } = parseArgs({
  options: {
    dry: { type: 'boolean', default: false },
    only: { type: 'string' },
    seconds: { type: 'string', default: '3' },
    profile: { type: 'string' },
  },
});
const only = values.only?.split(',');
const isAsked = (part: string): boolean => only === undefined || only.includes(part);

const ROUNDS = 3;
const MANY = 32;
/** At the same time where latencies are compared: alone, and so many that two processors are about full. */
const ALONE = 1;
const FEW = 4;
const HOSTILE = 100;
/** Longer than their time-outs: all of them end within it. */
const ATTACK_SECONDS = 12;
const ATTACKS = 4;
const STORED = 500;
const COLD = 20;

type Json = Readonly<Record<string, unknown>>;

async function ask(platform: Platform, method: string, path: string, body?: object): Promise<Json> {
  const answer = await fetch(`${platform.adminOrigin}${path}`, {
    method,
    headers: { masterkey: platform.masterKey, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Json;
}

const upload = (platform: Platform, name: string, functionCode: string, given: object = {}) =>
  ask(platform, 'POST', '/functions/upload', {
    ...{ name, functionType: 'request', inputs: { method: 'GET' }, functionCode },
    ...given,
  });

const nobody = { tokens: [], userIds: [], ids: [], sharedIds: [], authorIds: [] };

async function load(
  platform: Platform,
  request: RequestShape,
  connections: number,
  seconds = Number(values.seconds),
): Promise<LoadResult> {
  const origin = platform.clientOrigin;
  const result = await runLoad({ ...nobody, origin, request, connections, seconds });
  if (result.failures > 0)
    throw new Error(`${request.path}: ${result.failures} of ${result.requests} requests failed`);
  return result;
}

/** Medians of two kinds of requests, measured in turns. */
async function inTurns(
  platform: Platform,
  shapes: readonly [RequestShape, RequestShape],
  connections: number,
): Promise<readonly [number, number]> {
  const found: [number, number][] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const pair: [number, number] = [0, 0];
    for (const at of [0, 1] as const)
      pair[at] = (await load(platform, shapes[at], connections)).latency.p50;
    found.push(pair);
  }
  return [median(found.map(([one]) => one)), median(found.map(([, other]) => other))];
}

const open = { enabled: true, authenticated: false };

async function prepare(platform: Platform): Promise<void> {
  const rateLimit = { maxRequests: 1_000_000 };
  await ask(platform, 'PATCH', '/config/router', { config: { rateLimit } });
  for (const name of ['Plain', 'Hooked'])
    await ask(platform, 'POST', '/database/schemas', {
      ...{ name, fields: { title: 'String', rank: 'Number' } },
      conduitOptions: { cms: { enabled: true, crudOperations: { create: open, read: open } } },
    });
  const docs = Array.from({ length: 200 }, (_, at) => ({ title: `t${at % 10}`, rank: at }));
  await ask(platform, 'POST', '/database/schemas/Plain/docs/many', { inputDocuments: docs }).catch(
    async () => {
      for (const inputDocument of docs)
        await ask(platform, 'POST', '/database/schemas/Plain/docs', { inputDocument });
    },
  );
  await ask(platform, 'POST', '/database/customEndpoints', {
    ...{ name: 'byTitle', operation: 0, selectedSchemaName: 'Plain', paginated: false },
    inputs: [{ name: 'title', type: 'String', location: 1 }],
    query: {
      AND: [
        {
          schemaField: 'title',
          operation: 0,
          comparisonField: { type: 'Input', value: 'title' },
        },
      ],
    },
  });
  await upload(platform, 'hello', 'return { hello: req.params.name };', {
    inputs: { method: 'GET', queryParams: { name: 'String' } },
  });
  await upload(
    platform,
    'through',
    "return ctx.call('GET /database/function/byTitle', { query: { title: req.params.title } });",
    { inputs: { method: 'GET', queryParams: { title: 'String' } } },
  );
  await upload(platform, 'stamp', 'return { ...req.input, rank: 7 };', {
    ...{ functionType: 'hook' },
    inputs: { trigger: { schema: 'Hooked', op: 'create', when: 'before' } },
  });
}

const rows: string[] = [];
function report(what: string, figure: string, goal: string): void {
  rows.push(`| ${what} | ${figure} | ${goal} |`);
  console.log(rows.at(-1));
}
const ms = (value: number): string => `${value.toFixed(2)} ms`;

async function warm(platform: Platform): Promise<void> {
  const path = '/functions/hello?name=you';
  const found: LoadResult[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    found.push(await load(platform, { method: 'GET', path }, MANY));
  const rate = median(found.map((one) => one.rate));
  const p99 = median(found.map(({ latency }) => latency.p99));
  report(
    `A warm request function, ${MANY} at once`,
    `${Math.round(rate)} a second, p99 ${ms(p99)}`,
    'at least 3,000 a second',
  );
}

async function added(platform: Platform): Promise<void> {
  for (const connections of [ALONE, FEW]) {
    const shapes = [
      { method: 'GET', path: '/database/function/byTitle?title=t3' },
      { method: 'GET', path: '/functions/through?title=t3' },
    ] as const;
    const [alone, through] = await inTurns(platform, shapes, connections);
    report(
      `A function that calls a custom endpoint, beside the endpoint, p50 with ${connections} at once`,
      `${ms(through)} beside ${ms(alone)}: ${ms(through - alone)} more`,
      'at most 1.0 ms more',
    );
  }
}

async function hooks(platform: Platform): Promise<void> {
  const body = { title: 'new', rank: 1 };
  for (const connections of [ALONE, FEW]) {
    const shapes = [
      { method: 'POST', path: '/database/Plain', body },
      { method: 'POST', path: '/database/Hooked', body },
    ] as const;
    const [plain, hooked] = await inTurns(platform, shapes, connections);
    report(
      `A record with a hook before it, beside one without, p50 with ${connections} at once`,
      `${ms(hooked)} beside ${ms(plain)}: ${ms(hooked - plain)} more`,
      'at most 0.7 ms more',
    );
  }
}

/** The first request of a function that nobody has called, with processes that are there. */
async function cold(platform: Platform): Promise<void> {
  const timed = async (name: string): Promise<number> => {
    const began = performance.now();
    const answer = await fetch(`${platform.clientOrigin}/functions/${name}`);
    await answer.text();
    if (!answer.ok) throw new Error(`${name} answered ${answer.status}`);
    return performance.now() - began;
  };
  const times: number[] = [];
  for (let at = 0; at < COLD; at += 1) {
    await upload(platform, `cold_${at}`, `const n = ${at}; return { n, who: ctx.caller.kind };`);
    times.push(await timed(`cold_${at}`));
  }
  report(
    `The first call of a function (${COLD} of them)`,
    `${ms(median(times))}, the slowest ${ms(Math.max(...times))}`,
    'at most 50 ms',
  );
}

const hostileCodes = [
  'while (true) {}',
  'const all = []; while (true) all.push(new Array(1e5).fill(7));',
  'const go = () => Promise.resolve().then(go); await Promise.all(Array.from({ length: 1e3 }, go));',
  "let text = 'x'; while (true) text += text.slice(0, 1e6);",
  'await new Promise(() => undefined);',
];

async function hostile(platform: Platform): Promise<void> {
  const found = (await ask(platform, 'GET', '/database/schemas/Plain/docs?limit=1')) as {
    readonly documents: readonly { readonly _id: string }[];
  };
  const path = `/database/Plain/${found.documents[0]?._id}`;
  for (let at = 0; at < HOSTILE; at += 1)
    await upload(platform, `hostile_${at}`, hostileCodes[at % hostileCodes.length] ?? '', {
      timeout: 10_000,
    });
  const one = { method: 'GET', path } as const;
  const p99 = async (seconds: number): Promise<number> =>
    (await load(platform, one, FEW, seconds)).latency.p99;
  const short = async (): Promise<number> =>
    median([await p99(Number(values.seconds)), await p99(Number(values.seconds))]);
  const paths = Array.from({ length: HOSTILE }, (_, at) => `/functions/hostile_${at}`);
  const begin = async (): Promise<Attack> => {
    const begun = startAttack(platform.clientOrigin, paths);
    await sleep(1_000);
    return begun;
  };
  await short();
  const before = await short();
  let attack = await begin();
  // The platform finds out in the first seconds what they are: that is measured by itself.
  reportHostile('from the second to the seventh second', await short(), before);
  const [during, without]: [number[], number[]] = [[], []];
  // In turns, as the machine itself changes from minute to minute.
  for (let round = 0; round < ATTACKS; round += 1) {
    during.push(await p99(ATTACK_SECONDS));
    attack.stop();
    await sleep(2_000);
    without.push(await p99(ATTACK_SECONDS));
    attack = await begin();
  }
  attack.stop();
  reportHostile(
    `then ${ATTACKS} times for ${ATTACK_SECONDS} seconds, in which all of them end together and begin again, in turns with as long without them`,
    median(during),
    median(without),
  );
}

function reportHostile(when: string, during: number, without: number): void {
  report(
    `Reads while ${HOSTILE} hostile functions that were never run before run at once, ${when}, p99 with ${FEW} at once`,
    `${ms(during)} beside ${ms(without)}: ${(during / without).toFixed(2)} times`,
    'at most 1.5 times',
  );
}

/** Memory of the platform after a start, with and without functions that are only stored. */
async function stored(dataDir: string): Promise<void> {
  const restarted = async (work?: (platform: Platform) => Promise<void>): Promise<number> => {
    const platform = await startPlatform({ dataDir });
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const bytes = residentMemory(platform.pid);
    await work?.(platform);
    await platform.stop();
    return bytes;
  };
  const without = await restarted(async (platform) => {
    const code = `// ${'a line of usual length that says what the next one does '.repeat(100)}\nreturn 1;`;
    for (let at = 0; at < STORED; at += 1) await upload(platform, `stored_${at}`, code);
  });
  const grown = (await restarted()) - without;
  report(
    `${STORED} functions that are stored (6 KB each) and do not run: memory after a start`,
    `${(grown / 1_048_576).toFixed(1)} MiB more, ${Math.round(grown / STORED / 1_024)} KiB each`,
    'none to speak of',
  );
}

await requireWrk();
const folder = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
const dataDir = join(folder, 'data');
const nodeArguments = values.profile ? ['--cpu-prof', `--cpu-prof-dir=${values.profile}`] : [];
const platform = await startPlatform({
  dataDir,
  nodeArguments,
  // As `npm start` does: it is the supervisor that starts the processes of functions.
  through: values.profile ? 'main' : 'command',
  env: { TRUSTED_PROXIES: '127.0.0.1' },
});
try {
  await prepare(platform);
  if (isAsked('warm')) await warm(platform);
  if (isAsked('added')) await added(platform);
  if (isAsked('hooks')) await hooks(platform);
  if (isAsked('cold')) await cold(platform);
  if (isAsked('hostile')) await hostile(platform);
  await platform.stop();
  if (isAsked('stored')) await stored(dataDir);
  const text = [
    '# Functions',
    '',
    describeMachine('the embedded one'),
    '',
    `Over HTTP with wrk, ${values.seconds} s each; medians of ${ROUNDS} rounds, in turns where two are compared.`,
    '',
    '| | Measured | Goal |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n');
  if (!values.dry && only === undefined)
    await writeFile(fileURLToPath(new URL('RESULTS.md', import.meta.url)), text);
} finally {
  await platform.stop();
  await rm(folder, { recursive: true, force: true });
}
