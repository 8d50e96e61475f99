/** The functions that a sandbox process knows, their sandboxes, and which run gets which. */
import { MAX_RUNS } from '../protocol.ts';
import type { CompileCache, Source } from './compile.ts';
import { Sandbox } from './sandbox.ts';

export interface WaitingRun {
  readonly id: number;
  readonly memoryMb: number;
  /** The sandbox is this run's own until `release`. What loading the code costs is the run's too. */
  begin(sandbox: Sandbox, loaded: Promise<void> | undefined): void;
  /** The same on this thread; false where that took too long, and the run has to begin again. */
  beginNow(sandbox: Sandbox): boolean;
}

interface Program {
  readonly key: string;
  readonly source: Source;
  readonly cache: CompileCache;
  readonly free: Sandbox[];
  readonly queue: WaitingRun[];
  busy: number;
  /** Runs in a row that needed little; below zero after one that was ended on this thread. */
  quickRuns: number;
  /** Quick runs that it needs after it has taken too long once more. */
  runsAfterTooLong: number;
  isServing: boolean;
  /** Nobody asks for it any more: it goes with the last of its runs. */
  isGone: boolean;
  timer: NodeJS.Timeout | undefined;
}

/** Texts that one process keeps. */
const MAX_PROGRAMS = 500;
/** Of all their texts, packages included. */
const MAX_CHARACTERS = 100_000_000;
/** Another sandbox is made when a run has waited for so long; most runs are over by then. */
const PATIENCE_MS = 3;
/** A sandbox without work is given up after so long. */
const IDLE_MS = 30_000;
/**
 * What needs little runs on the thread of the process itself, which saves two changes of threads: after so many runs in a
 * row of at most so many milliseconds of processor time. Who took too long there has to show it for longer, twice as long
 * each time: once in a while that happens to anybody on a full machine.
 */
const QUICK_RUNS = 10;
const QUICK_MS = 3;
const RUNS_AFTER_TOO_LONG = 100;
const MAX_RUNS_AFTER = 100_000;
/** Of processor time that a sandbox may use while it has no work; V8 itself collects garbage. */
const RESTLESS_MS = 40;

export class Programs {
  readonly #programs = new Map<string, Program>();
  #sandboxes = 0;
  #characters = 0;

  constructor() {
    setInterval(() => this.#giveUpIdle(), 5_000).unref();
    setInterval(() => this.#endRestless(), 200).unref();
  }

  load(key: string, source: Source): void {
    const there = this.#programs.get(key);
    if (there) {
      there.isGone = false;
      return;
    }
    this.#programs.set(key, {
      key,
      source,
      cache: {},
      free: [],
      queue: [],
      busy: 0,
      quickRuns: 0,
      runsAfterTooLong: RUNS_AFTER_TOO_LONG,
      isServing: false,
      isGone: false,
      timer: undefined,
    });
    this.#characters += charactersOf(source);
    this.#forgetBeyond(key);
  }

  /** Runs that have it keep it, and those that wait for it get it. */
  drop(key: string): void {
    const program = this.#programs.get(key);
    if (!program) return;
    program.isGone = true;
    if (program.busy > 0 || program.queue.length > 0) return;
    this.#programs.delete(key);
    this.#characters -= charactersOf(program.source);
    for (const sandbox of program.free.splice(0)) this.#end(sandbox);
  }

  /** Nothing where the function is not known, or not any more. */
  sourceOf(key: string): Source | undefined {
    return this.#programs.get(key)?.source;
  }

  start(key: string, run: WaitingRun): void {
    const program = this.#programs.get(key);
    if (!program) throw new Error('This function is not loaded');
    program.queue.push(run);
    this.#serve(program, false);
  }

  /** Takes a run out of the line; false when it has begun. */
  withdraw(key: string, id: number): boolean {
    const queue = this.#programs.get(key)?.queue ?? [];
    const at = queue.findIndex((run) => run.id === id);
    if (at >= 0) queue.splice(at, 1);
    return at >= 0;
  }

