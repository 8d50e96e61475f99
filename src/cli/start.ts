/** `penstock start`: runs the platform until it is told to stop. */
import { setTimeout as sleep } from 'node:timers/promises';
import { readSettings } from '../kernel/settings.ts';
import { startPlatform } from '../platform.ts';
import { bannerText } from './banner.ts';
import type { StartedPlatform } from './started-platform.ts';
import { listenForStop } from './stop-signal.ts';

/** Draining may take this many ms before the process ends anyway. */
const STOP_TIMEOUT_MS = 30_000;

const print = (text: string): void => void process.stdout.write(text);

/** Prints each step once, also when it is reported in parts. */
function progressPrinter(): (text: string) => void {
  let last = '';
  return (text) => {
    if (text !== last) print(`${text} ...\n`);
    last = text;
  };
}

/** Runs until it is told to stop; answers the exit code. */
export async function start(): Promise<number> {
  const stop = listenForStop();
  const crash = watchForCrash();
  const settings = readSettings(process.env);
  const platform = await Promise.race([startPlatform({ settings, onProgress: progressPrinter() }), crash]);
  if (platform instanceof Error) throw platform;
  // Since the process started: loading the program counts.
  print(bannerText(platform, performance.now() / 1000));
  const why = await Promise.race([stop.requested, crash]);
  if (why instanceof Error) reportCrash(why);
  const stopped = await closeInTime(platform);
  return stopped && !(why instanceof Error) ? 0 : 1;
}

/** Drains and stops everything. Answers false when that took too long. */
async function closeInTime(platform: StartedPlatform): Promise<boolean> {
  const timely = await Promise.race([platform.close().then(() => true), sleep(STOP_TIMEOUT_MS, false)]);
  if (!timely) process.stderr.write(`Not everything stopped within ${STOP_TIMEOUT_MS / 1000} s; the process ends now\n`);
  return timely;
}

/** An error that nobody handled leaves the platform in a state that nobody knows: it is stopped. */
function watchForCrash(): Promise<Error> {
  return new Promise((resolve) => {
    const onError = (reason: unknown): void => resolve(reason instanceof Error ? reason : new Error(String(reason)));
    process.on('uncaughtException', onError);
    process.on('unhandledRejection', onError);
  });
}

const reportCrash = (error: Error): void =>
  void process.stderr.write(
    `An error that nobody handled; this is a bug, please report it. The platform stops.\n${error.stack ?? error.message}\n`,
  );
