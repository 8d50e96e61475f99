/** `penstock start`: runs the platform until it is told to stop. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLoopback, refuseWeakMasterKey } from '../kernel/settings/default-environment.ts';
import { readSettings, type Settings } from '../kernel/settings/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import { findSupervisor, type Supervisor } from '../kernel/supervisor.ts';
import { version } from '../kernel/version.ts';
import { startPlatform } from '../platform.ts';
import { listenForStop } from './stop-signal.ts';

/** Closing everything may take this many ms longer than requests may run; then the process ends anyway. */
const STOP_MARGIN_MS = 15_000;

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
  const supervisor = findSupervisor();
  const stop = listenForStop(supervisor);
  const crash = watchForCrash();
  const settings = readSettings(process.env);
  refuseWeakMasterKey(settings);
  const halt = new AbortController();
  void stop.requested.then((why) => halt.abort(new StartError(`Stopped by ${why}`)));
  const { signal } = halt;
  const platform = await Promise.race([
    startPlatform({ settings, supervisor, signal, onProgress: progressPrinter() }),
    crash,
  ]).catch((error: Error) => error);
  if (platform instanceof Error) {
    if (platform !== signal.reason) throw platform;
    print(`${platform.message} before it was ready: the next start goes on\n`);
    return 0;
  }
  announce(platform, supervisor);
  supervisor?.ready({ workers: settings.workers, watchdogMs: settings.watchdogMs });
  const why = await Promise.race([stop.requested, crash]);
  if (why instanceof Error) reportCrash(why);
  // A person who presses Ctrl-C waits for no proxy.
  const stopped = await closeInTime(platform, settings, { patient: why === 'SIGTERM' });
  return stopped && !(why instanceof Error) ? 0 : 1;
}

/** The banner comes once, from the first worker of a start. */
function announce(platform: StartedPlatform, supervisor: Supervisor | undefined): void {
  if (supervisor && (supervisor.slot > 0 || supervisor.isReplacement)) {
    platform.kernel.log.info({ worker: supervisor.slot, pid: process.pid }, 'This process serves');
    return;
  }
  // Since the process started: loading the program counts.
  print(bannerText(platform, performance.now() / 1000, { isTerminal: process.stdout.isTTY }));
}

/** Drains and stops everything. Answers false when that took too long. */
async function closeInTime(
  platform: StartedPlatform,
  { stop }: Settings,
  how: { patient: boolean },
): Promise<boolean> {
  const timeoutMs = stop.pauseMs + stop.graceMs + STOP_MARGIN_MS;
  const timely = await Promise.race([
    platform.close(how).then(() => true),
    sleep(timeoutMs, false),
  ]);
  if (!timely)
    process.stderr.write(
      `Not everything stopped within ${timeoutMs / 1000} s; the process ends now\n`,
    );
  return timely;
}

/** An error that nobody handled leaves the platform in a state that nobody knows: it is stopped. */
function watchForCrash(): Promise<Error> {
  return new Promise((resolve) => {
    const onError = (reason: unknown): void =>
      resolve(reason instanceof Error ? reason : new Error(String(reason)));
    process.on('uncaughtException', onError);
    process.on('unhandledRejection', onError);
  });
}

const reportCrash = (error: Error): void =>
  void process.stderr.write(
    `An error that nobody handled; this is a bug, please report it. The platform stops.\n${error.stack ?? error.message}\n`,
  );

/* What the operator sees once, when the platform is ready. */

/* The running platform, as far as the command line needs it. */

export type StartedPlatform = Awaited<ReturnType<typeof startPlatform>>;

/**
 * @param seconds how long the start took.
 * @param isTerminal whether a person reads this; elsewhere (a container's log) secrets would be kept by strangers.
 */
export function bannerText(
  platform: StartedPlatform,
  seconds: number,
  { isTerminal }: { isTerminal: boolean },
): string {
  const { addresses, database, dataDir, firstStart } = platform;
  const rows: [string, string][] = [
    ['Client surface', `${addresses.client}   (API: ${addresses.clientDocs})`],
    ['Admin surface', `${addresses.admin}   (API: ${addresses.adminDocs})`],
    ['Realtime', addresses.realtime ?? 'off'],
    ['Database', `PostgreSQL ${database.version}, ${database.kind} (${database.location})`],
    ['Data', dataDir],
    ['Environment', environmentText(platform.environment)],
  ];
  const made: [string, string][] = [];
  if (firstStart.masterKey !== undefined) made.push(['Master key', firstStart.masterKey]);
  if (firstStart.adminPassword !== undefined)
    made.push(['Admin', `${firstStart.adminUsername ?? 'admin'} / ${firstStart.adminPassword}`]);
  const file = join(dataDir, 'secrets.json');
  const printed = `\nMade at the first start, and kept in ${file} (readable only by you):\n${table(made)}\n`;
  const named = `\nMade at the first start: ${made.map(([label]) => label.toLowerCase()).join(' and ')}. Read ${file} (readable only by you).\n`;
  const secrets = made.length === 0 ? '' : isTerminal ? printed : named;
  return `\nPenstock ${version} is ready (${seconds.toFixed(1)} s)\n${table(rows)}\n${secrets}\nStop it with Ctrl-C.\n\n`;
}

/** What was chosen, what it means where others can call, and how to choose otherwise. */
function environmentText({ env, because, host }: StartedPlatform['environment']): string {
  if (env === 'production' && because === 'HOST')
    return `production, as HOST=${host} lets other machines call: API documents need a credential, and first passwords must be changed. NODE_ENV=development or core.env (PATCH /config/core) choose otherwise`;
  if (env !== 'production' && !isLoopback(host))
    return `${env}, and HOST=${host} lets other machines call. Set core.env (PATCH /config/core) to production where they should not read the API documents`;
  return env;
}

function table(rows: readonly [string, string][]): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, value]) => `  ${label.padEnd(width)}  ${value}`).join('\n');
}
