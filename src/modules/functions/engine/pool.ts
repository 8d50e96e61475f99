/**
 * The pool: runs in sandbox processes. A run that breaks its bounds loses its isolate; a process that does not answer is
 * killed, and what ran beside is run again where nothing of it can have had an effect. Which process a run gets is the
 * business of `SandboxProcesses`.
 */
import type { StartProgram } from '../../../kernel/child-programs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { createTurnGate, createTurnQueue } from '../../../kernel/time-slices.ts';
import { Line } from './line.ts';
import { Overdue } from './overdue.ts';
import { type CheckedText, PoolChecks } from './pool-checks.ts';
import {
  type Active,
  endsOfCode,
  errorText,
  isOffence,
  isOfProtocol,
  isOutOfTime,
  isWaiting,
  lost,
  mayRunAgain,
  newActive,
  notLoaded,
  type Pool,
  type PoolEnd,
  type PoolRun,
} from './pool-runs.ts';
import { type PoolSettings, SandboxProcesses } from './processes.ts';
import type { FromSandbox, LogLine } from './protocol.ts';
import { type SandboxProcess, SandboxUnavailable } from './sandbox-process.ts';

export type { Pool, PoolEnd, PoolRun } from './pool-runs.ts';

/** How long a run waits for a process where the system has none, and between two tries. */
const PATIENCE_MS = 1_000;
const AGAIN_MS = 250;
/** Lines that a process is believed while a run goes on; it bounds them itself. */
const MAX_LINES = 100_000;

export function createPool(
  startProgram: StartProgram,
  log: Logger,
  settings: () => PoolSettings,
): Pool {
  return new ProcessPool({ startProgram, log, settings });
}

class ProcessPool implements Pool {
  readonly #log: Logger;
  readonly #processes: SandboxProcesses;
  readonly #active = new Map<number, Active>();
  readonly #checks: PoolChecks;
  readonly #waiting = new Set<Active>();
  readonly #line: Line;
  readonly #overdue: Overdue;
  readonly #tellInTurn = createTurnQueue();
  readonly #beginInTurn = createTurnGate();
  #weighing: NodeJS.Immediate | undefined;
  #lastId = 0;

