/**
 * The pool of sandbox processes. It begins with the first run and goes when there was none for a while. A run that breaks
 * its bounds loses its isolate; a process that does not answer is killed, and what ran beside is run again where nothing
 * of it can have had an effect. What costs much moves out of the way of the rest (`standing.ts`).
 */
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { Lanes, type PoolSettings } from './lanes.ts';
import {
  type ActiveRun,
  type Check,
  type Pool,
  type PoolEnd,
  type PoolRun,
  publicErrorText,
} from './pool-run.ts';
import type { FromSandbox } from './protocol.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import { type Lane, Standing } from './standing.ts';

/** How long after its time a run may take to end before its process counts as stuck. */
const GRACE_MS = 1_000;
/** Processes go when nothing ran in them for so long. */
const IDLE_MS = 60_000;
/** Costly runs at once that do not wait for the platform. The others stand in line. */
const COSTLY_AT_ONCE = 4;
/** Costly runs in line. Further ones are refused. */
const COSTLY_IN_LINE = 100;
/** How long a run may take to leave the process from which it is moved. */
const LEAVING_MS = 2_000;
/** A run is moved so often at most. */
const MOST_MOVES = 3;

const lost: PoolEnd = { outcome: 'crashed', text: '', logs: [], cpuMs: 0, memoryBytes: 0 };

export function createPool(settings: () => PoolSettings, log: Logger): Pool {
  return new ProcessPool(settings, log);
}

