/**
 * The processes of the pool: which of them a function runs in, and how long they live. Functions that cost much are
 * together in processes of their own, so that the others do not wait behind them.
 */
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { KnownFunctions, type Standing } from './known-functions.ts';
import type { ExamineSettings } from './pool-checks.ts';
import type { Active } from './pool-runs.ts';
import { MAX_RUNS } from './protocol.ts';
import { roomFor } from './room.ts';
import {
  type ProcessUse,
  SandboxProcess,
  type SandboxProcessOptions,
  SandboxUnavailable,
} from './sandbox-process.ts';
import { Shares } from './shares.ts';
import { StartPauses } from './start-pauses.ts';

export interface PoolSettings extends ExamineSettings {
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
/** Processes for functions that cost much; the oldest gives way. */
const MAX_COSTLY = 2;
/** How often it is asked whether a process that begins has begun, and a killed one is gone. */
const CHANGING_MS = 50;
/** Milliseconds until a process is tried again after the system had none. */
const NO_START_MS = 200;

const useFor: Readonly<Record<Standing, ProcessUse>> = {
  ...{ trusted: 'usual', unknown: 'usual', costly: 'costly', offender: 'offenders' },
};

interface ProcessesParts
  extends Pick<SandboxProcessOptions, 'onMessage' | 'onExit' | 'startProgram'> {
  readonly settings: () => PoolSettings;
  readonly log: Logger;
  /** All that have not ended. */
  runs(): Iterable<Active>;
  /** Of these, those that wait for room. */
  readonly line: ReadonlySet<Active>;
}

export class SandboxProcesses {
  readonly #parts: ProcessesParts;
  readonly #all = new Set<SandboxProcess>();
  readonly #known = new KnownFunctions();
  readonly #shares: Shares;
  readonly #pauses: Readonly<Record<ProcessUse, StartPauses | undefined>>;
  #nextStart = 0;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(parts: ProcessesParts) {
    this.#parts = parts;
    this.#pauses = { usual: undefined, costly: new StartPauses(), offenders: new StartPauses() };
    this.#shares = new Shares({
      ...{ log: parts.log, startProgram: parts.startProgram, known: this.#known, line: parts.line },
      runs: () => parts.runs(),
      slow: () => this.#that(({ slow, ended }) => slow && !ended),
    });
  }

  get closed(): boolean {
    return this.#closed;
  }

  get pids(): readonly number[] {
    return [...this.#all].flatMap(({ pid }) => pid ?? []);
  }

  /** There are processes for functions that cost much. */
  get areSlow(): boolean {
    for (const { slow, ended } of this.#all) if (slow && !ended) return true;
    return false;
  }

  #that(is: (process: SandboxProcess) => boolean): SandboxProcess[] {
    return [...this.#all].filter(is);
  }

  /** Milliseconds until a function that costs much may have a new process, where it needs one. */
  waitMs(key: string): number {
    const use = useFor[this.#known.standing(key)];
    const pause = this.#pauses[use];
    if (!pause || this.#fitting(use).length > 0) return 0;
    return this.#isChanging() ? Math.max(CHANGING_MS, pause.leftMs) : pause.leftMs;
  }

  /**
   * A process begins, which takes 0.2 s of a processor, or one was killed and the system still takes its memory apart, which
   * may hold a processor for 80 ms without a break. One more start would hold the other processor of a small machine
   * meanwhile, and nobody would be answered.
   */
  #isChanging(): boolean {
    return this.#that(({ slow, ended, isReady }) => !isReady || (slow && ended)).length > 0;
  }

  /** Those that take runs for this use, the one with the fewest first. */
  #fitting(use: ProcessUse): SandboxProcess[] {
    const fitting = this.#that((one) => one.use === use && !one.ended && !one.isWorn);
    return fitting.sort((a, b) => a.running - b.running);
  }

  /** The process in which a function runs next: one more than usual where all are full. Throws `SandboxUnavailable`. */
  take(key: string): SandboxProcess {
    if (this.#closed) throw new SandboxUnavailable();
    clearTimeout(this.#idle);
    const use = useFor[this.#known.standing(key)];
    const fitting = this.#fitting(use);
    const [first] = fitting;
    const most = use === 'usual' ? this.#parts.settings().processes : 1;
    const isFull = use === 'usual' && (first?.running ?? 0) >= MAX_RUNS;
    if (first && (first.running === 0 || (fitting.length >= most && !isFull))) return first;
    const made = this.#spawnOr(first);
    if (made === first) return made;
    if (use !== 'usual') made.slowDown(use);
    this.#pauses[use]?.started();
    return made;
  }

  /** Whether one more run may begin now; one answer may be asked for many, and counts those that it lets begin. */
  room(): (key: string) => boolean {
    const { runs, settings } = this.#parts;
    return roomFor({ known: this.#known, runs, processes: settings().processes });
  }

  /** How often runs of it had to be ended lately: who waits with the fewest goes first. */
  offences(key: string): number {
    return this.#known.offences(key);
  }

  /** A function turned out to cost much: the process is left to it and its like. */
  slowDown(key: string, process: SandboxProcess): void {
    this.#known.costs(key);
    if (!process.slow) this.#giveUp(process);
    if (this.#shares.isFlood()) this.#suspectLine();
  }

  /** It can examine no more texts: it goes with the last of its runs. */
  retire(process: SandboxProcess): void {
    process.isWorn = true;
    this.endIfRetired(process);
  }

  /** A run in it has ended. */
  endIfRetired(process: SandboxProcess): void {
    if (process.isWorn && process.running === 0) process.kill();
  }

  #giveUp(process: SandboxProcess): void {
    process.slowDown('costly');
    const costly = this.#that(({ use, ended }) => use === 'costly' && !ended);
    if (costly.length > MAX_COSTLY) costly.sort((a, b) => a.startedAt - b.startedAt)[0]?.kill();
  }

  /** Who came with a flood of functions that cost much is taken for one of them, until it has shown what it is. */
  #suspectLine(): void {
    for (const { run } of this.#parts.line)
      if (!this.#known.isProven(run.key)) this.#known.costs(run.key);
  }

  /** A run of it has ended by itself. */
  proved(key: string, cpuMs: number): void {
    this.#known.proved(key, cpuMs);
  }

  /** Runs of it have ended by themselves, and none has cost much lately. */
  behaves(key: string): boolean {
    return this.#known.standing(key) === 'trusted';
  }

  /** A run had to be ended, or its process has died. */
  offended(key: string): void {
    this.#known.costs(key, 1);
  }

  /** A run has begun or ended: what those that cost much get of the processor may change. */
  weigh(): void {
    this.#shares.weigh();
  }

  /** It runs in turns: what it says may take a while. */
  isInTurns(process: SandboxProcess): boolean {
    return this.#shares.isInTurns(process);
  }

  /** The time of a run in it is over: it is to end it now. */
  letEnd(process: SandboxProcess): void {
    this.#shares.letEnd(process);
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
    for (const process of this.#all) process.kill();
    this.#shares.close();
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
    const spared = this.#fitting('usual').slice(0, kept);
    for (const process of this.#all)
      if (process.running === 0 && !spared.includes(process)) process.kill();
  }
}
