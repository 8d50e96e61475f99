/** Where the time of a request goes in our own process: V8's profile of a platform under load, by area of the code. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fill } from './dataset.ts';
import { runLoad } from './load.ts';
import { startPlatform } from './platform.ts';
import type { Workload } from './workloads.ts';

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: {
      readonly functionName: string;
      readonly url: string;
      readonly lineNumber: number;
    };
  }[];
  readonly samples: readonly number[];
  /** Microseconds on the monotonic clock. */
  readonly startTime: number;
  readonly timeDeltas: readonly number[];
}

/** A stretch of time on the monotonic clock, which all processes share, in microseconds. */
export interface ProfileWindow {
  readonly workload: string;
  readonly from: number;
  readonly to: number;
  readonly requests: number;
}

const TOP_FUNCTIONS = 25;
/** Microseconds on the clock of the windows. */
export const profileClock = (): number => Number(process.hrtime.bigint() / 1000n);

/** Which part of the program a place in the code belongs to. */
function areaOf(url: string, functionName: string): string {
  if (url === '') return functionName.startsWith('(') ? functionName : 'V8 and Node, native';
  if (url.startsWith('node:'))
    return `Node: ${url.split('/')[0]?.slice('node:'.length)}${url.includes('http') ? ' http' : ''}`;
  const dependency = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url);
  if (dependency) return `package ${dependency[1]}`;
  const own = /\/src\/(.+)\/[^/]+$/.exec(url);
  return own ? `src/${own[1]}` : url;
}

/** Self time in microseconds per request, by the key that `name` gives a node; the largest first. */
function selfTimes(
  profile: CpuProfile,
  window: ProfileWindow,
  name: (node: CpuProfile['nodes'][number]) => string,
): [string, number][] {
  const names = new Map(profile.nodes.map((node) => [node.id, name(node)]));
  const sums = new Map<string, number>();
  let time = profile.startTime;
  profile.samples.forEach((id, index) => {
    const delta = profile.timeDeltas[index] ?? 0;
    time += delta;
    if (time < window.from || time > window.to) return;
    const key = names.get(id) ?? '';
    sums.set(key, (sums.get(key) ?? 0) + delta / window.requests);
  });
  return [...sums].sort(([, a], [, b]) => b - a);
}

function lines(title: string, times: readonly [string, number][]): string[] {
  return [
    '',
    title,
    ...times
      .filter(([, time]) => time >= 0.1)
      .map(([name, time]) => `  ${time.toFixed(1).padStart(7)}  ${name}`),
  ];
}

function describe(profile: CpuProfile, window: ProfileWindow): string[] {
  const areas = selfTimes(profile, window, ({ callFrame }) =>
    areaOf(callFrame.url, callFrame.functionName),
  );
  const functions = selfTimes(profile, window, ({ callFrame }) => {
    const file = callFrame.url.split('/').slice(-3).join('/');
    return `${callFrame.functionName || '(anonymous)'} ${file}:${callFrame.lineNumber + 1}`;
  });
  return [
    ...lines(
      `${window.workload}: microseconds per request, by area (${window.requests} requests)`,
      areas,
    ),
    ...lines(`${window.workload}: by function`, functions.slice(0, TOP_FUNCTIONS)),
  ];
}

/** Arguments for a Node whose profile shall lie in a folder. */
export const profiling = (profiles: string): readonly string[] => [
  '--cpu-prof',
  `--cpu-prof-dir=${profiles}`,
  '--cpu-prof-interval=500',
];

/** Lines for the terminal, of a process that has ended. */
export async function describeProfile(
  profiles: string,
  windows: readonly ProfileWindow[],
): Promise<string[]> {
  const [file] = (await readdir(profiles)).filter((name) => name.endsWith('.cpuprofile'));
  const profile = JSON.parse(await readFile(join(profiles, file ?? ''), 'utf8')) as CpuProfile;
  return windows.flatMap((window) => describe(profile, window));
}

/** Loads a platform that runs under the profiler and answers lines for the terminal. `folder` is for throw-away files. */
export async function profilePlatform(
  folder: string,
  plan: { seconds: number; connections: number },
  chosen: readonly Workload[],
): Promise<string[]> {
  const profiles = join(folder, 'profiles');
  const platform = await startPlatform({
    dataDir: join(folder, 'profiled'),
    through: 'sources',
    nodeArguments: profiling(profiles),
  });
  const windows: ProfileWindow[] = [];
  try {
    const { grants: _, ...material } = await fill(platform);
    const target = { ...material, origin: platform.clientOrigin };
    for (const { name: workload, ours: request, anonymous } of chosen) {
      const job = { ...target, ...(anonymous && { tokens: [] }), ...plan, request };
      await runLoad({ ...job, seconds: 2 });
      const from = profileClock();
      const { requests } = await runLoad(job);
      windows.push({ workload, from, to: profileClock(), requests });
    }
  } finally {
    await platform.stop();
  }
  return describeProfile(profiles, windows);
}
