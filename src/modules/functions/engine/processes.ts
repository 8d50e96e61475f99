/**
 * The processes of the pool: which of them a function runs in, and how long they live. Functions that cost much are
 * together in processes of their own, so that the others do not wait behind them.
 */
import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { COSTLY_FOR_MS, KnownFunctions } from './known-functions.ts';
import {
  SandboxProcess,
  type SandboxProcessOptions,
  SandboxUnavailable,
} from './sandbox-process.ts';
import { Turns } from './turns.ts';

export interface PoolSettings {
  readonly processes: number;
  /** Megabytes of one process. */
  readonly processMegabytes: number;
  /** Milliseconds after which processes go when nothing ran in them, all but one; a minute unless given. */
  readonly idleMs?: number;
  /** Milliseconds after which that one goes too; ten minutes unless given. */
  readonly lastIdleMs?: number;
}

const IDLE_MS = 60_000;
/** To begin one takes 0.2 s, for which a function that is called every few minutes would wait each time. */
const LAST_IDLE_MS = 600_000;
/** Slow processes at once; the oldest gives way. */
const MAX_SLOW = 2;
/**
 * Between two starts of processes for these, twice as long each time, up to so long: they may end them as fast as they
 * begin, and a start takes 0.2 s of a processor.
 */
const COSTLY_START_MS = 3_000;
const MAX_COSTLY_START_MS = 24_000;
/** How often it is asked whether a killed process is gone. */
const DYING_MS = 50;
/** Runs of costly functions at once that do not wait for a call of theirs; more wait in line. */
const MAX_COSTLY_RUNS = 8;
/** Of more than so many, the processor is shared as little as can be. */
const FEW_COSTLY_RUNS = 3;
/**
 * More than so many are a flood, and more than so many of functions of which no run has ended by itself: while the
 * platform is busy, they run in turns before one of them had to be ended.
 */
const FLOOD = 24;
const STRANGERS = 8;
/**
 * How often processes are looked at in which more strangers compute than that, for how long these must have computed, and
 * what all of them must have used since, in milliseconds: beside something for each of them, because making an isolate
 * and loading the code takes 5 to 10 ms of whoever runs for the first time.
 */
const LOOK_MS = 25;
const STRANGE_MS = 300;
const STRANGERS_MS = 100;
const FIRST_RUN_MS = 15;
/**
 * Part of its time that the platform works when it counts as busy, how often it is looked at while there is a flood, and
 * how long it counts as busy from then on. Whoever begins to read waits behind a flood until the next look.
 */
const BUSY = 0.3;
const REVIEW_MS = 5;
const BUSY_FOR_MS = 1_000;
/** Milliseconds until a process is tried again after the system had none. */
const NO_START_MS = 200;

interface ProcessesParts
  extends Pick<SandboxProcessOptions, 'onMessage' | 'onExit' | 'startProgram'> {
  readonly settings: () => PoolSettings;
  readonly log: Logger;
  /** Keys of runs in a process that have waited for no call of theirs for so many milliseconds. */
  computingIn(process: SandboxProcess, forMs: number): readonly string[];
  /** Keys of runs in slow processes, or in line. */
  costlyKeys(): readonly string[];
}

export class SandboxProcesses {
  readonly #parts: ProcessesParts;
  readonly #all = new Set<SandboxProcess>();
  readonly #known = new KnownFunctions();
  readonly #turns: Turns;
  #nextCostlyStart = Number.NEGATIVE_INFINITY;
  #costlyPauseMs = COSTLY_START_MS;
  #nextStart = 0;
  #idle: NodeJS.Timeout | undefined;
  #review: NodeJS.Timeout | undefined;
  #look: NodeJS.Timeout | undefined;
  #loopBefore: EventLoopUtilization | undefined;
  #busyUntil = 0;
  #closed = false;

  constructor(parts: ProcessesParts) {
    this.#parts = parts;
    const { log, startProgram, costlyKeys } = parts;
    this.#turns = new Turns({ log, startProgram, onWatcher: () => this.weigh(costlyKeys) });
  }

  get closed(): boolean {
    return this.#closed;
  }