  constructor(parts: {
    readonly startProgram: StartProgram;
    readonly log: Logger;
    readonly settings: () => PoolSettings;
  }) {
    this.#log = parts.log;
    this.#processes = new SandboxProcesses({
      ...parts,
      onMessage: (from, message, text) => this.#receive(from, message, text),
      onExit: (from) => this.#gone(from),
      runs: () => this.#active.values(),
      line: this.#waiting,
    });
    this.#checks = new PoolChecks({ ...parts, take: () => this.#processes.take('') });
    this.#overdue = new Overdue({
      ...{ log: this.#log, processes: this.#processes },
      finish: (active, end) => this.#finish(active, end),
    });
    this.#line = new Line({
      ...{ waiting: this.#waiting, processes: this.#processes },
      begin: (active) => this.#begin(active),
      beginLater: (active, waitMs) => this.#startLater(active, waitMs),
    });
  }

  turn(key: string): Promise<void> | undefined {
    return this.#processes.behaves(key) ? undefined : this.#beginInTurn();
  }

  run(run: PoolRun): Promise<PoolEnd> {
    return new Promise((resolve) => {
      this.#lastId += 1;
      const cancel = (): void => this.#cancel(active);
      const active: Active = newActive({ id: this.#lastId, run, resolve, cancel });
      this.#active.set(active.id, active);
      run.signal?.addEventListener('abort', active.cancel, { once: true });
      if (run.signal?.aborted) this.#finish(active, { ...lost, outcome: 'cancelled' });
      else this.#start(active);
    });
  }

  async check(code: string, file: string): Promise<CheckedText> {
    this.#lastId += 1;
    return this.#checks.begin(this.#lastId, { code, file });
  }

  drop(key: string): void {
    this.#processes.drop(key);
  }

  figures(): ReturnType<Pool['figures']> {
    const { pids } = this.#processes;
    return {
      processes: pids.length,
      running: this.#active.size,
      waiting: this.#waiting.size,
      pids,
    };
  }

  close(): void {
    this.#processes.close();
  }

  #start(active: Active): void {
    const { run } = active;
    const waitMs = this.#processes.waitMs(run.key);
    this.#overdue.watch(active);
    if (waitMs > 0) {
      this.#startLater(active, waitMs);
      return;
    }
    this.#line.take(active);
  }

  #begin(active: Active): void {
    const { run } = active;
    const process = this.#processFor(active);
    if (!process) return;
    active.process = process;
    active.rests = undefined;
    active.isUnknown = !this.#behaves(active);
    process.running += 1;
    this.#weigh();
    if (process.loaded.has(run.key)) this.#send(active, process);
    else void this.#load(active, process);
  }

  #startLater(active: Active, waitMs: number): void {
    setTimeout(() => this.#active.has(active.id) && this.#start(active), waitMs).unref();
  }

  #processFor(active: Active): SandboxProcess | undefined {
    try {
      return this.#processes.take(active.run.key);
    } catch (error) {
      if (!(error instanceof SandboxUnavailable)) throw error;
      this.#waitForProcess(active);
      return undefined;
    }
  }

  /** Where the system has no process, the run waits a moment for one, and then ends without having begun. */
  #waitForProcess(active: Active): void {
    const now = performance.now();
    active.patientUntil ??= now + PATIENCE_MS;
    if (now < active.patientUntil && !this.#processes.closed) this.#startLater(active, AGAIN_MS);
    else this.#finish(active, { ...lost, outcome: 'unavailable' });
  }

  /** Once for all that begin and end in one turn of the event loop: it looks at every run. */
  #weigh(): void {
    if (this.#weighing || !this.#processes.areSlow) return;
    this.#weighing = setImmediate(() => {
      this.#weighing = undefined;
      this.#processes.weigh();
    });
  }

  #send({ id, run }: Active, process: SandboxProcess): void {
    const leftMs = Math.max(1, run.deadlineAt - performance.now());
    process.send({ t: 'run', id, key: run.key, leftMs, limits: run.limits }, run.input);
  }

  async #load(active: Active, process: SandboxProcess): Promise<void> {
    const { key, form, file, source } = active.run;
    try {
      const text = JSON.stringify(await source());
      process.loaded.add(key);
      process.send({ t: 'load', key, form, file }, text);
      if (active.process === process && this.#active.has(active.id)) this.#send(active, process);
    } catch (error) {
      this.#finish(active, notLoaded(error));
    }
  }

  #receive(from: SandboxProcess, message: FromSandbox, text: string): void {
    if (message.t === 'ready') {
      this.#processes.weigh();
      return;
    }
    if (message.t === 'worn') {
      this.#processes.retire(from);
      this.#checks.leave(from);
      return;
    }
    if (message.t === 'checked') {
      this.#checks.receive(from, message.id, { ...message.facts, text });
      this.#restIfIdle();
      return;
    }
    const active = this.#active.get(message.id);
    // A process speaks for the runs that it was given, and for no others.
    if (!active || active.process !== from) return;
    if (!isOfProtocol(message)) {
      this.#log.error({ function: active.run.file }, 'A sandbox process says what makes no sense');
      from.kill();
      return;
    }
    if (message.t === 'call') this.#call(active, from, message, text);
    else if (message.t === 'lines') this.#lines(active, message.lines);
    else if (message.t === 'hog') {
      this.#processes.slowDown(active.run.key, from);
      this.#weigh();
      this.#line.serve();
    } else if (message.t === 'rest') {
      this.#changeWait(active, from, () => {
        active.rests = message.rests;
      });
    } else if (message.t === 'missing') {
      from.loaded.delete(active.run.key);
      void this.#load(active, from);
    } else if (message.t === 'end') {
      const { t: _t, id: _id, ...end } = message;
      if (endsOfCode.has(end.outcome)) this.#processes.proved(active.run.key, end.cpuMs);
      this.#finish(active, { ...end, text });
    }
  }

  #lines(active: Active, lines: readonly LogLine[]): void {
    if (active.lines.length > MAX_LINES) return;
    active.lines = [...active.lines, ...lines];
    active.run.onLines?.(lines);
  }

  #call(
    active: Active,
    from: SandboxProcess,
    { id, call, name }: Extract<FromSandbox, { t: 'call' }>,
    args: string,
  ): void {
    active.calls += 1;
    this.#changeWait(active, from, () => {
      active.openCalls += 1;
    });
    const answer = (ok: boolean, text: string): void => {
      // What has ended waits for nothing.
      if (this.#active.has(active.id))
        this.#changeWait(active, from, () => {
          active.openCalls -= 1;
        });
      const again = ok && (active.run.mayBeginAgain?.() ?? false);
      from.send({ t: 'answer', id, call, ok, again }, text);
    };
    active.run.call(name, args).then(
      (text) => answer(true, text),
      (error: unknown) => {
        // It ended with the time of the run: that is what the run ends with, whoever is told of it first.
        if (!isOutOfTime(error, active.run)) answer(false, errorText(error));
      },
    );
  }

  #cancel(active: Active): void {
    if (!this.#active.has(active.id)) return;
    active.process?.send({ t: 'cancel', id: active.id });
    if (!active.process) this.#finish(active, { ...lost, outcome: 'cancelled' });
  }

  #gone(process: SandboxProcess): void {
    this.#checks.gone(process);
    if (process.slow) this.#processes.weigh();
    for (const active of [...this.#active.values()]) {
      if (active.process !== process) continue;
      if (process.isUnavailable) {
        active.process = undefined;
        this.#waitForProcess(active);
      } else if (!this.#processes.closed && mayRunAgain(active, process, this.#behaves(active))) {
        active.again = true;
        active.lines = [];
        active.process = undefined;
        void this.#startAgain(active);
      } else this.#finish(active, { ...lost, logs: active.lines });
    }
  }

  async #startAgain(active: Active): Promise<void> {
    await this.#beginInTurn();
    if (this.#active.has(active.id)) this.#start(active);
  }

  /** Texts that are only checked start a process too. */
  #restIfIdle(): void {
    if (this.#active.size === 0 && this.#checks.size === 0) this.#processes.rest();
  }

  #finish(active: Active, end: PoolEnd): void {
    if (!this.#active.delete(active.id)) return;
    // Signals outlive runs: one of a queue is the same for all that it ever begins.
    active.run.signal?.removeEventListener('abort', active.cancel);
    clearTimeout(active.overdue);
    this.#waiting.delete(active);
    const { process } = active;
    if (process) {
      process.running -= 1;
      if (isWaiting(active)) process.waiting -= 1;
      const isExcused = this.#processes.isInTurns(process) || this.#behaves(active);
      if (isOffence(end, active, process, isExcused)) this.#processes.offended(active.run.key);
    }
    // A hundred that began together are ended together, and each end is an answer, a record and lines of the log.
    if (endsOfCode.has(end.outcome)) active.resolve(end);
    else this.#tellInTurn(() => active.resolve(end));
    this.#weigh();
    if (process) {
      this.#processes.endIfRetired(process);
      this.#leavesRoom(active, process);
    }
    this.#restIfIdle();
  }

  #behaves({ run }: Active): boolean {
    return this.#processes.behaves(run.key);
  }

  /** Whoever waits leaves room to others. */
  #changeWait(active: Active, process: SandboxProcess, change: () => void): void {
    const before = isWaiting(active);
    change();
    const after = isWaiting(active);
    if (before === after) return;
    process.waiting += after ? 1 : -1;
    if (after) this.#leavesRoom(active, process);
    else if (process.slow) this.#weigh();
  }

  #leavesRoom({ isUnknown }: Active, process: SandboxProcess): void {
    if (isUnknown || process.slow) this.#line.serve();
  }
}
