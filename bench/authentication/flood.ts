/** What a flood of logins does to everybody else: reads at a steady pace, alone and beside as many logins as the platform can hash. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGrowthSchema, growthSchema, signUp } from '../dataset.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { percentile } from '../statistics.ts';

export interface Flood {
  /** Milliseconds of reads. */
  readonly quiet: readonly number[];
  readonly flooded: readonly number[];
  readonly loginsPerSecond: number;
  /** Milliseconds of logins. */
  readonly logins: readonly number[];
}

/** Milliseconds between two reads, and seconds of each measurement. */
const pace = 10;
const seconds = 10;
/** Logins at the same time: more than are hashed at once, so that there is always one waiting. */
const attackers = 16;

export async function measureFlood(print: (line: string) => void): Promise<Flood> {
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-flood-'));
  // The addresses of clients come from a header here, so that no budget is used up.
  const platform = await startPlatform({ dataDir, env: { TRUSTED_PROXIES: '127.0.0.1' } });
  try {
    const read = await prepare(platform);
    await reads(read, 2);
    print('reads alone');
    const quiet = await reads(read, seconds);
    print('reads beside a flood of logins');
    const flood = startFlood(platform);
    await sleep(1_000);
    const [before, flooded] = [flood.times.length, await reads(read, seconds)];
    const logins = flood.times.slice(before);
    await flood.stop();
    return { quiet, flooded, logins, loginsPerSecond: logins.length / seconds };
  } finally {
    await platform.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function prepare(platform: Platform): Promise<() => Promise<Response>> {
  await createGrowthSchema(platform);
  const { accessToken } = await signUp(platform);
  const headers = { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' };
  const path = `${platform.clientOrigin}/database/${growthSchema}`;
  const made = await fetch(path, {
    method: 'POST',
    headers,
    body: JSON.stringify({ code: 'c1', title: 'One' }),
  });
  const { _id } = (await made.json()) as { _id: string };
  return () => fetch(`${path}/${_id}`, { headers });
}

/** At their own pace, whatever the answers take: a server that stalls makes many of them late. */
async function reads(read: () => Promise<Response>, howLong: number): Promise<readonly number[]> {
  const begin = performance.now();
  const pending: Promise<number>[] = [];
  for (let i = 0; i < (howLong * 1_000) / pace; i += 1) {
    const due = begin + i * pace;
    await sleep(Math.max(0, due - performance.now()));
    pending.push(answered(read, due));
  }
  return Promise.all(pending);
}

async function answered(
  request: () => Promise<Response>,
  since: number,
  expected = 200,
): Promise<number> {
  const response = await request();
  await response.arrayBuffer();
  if (response.status !== expected) throw new Error(`answered ${response.status}`);
  return performance.now() - since;
}

function startFlood({ clientOrigin }: Platform) {
  const times: number[] = [];
  let running = true;
  let sent = 0;
  const login = (): Promise<Response> => {
    sent += 1;
    const headers = {
      'content-type': 'application/json',
      'x-forwarded-for': `10.${(sent >> 16) & 255}.${(sent >> 8) & 255}.${sent & 255}`,
    };
    const body = JSON.stringify({
      email: `nobody-${sent}@example.com`,
      password: 'a wrong password',
    });
    return fetch(`${clientOrigin}/authentication/local`, { method: 'POST', headers, body });
  };
  const attack = async (): Promise<void> => {
    while (running) times.push(await answered(login, performance.now(), 401));
  };
  const all = Array.from({ length: attackers }, attack);
  return {
    times,
    async stop() {
      running = false;
      await Promise.all(all);
    },
  };
}

const ms = (value: number): string => value.toFixed(1);
const shares = (times: readonly number[]): string => {
  const sorted = times.toSorted((a, b) => a - b);
  return `${ms(percentile(sorted, 0.5))} | ${ms(percentile(sorted, 0.99))}`;
};

/** The figures as a part of the page. */
export const floodReport = ({ quiet, flooded, logins, loginsPerSecond }: Flood): string => `
# What does a flood of logins do to everybody else?

${1_000 / pace} reads of one record per second, alone and beside ${attackers} clients that do nothing but log in: ${loginsPerSecond.toFixed(0)} logins per second, which is what the hash allows. Milliseconds.

| request | p50 | p99 |
| --- | --: | --: |
| read, alone | ${shares(quiet)} |
| read, beside the flood | ${shares(flooded)} |
| login, in the flood | ${shares(logins)} |
`;