  get pids(): readonly number[] {
    return [...this.#all].flatMap(({ pid }) => pid ?? []);
  }

  /** Costly functions have a process. */
  get areSlow(): boolean {
    for (const { slow, ended } of this.#all) if (slow && !ended) return true;
    return false;
  }

  /** Milliseconds until a function that costs much may have a new process, where it needs one. */
  waitMs(key: string): number {
    if (!this.#known.isCostly(key) || this.areSlow) return 0;
    const untilStart = this.#nextCostlyStart - performance.now();
    return this.#isSlowDying() ? Math.max(DYING_MS, untilStart) : untilStart;
  }

  /**
   * One was killed, and the system still takes its memory apart, which may hold a processor for 80 ms without a break. The
   * start of another one would hold the other processor of a small machine meanwhile, and nobody would be answered.
   */
  #isSlowDying(): boolean {
    for (const { slow, ended } of this.#all) if (slow && ended) return true;
    return false;
  }

  /** The process in which a function runs next. Throws `SandboxUnavailable`. */
  take(key: string): SandboxProcess {
    clearTimeout(this.#idle);
    if (!this.#known.isProven(key)) this.#lookAtStrangers();
    const isCostly = this.#known.isCostly(key);
    const fitting = [...this.#all].filter(({ slow, ended }) => slow === isCostly && !ended);
    const [first, ...others] = fitting.sort((a, b) => a.running - b.running);
    const most = isCostly ? 1 : this.#parts.settings().processes;
    if (first && (first.running === 0 || 1 + others.length >= most)) return first;
    const made = this.#spawnOr(first);
    if (made === first) return made;
    if (isCostly) {
      made.slowDown();
      this.#countCostlyStart();
    }
    return made;
  }

  /** Who ends its process again and again waits longer each time; after a minute without it is forgotten. */
  #countCostlyStart(): void {
    const now = performance.now();
    const isAgain = now - this.#nextCostlyStart < COSTLY_FOR_MS;
    this.#costlyPauseMs = isAgain
      ? Math.min(MAX_COSTLY_START_MS, this.#costlyPauseMs * 2)
      : COSTLY_START_MS;
    this.#nextCostlyStart = now + this.#costlyPauseMs;
  }

  /** Too many costly functions run: this one, if it is one, has to wait for the end of another run. */
  isFull(key: string): boolean {
    return this.#known.isCostly(key) && this.#costlyRuns() >= MAX_COSTLY_RUNS;
  }

  /** How often runs of it had to be ended lately: who waits with the fewest goes first. */
  offences(key: string): number {
    return this.#known.offences(key);
  }

  /** A function turned out to cost much: the process is left to it and its like. */
  slowDown(key: string, process: SandboxProcess): void {
    this.#known.costs(key);
    if (process.slow) return;
    process.slowDown();
    const slow = [...this.#all].filter(({ slow, ended }) => slow && !ended);
    if (slow.length > MAX_SLOW) slow.sort((a, b) => a.startedAt - b.startedAt)[0]?.kill();
  }

  /** A run of it has ended by itself. */
  proved(key: string, cpuMs: number): void {
    this.#known.proved(key, cpuMs);
  }

  /** Runs of it have ended by themselves, and none has cost much lately. */
  behaves(key: string): boolean {
    return this.#known.isProven(key) && !this.#known.isCostly(key);
  }

  /** A run had to be ended, or its process has died. */
  offended(key: string): void {
    this.#known.costs(key, 1);
  }

  /**
   * A run has begun or ended: many costly ones get less of the processor, all together. Where one of them had to be ended
   * lately, they run in turns. `keys`: of those that run in slow processes or wait in line.
   */
  weigh(keys: () => Iterable<string>): void {
    const slow = [...this.#all].filter((one) => one.slow && !one.ended);
    if (slow.length === 0) return;
    const runs = this.#costlyRuns();
    const isCrowded = runs > FEW_COSTLY_RUNS;
    const isKnown = isCrowded && this.#hasOffender(keys());
    const isFlood = runs > FLOOD || (runs > STRANGERS && this.#strangers(keys()) > STRANGERS);
    if (isFlood && !isKnown) this.#reviewLater(keys);
    const isBusy = performance.now() < this.#busyUntil;
    const areInTurns = isKnown || (isFlood && isBusy);
    // In turns they have little, and get that: on a full machine they would not go on at all otherwise.
    for (const process of slow) process.crowd(isCrowded && !areInTurns);
    // A process that begins is let begin: a thousand turns would be too few.
    this.#turns.give(areInTurns ? slow.filter(({ isReady }) => isReady) : []);
  }

  /** A process that many strangers keep busy has no time to tell of them: it is looked at from outside. */
  #lookAtStrangers(): void {
    this.#look ??= setInterval(() => {
      const crowded = [...this.#all].filter(
        ({ slow, ended, running, waiting }) => !slow && !ended && running - waiting > STRANGERS,
      );
      for (const process of crowded) this.#judgeStrangers(process);
      if (crowded.length > 0) return;
      clearInterval(this.#look);
      this.#look = undefined;
    }, LOOK_MS).unref();
  }

  #judgeStrangers(process: SandboxProcess): void {
    const { computingIn, costlyKeys } = this.#parts;
    const keys = computingIn(process, STRANGE_MS).filter((key) => !this.#known.isProven(key));
    const isCrowd = process.isReady && keys.length > STRANGERS;
    const used = isCrowd ? process.usedMs() : undefined;
    process.usedBefore = used === undefined ? undefined : (process.usedBefore ?? used);
    process.strangers = isCrowd ? Math.max(process.strangers, keys.length) : 0;
    const allowed = STRANGERS_MS + FIRST_RUN_MS * process.strangers;
    if (used === undefined || used - (process.usedBefore ?? used) < allowed) return;
    for (const key of keys) this.slowDown(key, process);
    this.weigh(costlyKeys);
  }

  #strangers(keys: Iterable<string>): number {
    let found = 0;
    for (const key of keys) if (!this.#known.isProven(key)) found += 1;
    return found;
  }

  /** Looks again whether the platform is busy. */
  #reviewLater(keys: () => Iterable<string>): void {
    this.#loopBefore ??= performance.eventLoopUtilization();
    this.#review ??= setTimeout(() => {
      const { utilization } = performance.eventLoopUtilization(this.#loopBefore);
      if (utilization > BUSY) this.#busyUntil = performance.now() + BUSY_FOR_MS;
      this.#review = undefined;
      this.#loopBefore = undefined;
      this.weigh(keys);
    }, REVIEW_MS).unref();
  }

  /** It runs in turns: what it says may take a while. */
  isInTurns(process: SandboxProcess): boolean {
    return this.#turns.has(process);
  }

  #hasOffender(keys: Iterable<string>): boolean {
    for (const key of keys) if (this.offences(key) > 0) return true;
    return false;
  }

  #costlyRuns(): number {
    let runs = 0;
    for (const { slow, ended, running, waiting } of this.#all)
      if (slow && !ended) runs += running - waiting;
    return runs;
  }

  /** Forgets a version everywhere. */
  drop(key: string): void {
    for (const process of this.#all)
      if (process.loaded.delete(key)) process.send({ t: 'drop', key });
    this.#known.forgetProof(key);
  }

  /** Nothing runs now: unless something does soon, the processes go. */
  rest(): void {
    clearTimeout(this.#idle);
    const { idleMs = IDLE_MS, lastIdleMs = LAST_IDLE_MS } = this.#parts.settings();
    const endLater = (ms: number, kept: number): void => {
      this.#idle = setTimeout(() => {
        this.#endIdle(kept);
        if (kept > 0) endLater(lastIdleMs, 0);
      }, ms).unref();
    };
    endLater(idleMs, 1);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#idle);
    clearTimeout(this.#review);
    clearInterval(this.#look);
    for (const process of this.#all) process.kill();
    this.#turns.close();
  }

  /** A new process; the one that is there where the system had none a moment ago. */
  #spawnOr(other: SandboxProcess | undefined): SandboxProcess {
    if (performance.now() >= this.#nextStart) return this.#spawn();
    if (other) return other;
    throw new SandboxUnavailable();
  }

  #spawn(): SandboxProcess {
    const { settings, log, startProgram, onMessage, onExit } = this.#parts;
    const made = new SandboxProcess({
      ...{ megabytes: settings().processMegabytes, log, startProgram, onMessage },
      onExit: (from) => {
        this.#all.delete(from);
        if (from.isUnavailable) this.#nextStart = performance.now() + NO_START_MS;
        onExit(from);
      },
    });
    if (!this.#closed) made.unref();
    this.#all.add(made);
    return made;
  }

  /** `kept`: how many stay of those that take functions which behave. */
  #endIdle(kept: number): void {
    const spared = [...this.#all].filter(({ slow, ended }) => !slow && !ended).slice(0, kept);
    for (const process of this.#all)
      if (process.running === 0 && !spared.includes(process)) process.kill();
  }
}
