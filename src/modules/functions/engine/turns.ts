/**
 * Turns: what hostile code gets of the processor while there is much of it. A process that may run whenever a processor
 * is free holds it for milliseconds, and whoever is woken meanwhile waits. So such processes are stopped, and go on for a
 * moment now and then. A stopped process does not notice that the platform is gone: a watcher ends it then.
 */
import type { RunningProgram, StartProgram } from '../../../kernel/child-programs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** Milliseconds of one turn, and from its end to the next. */
const TURN_MS = 4;
const REST_MS = 500;
/** Milliseconds until a watcher is tried again where there was none. */
const WITHOUT_WATCHER_MS = 60_000;

/** Each line is all that it has to end when its input ends. */
const watcherScript = 'while read -r pids; do last=$pids; done; [ -z "$last" ] || kill -9 $last';

interface TurnsParts {
  readonly log: Logger;
  readonly startProgram: StartProgram;
  /** There is a watcher now: who was asked to run in turns can. */
  onWatcher(): void;
}

export class Turns {
  readonly #parts: TurnsParts;
  readonly #inTurns = new Set<SandboxProcess>();
  #watcher: RunningProgram | undefined;
  #isStarting = false;
  #isClosed = false;
  #withoutWatcherUntil = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: TurnsParts) {
    this.#parts = parts;
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
    this.#isClosed = true;
    this.#stop();
    this.#inTurns.clear();
    this.#tellWatcher();
    this.#watcher?.socket.end();
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
    this.#watcher?.socket.write(`${pids.join(' ')}\n`);
  }

  /** False while nothing could end the processes after us: they are not stopped then. */
  #watch(): boolean {
    if (this.#watcher) return true;
    const isLate = performance.now() >= this.#withoutWatcherUntil;
    if (process.platform !== 'win32' && isLate && !this.#isStarting && !this.#isClosed) {
      this.#isStarting = true;
      void this.#startWatcher().finally(() => {
        this.#isStarting = false;
      });
    }
    return false;
  }

  async #startWatcher(): Promise<void> {
    try {
      const args = ['-c', watcherScript];
      const watcher = await this.#parts.startProgram({ program: '/bin/sh', args, channel: 0 });
      watcher.unref();
      watcher.socket.on('error', () => this.#lost(watcher));
      void watcher.ended.then(() => this.#lost(watcher));
      if (this.#isClosed) watcher.socket.end();
      else this.#watcher = watcher;
    } catch {
      this.#withoutWatcherUntil = performance.now() + WITHOUT_WATCHER_MS;
    }
    if (this.#watcher) this.#parts.onWatcher();
  }

  #lost(watcher: RunningProgram): void {
    this.#withoutWatcherUntil = performance.now() + WITHOUT_WATCHER_MS;
    if (this.#watcher !== watcher) return;
    this.#watcher = undefined;
    this.#parts.log.warn(
      {},
      'Costly functions cannot be run in turns: the process that watches them ended',
    );
    this.#stop();
    for (const one of this.#inTurns) one.resume();
    this.#inTurns.clear();
  }
}