class ProcessPool implements Pool {
  readonly #log: Logger;
  readonly #lanes: Lanes;
  readonly #standing = new Standing();
  readonly #active = new Map<number, ActiveRun>();
  readonly #checks = new Map<number, Check>();
  #line: ActiveRun[] = [];
  #lineTimer: NodeJS.Timeout | undefined;
  #lastId = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(settings: () => PoolSettings, log: Logger) {
    this.#log = log;
    this.#lanes = new Lanes(settings, log, {
      onMessage: (from, message, text) => this.#receive(from, message, text),
      onExit: (from, culprit) => this.#gone(from, culprit),
    });
  }

  run(run: PoolRun): Promise<PoolEnd> {
    return new Promise((resolve) => {
      clearTimeout(this.#idle);
      this.#lastId += 1;
      const active: ActiveRun = {
        ...{ id: this.#lastId, run, resolve, process: undefined },
        ...{ calls: 0, waitingCalls: 0, again: false, moves: 0 },
        overdue: setTimeout(
          () => this.#stuck(active),
          run.deadlineAt - performance.now() + GRACE_MS,
        ),
      };
      this.#active.set(active.id, active);
      run.signal?.addEventListener('abort', () => this.#cancel(active), { once: true });
      if (run.signal?.aborted) this.#finish(active, { ...lost, outcome: 'cancelled' });
      else this.#start(active);
    });
  }

  check(code: string, file: string): ReturnType<Pool['check']> {
    return new Promise((resolve) => {
      this.#lastId += 1;
      const process = this.#lanes.processFor('usual');
      this.#checks.set(this.#lastId, { process, resolve });
      process.send({ t: 'check', id: this.#lastId, file }, code);
    });
  }

  drop(key: string): void {
    for (const process of this.#lanes.all())
      if (process.loaded.delete(key)) process.send({ t: 'drop', key });
  }

  isCrowded(functionId: string): boolean {
    return this.#standing.isCostly(functionId) && this.#line.length >= COSTLY_IN_LINE;
  }

  figures(): ReturnType<Pool['figures']> {
    const pids = (lane: Lane) => this.#lanes.in(lane).flatMap(({ pid }) => pid ?? []);
    const lanes = { usual: pids('usual'), trial: pids('trial'), costly: pids('costly') };
    return { running: this.#active.size, pids: Object.values(lanes).flat(), lanes };
  }

  close(): void {
    clearTimeout(this.#idle);
    clearTimeout(this.#lineTimer);
    this.#lanes.close();
  }

  /* The start of a run: at once, or when its lane has room. */

  #start(active: ActiveRun): void {
    const lane = this.#standing.laneOf(active.run.functionId);
    if (this.#lineTimeOf(lane) === 0) this.#startIn(lane, active);
    else {
      this.#line.push(active);
      this.#serveLine();
    }
  }

  /** Milliseconds until the lane takes a run; `undefined` where that depends on others. */
  #lineTimeOf(lane: Lane): number | undefined {
    if (lane === 'usual') return 0;
    if (lane === 'costly' && this.#costlyNow() >= COSTLY_AT_ONCE) return undefined;
    return Math.max(0, this.#lanes.waitMs(lane));
  }

  #costlyNow(): number {
    let count = 0;
    for (const { process, waitingCalls } of this.#active.values())
      if (process?.lane === 'costly' && waitingCalls === 0) count += 1;
    return count;
  }

  /** Who ran into bounds least goes first. */
  #serveLine(): void {
    if (this.#line.length === 0) return;
    const strikes = ({ run }: ActiveRun): number => this.#standing.strikesOf(run.functionId);
    const waiting = this.#line.filter(({ id }) => this.#active.has(id));
    this.#line = [];
    let soonest = Infinity;
    for (const active of waiting.sort((a, b) => strikes(a) - strikes(b) || a.id - b.id)) {
      const lane = this.#standing.laneOf(active.run.functionId);
      const waitMs = this.#lineTimeOf(lane);
      if (waitMs === 0) this.#startIn(lane, active);
      else this.#line.push(active);
      soonest = Math.min(soonest, waitMs || Infinity);
    }
    clearTimeout(this.#lineTimer);
    if (soonest < Infinity)
      this.#lineTimer = setTimeout(() => this.#serveLine(), Math.ceil(soonest)).unref();
  }

  #startIn(lane: Lane, active: ActiveRun): void {
    const process = this.#lanes.processFor(lane);
    active.process = process;
    process.running += 1;
    if (process.loaded.has(active.run.key)) this.#send(active, process);
    else void this.#load(active, process);
  }

  #send({ id, run }: ActiveRun, process: SandboxProcess): void {
    const leftMs = Math.max(1, run.deadlineAt - performance.now());
    process.send({ t: 'run', id, key: run.key, leftMs, limits: run.limits }, run.input);
  }

  async #load(active: ActiveRun, process: SandboxProcess): Promise<void> {
    const { key, form, file, source } = active.run;
    try {
      const text = JSON.stringify(await source());
      process.loaded.add(key);
      process.send({ t: 'load', key, form, file }, text);
      if (active.process === process && this.#active.has(active.id)) this.#send(active, process);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#finish(active, { ...lost, outcome: 'error', error: { name: 'Error', message } });
    }
  }

  /* What processes say. */

  #receive(from: SandboxProcess, message: FromSandbox, text: string): void {
    if (message.t === 'ready') return;
    if (message.t === 'checked') {
      const check = this.#checks.get(message.id);
      if (check?.process !== from) return;
      this.#checks.delete(message.id);
      check.resolve({ ...message.facts, text });
      return;
    }
    if (message.t === 'end' && from.leaving.has(message.id)) {
      clearTimeout(from.leaving.get(message.id));
      from.leaving.delete(message.id);
    }
    const active = this.#active.get(message.id);
    // A process speaks for the runs that it was given, and for no others.
    if (!active || active.process !== from) return;
    if (message.t === 'call') this.#call(active, from, message, text);
    else if (message.t === 'hog') this.#costsMuch(active, from);
    else if (message.t === 'missing') {
      from.loaded.delete(active.run.key);
      void this.#load(active, from);
    } else if (message.t === 'end') {
      const { t: _t, id: _id, ...end } = message;
      this.#finish(active, { ...end, text });
    }
  }

  #call(
    active: ActiveRun,
    from: SandboxProcess,
    { id, call, name }: Extract<FromSandbox, { t: 'call' }>,
    args: string,
  ): void {
    active.calls += 1;
    active.waitingCalls += 1;
    if (from.lane === 'costly') this.#serveLine();
    active.run
      .call(String(name), args)
      .then(
        (text) => from.send({ t: 'answer', id, call, ok: true }, text),
        (error: unknown) => from.send({ t: 'answer', id, call, ok: false }, publicErrorText(error)),
      )
      .finally(() => {
        active.waitingCalls -= 1;
      });
  }

  /** It goes on among its like. Where it has asked for something already, its whole process does. */
  #costsMuch(active: ActiveRun, from: SandboxProcess): void {
    this.#standing.costsMuch(active.run.functionId);
    if (from.lane === 'costly') return;
    if (!this.#move(active)) this.#lanes.demote(from);
    for (const other of [...this.#active.values()]) {
      const { process, run } = other;
      const mayBeWrong = process === from || process?.lane === 'usual';
      if (mayBeWrong && process.lane !== this.#standing.laneOf(run.functionId)) this.#move(other);
    }
  }

  /** Begins it anew in the lane where it belongs. Not when it has asked for anything: that may have had an effect. */
  #move(active: ActiveRun): boolean {
    const { process, id } = active;
    if (!process || active.calls > 0 || active.moves >= MOST_MOVES) return false;
    active.moves += 1;
    active.process = undefined;
    process.running -= 1;
    process.send({ t: 'cancel', id });
    // V8 cannot always be stopped at once, and holds up its process meanwhile.
    const leaving = setTimeout(() => process.kill(), LEAVING_MS).unref();
    if (process.loaded.has(active.run.key)) process.leaving.set(id, leaving);
    else clearTimeout(leaving);
    this.#start(active);
    return true;
  }

  /* The end of a run. */

  #cancel(active: ActiveRun): void {
    if (!this.#active.has(active.id)) return;
    active.process?.send({ t: 'cancel', id: active.id });
    if (!active.process) this.#finish(active, { ...lost, outcome: 'cancelled' });
  }

  #stuck(active: ActiveRun): void {
    if (active.process) {
      this.#log.warn(
        { function: active.run.file },
        'A sandbox process does not answer and is killed',
      );
      active.process.kill();
    }
    this.#finish(active, { ...lost, outcome: 'timeout' });
  }

  #gone(process: SandboxProcess, culprit: number | undefined): void {
    for (const [id, check] of this.#checks) {
      if (check.process !== process) continue;
      this.#checks.delete(id);
      const error = { name: 'Error', message: 'The code could not be examined' };
      check.resolve({ form: 'body', language: 'javascript', packages: [], error, text: '' });
    }
    for (const active of [...this.#active.values()])
      if (active.process === process) this.#survive(active, process, culprit);
    this.#serveLine();
  }

  /** Begins it anew where its process died of another one, or may have: then once. */
  #survive(active: ActiveRun, { lane }: SandboxProcess, culprit: number | undefined): void {
    const isSuspect = culprit === undefined && (active.again || lane === 'costly');
    const isGuilty = isSuspect || culprit === active.id;
    if (isGuilty) this.#standing.ended(active.run.functionId, 'crashed');
    if (isGuilty || active.calls > 0 || active.moves >= MOST_MOVES || this.#lanes.closed) {
      this.#finish(active, lost);
      return;
    }
    active.again = true;
    active.moves += 1;
    active.process = undefined;
    this.#start(active);
  }

  #finish(active: ActiveRun, end: PoolEnd): void {
    if (!this.#active.delete(active.id)) return;
    clearTimeout(active.overdue);
    const { process, run } = active;
    if (process) {
      process.running -= 1;
      if (end.outcome !== 'crashed') this.#standing.ended(run.functionId, end.outcome);
    }
    active.resolve(end);
    if (this.#line.length > 0) this.#serveLine();
    if (this.#active.size > 0) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#lanes.endIdle(), IDLE_MS);
    this.#idle.unref();
  }
}