  /** Gives a sandbox back; `fit`: nothing has happened to it that the next run must not find. */
  release(key: string, sandbox: Sandbox, fit: boolean, usedMs = 0): void {
    const program = this.#programs.get(key);
    if (program) program.busy -= 1;
    if (program) this.#count(program, fit && usedMs <= QUICK_MS);
    if (!fit || !program || sandbox.isolate.isDisposed) this.#end(sandbox);
    else {
      sandbox.events = undefined;
      sandbox.freeSince = performance.now();
      sandbox.cpuWhenFree = sandbox.cpuMs;
      program.free.push(sandbox);
    }
    if (program) this.#serve(program, false);
    if (program?.isGone) this.drop(key);
    for (const other of this.#programs.values())
      if (other !== program && other.queue.length > 0) this.#serve(other, false);
  }

  #count(program: Program, isQuick: boolean): void {
    if (isQuick) program.quickRuns += 1;
    else program.quickRuns = Math.min(0, program.quickRuns);
  }

  /** What runs on this thread ends within, and gives its sandbox back: that serves nobody then, this loop goes on. */
  #serveFree(program: Program): void {
    program.isServing = true;
    while (program.queue.length > 0) {
      const sandbox = program.free.pop();
      if (!sandbox) break;
      const run = program.queue.shift() as WaitingRun;
      program.busy += 1;
      if (program.quickRuns < QUICK_RUNS) run.begin(sandbox, undefined);
      else if (!run.beginNow(sandbox)) this.#tookTooLong(program, run, sandbox);
    }
    program.isServing = false;
  }

  /** A run has to begin again, of which a part took too long on this thread. */
  beginAgain(key: string, run: WaitingRun, sandbox: Sandbox): void {
    const program = this.#programs.get(key);
    if (!program) throw new Error('This function is not loaded');
    this.#tookTooLong(program, run, sandbox);
    this.#serve(program, false);
  }

  #tookTooLong(program: Program, run: WaitingRun, sandbox: Sandbox): void {
    program.busy -= 1;
    program.quickRuns = QUICK_RUNS - program.runsAfterTooLong;
    program.runsAfterTooLong = Math.min(MAX_RUNS_AFTER, program.runsAfterTooLong * 2);
    this.#end(sandbox);
    program.queue.unshift(run);
  }

  #serve(program: Program, impatient: boolean): void {
    if (program.isServing) return;
    this.#serveFree(program);
    if (program.queue.length === 0) return;
    if (program.busy === 0 || impatient) this.#make(program);
    if (program.queue.length === 0 || program.timer) return;
    program.timer = setTimeout(() => {
      program.timer = undefined;
      this.#serve(program, true);
    }, PATIENCE_MS);
  }

  #make(program: Program): void {
    if (this.#sandboxes >= MAX_RUNS && !this.#evict()) return;
    const run = program.queue.shift();
    if (!run) return;
    this.#sandboxes += 1;
    program.busy += 1;
    const sandbox = new Sandbox(run.memoryMb);
    run.begin(sandbox, sandbox.load(program.source, program.cache));
  }

  #end(sandbox: Sandbox): void {
    this.#sandboxes -= 1;
    sandbox.dispose();
  }

  /** Makes room; the sandbox that was free longest goes. */
  #evict(): boolean {
    let oldest: { program: Program; sandbox: Sandbox } | undefined;
    for (const program of this.#programs.values()) {
      const [sandbox] = program.free;
      if (sandbox && (!oldest || sandbox.freeSince < oldest.sandbox.freeSince))
        oldest = { program, sandbox };
    }
    if (!oldest) return false;
    oldest.program.free.shift();
    this.#end(oldest.sandbox);
    return true;
  }

  #giveUpIdle(): void {
    const before = performance.now() - IDLE_MS;
    for (const program of this.#programs.values())
      while (program.free[0] && program.free[0].freeSince < before)
        this.#end(program.free.shift() as Sandbox);
  }

  /** Code that goes on although nobody has called it. */
  #endRestless(): void {
    for (const { free } of this.#programs.values())
      for (const sandbox of [...free])
        if (sandbox.cpuMs - sandbox.cpuWhenFree > RESTLESS_MS) {
          free.splice(free.indexOf(sandbox), 1);
          this.#end(sandbox);
        }
  }

  /** Those that were loaded first go, unless they run; the newest stays. */
  #forgetBeyond(newest: string): void {
    for (const { key, busy, queue } of this.#programs.values()) {
      if (this.#programs.size <= MAX_PROGRAMS && this.#characters <= MAX_CHARACTERS) return;
      if (busy === 0 && queue.length === 0 && key !== newest) this.drop(key);
    }
  }
}

const charactersOf = ({ code, packages }: Source): number =>
  Object.values(packages).reduce((sum, text) => sum + text.length, code.length);
