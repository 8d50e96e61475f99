/**
 * Which share of the processor functions that cost much get, all together: little when they are some, and the least that
 * can be given when they are many that nobody misses.
 */
import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { StartProgram } from '../../../kernel/child-programs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { KnownFunctions } from './known-functions.ts';
import { type Active, isComputing } from './pool-runs.ts';
import { MAX_UNPROVEN_RUNS } from './room.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import { Turns } from './turns.ts';

/** Of more runs than so many that may never end by themselves, the processor is shared as little as can be. */
const FEW_RUNS = 3;
/** Runs that compute or wait in line, of functions of which none has ended by itself: more than so many are a flood. */
const FLOOD = 24;
/**
 * Part of its time that the platform works when it counts as busy, how often it is looked at while there is a flood, and
 * how long it counts as busy from then on. Whoever begins to read waits behind a flood until the next look.
 */
const BUSY = 0.3;
const REVIEW_MS = 5;
const BUSY_FOR_MS = 1_000;
/** How long a process goes on that has to end runs whose time is over: a thousand turns would be too few for that. */
const ENDING_MS = 200;

interface SharesParts {
  readonly log: Logger;
  readonly startProgram: StartProgram;
  readonly known: KnownFunctions;
  /** Processes for functions that cost much. */
  slow(): readonly SandboxProcess[];
  /** All that have not ended. */
  runs(): Iterable<Active>;
  /** Of these, those that wait for room. */
  readonly line: ReadonlySet<Active>;
}

export class Shares {
  readonly #parts: SharesParts;
  readonly #turns: Turns;
  #review: NodeJS.Timeout | undefined;
  #loopBefore: EventLoopUtilization | undefined;
  #busyUntil = 0;

  constructor(parts: SharesParts) {
    this.#parts = parts;
    const { log, startProgram } = parts;
    this.#turns = new Turns({ log, startProgram, onWatcher: () => this.weigh() });
  }

  /**
   * A run has begun or ended. Where functions had to be ended lately, and many runs of such compute, their process runs
   * in turns; so do all that cost much while there is a flood and the platform is busy.
   */
  weigh(): void {
    const slow = this.#parts.slow();
    const isFlood = this.isFlood();
    if (isFlood) this.#reviewLater();
    const isBusyFlood = isFlood && performance.now() < this.#busyUntil;
    const crowds = slow.filter((process) => this.#unproven(process) > FEW_RUNS);
    const kept = isBusyFlood ? slow : crowds.filter(({ use }) => use === 'offenders');
    // In turns they have little, and get that: on a full machine they would not go on at all otherwise.
    for (const process of slow) process.crowd(crowds.includes(process) && !kept.includes(process));
    // A process that begins is let begin.
    const now = performance.now();
    this.#turns.give(kept.filter((one) => one.isReady && !this.#isEnding(one, now)));
  }

  /** It has to end runs, and has not yet: what begins in it meanwhile computes as well. */
  #isEnding(process: SandboxProcess, now: number): boolean {
    if (process.endsUntil < now) return false;
    for (const { process: its, run } of this.#parts.runs())
      if (its === process && run.deadlineAt <= now) return true;
    return false;
  }

  /** The time of a run in it is over: it goes on for a moment, in which it ends what has no time left. */
  letEnd(process: SandboxProcess): void {
    if (!this.#turns.has(process)) return;
    process.endsUntil = performance.now() + ENDING_MS;
    this.weigh();
    setTimeout(() => this.weigh(), ENDING_MS).unref();
  }

  /** Runs that compute in it, of functions that had to be ended lately, or of which none has ended by itself. */
  #unproven(process: SandboxProcess): number {
    const { known, runs } = this.#parts;
    let found = 0;
    for (const one of runs())
      if (one.process === process && isComputing(one) && !known.isGood(one.run.key)) found += 1;
    return found;
  }

  /**
   * As many runs cost much as may begin of functions of which none has ended by itself, and many more of such wait. Of
   * functions that are only slow the first time, some would have ended.
   */
  isFlood(): boolean {
    let running = 0;
    let waiting = 0;
    for (const one of this.#parts.runs()) {
      if (this.#parts.known.isProven(one.run.key)) continue;
      if (one.process?.slow && isComputing(one)) running += 1;
      else if (this.#parts.line.has(one)) waiting += 1;
    }
    return running >= MAX_UNPROVEN_RUNS && running + waiting > FLOOD;
  }

  /** It runs in turns: what it says may take a while. */
  isInTurns(process: SandboxProcess): boolean {
    return this.#turns.has(process);
  }

  close(): void {
    clearTimeout(this.#review);
    this.#turns.close();
  }

  /** Looks again whether the platform is busy. */
  #reviewLater(): void {
    this.#loopBefore ??= performance.eventLoopUtilization();
    this.#review ??= setTimeout(() => {
      const { utilization } = performance.eventLoopUtilization(this.#loopBefore);
      if (utilization > BUSY) this.#busyUntil = performance.now() + BUSY_FOR_MS;
      this.#review = undefined;
      this.#loopBefore = undefined;
      this.weigh();
    }, REVIEW_MS).unref();
  }
}
