/**
 * Turns: what hostile code gets of the processor while there is much of it. A process that may run whenever a processor
 * is free holds it for milliseconds, and whoever is woken meanwhile waits. So such processes are stopped, and go on for a
 * moment now and then. A stopped process does not notice that the platform is gone: a watcher ends it then.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** Milliseconds of one turn, and from its end to the next. */
const TURN_MS = 4;
const REST_MS = 500;
/** Milliseconds until a watcher is tried again where there was none. */
const WITHOUT_WATCHER_MS = 60_000;

/** Each line is all that it has to end when its input ends. */
const watcherScript = 'while read -r pids; do last=$pids; done; [ -z "$last" ] || kill -9 $last';

export class Turns {
  readonly #log: Logger;
  readonly #inTurns = new Set<SandboxProcess>();
  #watcher: ChildProcess | undefined;
  #withoutWatcherUntil = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  has(process: SandboxProcess): boolean {
    return this.#inTurns.has(process);
  }

  /** From now on these run in turns, and no others. */
  give(processes: readonly SandboxProcess[]): void {
    const next = new Set(processes);
    const added = processes.filter((one) => !this.#inTurns.has(one));
    const removed = [...this.#inTurns].filter((one) => !next.has(one));
    if (added.length + removed.length === 0 || (added.length > 0 && !this.#watch())) return;
    for (const one of removed) {
      this.#inTurns.delete(one);
      one.resume();
    }
    for (const one of added) this.#inTurns.add(one);
    this.#tellWatcher();
    for (const one of added) one.pause();
    if (this.#inTurns.size === 0) this.#stop();
    else this.#timer ??= this.#after(REST_MS, () => this.#turn());
  }

  close(): void {
    this.#stop();
    this.#inTurns.clear();
    this.#tellWatcher();
    this.#watcher?.stdin?.end();
    this.#watcher = undefined;
  }

  #turn(): void {
    for (const one of this.#inTurns) one.resume();
    this.#timer = this.#after(TURN_MS, () => {
      for (const one of this.#inTurns) one.pause();
      this.#timer = this.#after(REST_MS, () => this.#turn());
    });
  }

  #after(milliseconds: number, work: () => void): NodeJS.Timeout {
    const timer = setTimeout(work, milliseconds);
    return timer.unref();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #tellWatcher(): void {
    const pids = [...this.#inTurns].flatMap(({ pid }) => pid ?? []);
    this.#watcher?.stdin?.write(`${pids.join(' ')}\n`);
  }

  /** False where nothing could end the processes after us: they are not stopped then. */
  #watch(): boolean {
    if (this.#watcher) return true;
    if (process.platform === 'win32' || performance.now() < this.#withoutWatcherUntil) return false;
    try {
      const watcher = spawn('/bin/sh', ['-c', watcherScript], {
        ...{ env: {}, cwd: '/', stdio: ['pipe', 'ignore', 'ignore'], detached: true },
      });
      watcher.once('error', () => this.#lost(watcher)).once('exit', () => this.#lost(watcher));
      if (watcher.pid === undefined) return false;
      watcher.stdin?.on('error', () => this.#lost(watcher));
      watcher.unref();
      (watcher.stdin as unknown as { unref(): void }).unref();
      this.#watcher = watcher;
      return true;
    } catch {
      this.#withoutWatcherUntil = performance.now() + WITHOUT_WATCHER_MS;
      return false;
    }
  }

  #lost(watcher: ChildProcess): void {
    this.#withoutWatcherUntil = performance.now() + WITHOUT_WATCHER_MS;
    if (this.#watcher !== watcher) return;
    this.#watcher = undefined;
    this.#log.warn(
      {},
      'Costly functions cannot be run in turns: the process that watches them ended',
    );
    this.#stop();
    for (const one of this.#inTurns) one.resume();
    this.#inTurns.clear();
  }
}
