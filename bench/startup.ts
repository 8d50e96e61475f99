/** How long it takes until the platform is ready, and how much memory it holds then. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { residentMemory } from './machine.ts';
import { type PlatformOptions, startPlatform } from './platform.ts';
import { median } from './statistics.ts';

/** Milliseconds to the first 200 on `/ready`, medians. */
export interface StartUp {
  readonly empty: number;
  readonly existing: number;
}

export interface StartFigures {
  readonly program: StartUp;
  /** Through `scripts/run.mjs start`, which is what `npm start` runs. */
  readonly command: StartUp;
  /** Bytes, some seconds after a start on an existing folder, nothing having been asked. */
  readonly idleMemory: number;
}

const TIMES = 5;
const IDLE_MS = 5_000;

async function startOnce(options: PlatformOptions): Promise<number> {
  const platform = await startPlatform(options);
  await platform.stop();
  return platform.startMs;
}

async function measureStarts(
  folder: string,
  through: PlatformOptions['through'],
): Promise<StartUp> {
  const dataDir = join(folder, `start-${through}`);
  const empty: number[] = [];
  const existing: number[] = [];
  for (let time = 0; time < TIMES; time += 1) {
    await rm(dataDir, { recursive: true, force: true });
    empty.push(await startOnce({ dataDir, through }));
    existing.push(await startOnce({ dataDir, through }));
  }
  return { empty: median(empty), existing: median(existing) };
}

/** `folder` is for throw-away data folders. */
export async function measureStartUp(folder: string): Promise<StartFigures> {
  const program = await measureStarts(folder, 'main');
  const command = await measureStarts(folder, 'command');
  const platform = await startPlatform({ dataDir: join(folder, 'start-main') });
  await sleep(IDLE_MS);
  const idleMemory = residentMemory(platform.pid);
  await platform.stop();
  return { program, command, idleMemory };
}
