/**
 * The sandbox processes that there are, by what runs in them. They are not told what to run: that is the pool's matter.
 */
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { FromSandbox } from './protocol.ts';
import { SandboxProcess } from './sandbox-process.ts';
import type { Lane } from './standing.ts';

export interface PoolSettings {
  /** Processes for functions that behave. */
  readonly processes: number;
  /** Megabytes of one process. */
  readonly processMegabytes: number;
}

export interface LaneEvents {
  onMessage(from: SandboxProcess, message: FromSandbox, text: string): void;
  /** `culprit`: the run that ended the process, where that is known. */
  onExit(from: SandboxProcess, culprit: number | undefined): void;
}

/** Costly processes at once; the oldest gives way. */
const MOST_COSTLY = 2;
/**
 * Between two starts of a process of one lane: hostile code may end processes as fast as they begin, and a start holds up
 * the platform.
 */
const RESTART_MS: Readonly<Record<Lane, number>> = { usual: 0, trial: 500, costly: 3_000 };

export class Lanes {
  readonly #settings: () => PoolSettings;
  readonly #log: Logger;
  readonly #events: LaneEvents;
  readonly #processes = new Set<SandboxProcess>();
  readonly #nextStart = new Map<Lane, number>();
  #closed = false;

  constructor(settings: () => PoolSettings, log: Logger, events: LaneEvents) {
    this.#settings = settings;
    this.#log = log;
    this.#events = events;
  }

  all(): readonly SandboxProcess[] {
    return [...this.#processes];
  }

  in(lane: Lane): readonly SandboxProcess[] {
    return this.all().filter((one) => one.lane === lane && !one.ended);
  }

  /** Milliseconds until the lane may have a process, where it has none. */
  waitMs(lane: Lane): number {
    if (this.in(lane).length > 0) return 0;
    return (this.#nextStart.get(lane) ?? 0) - performance.now();
  }

  /** The one with the least to do; another one while there may be more. */
  processFor(lane: Lane): SandboxProcess {
    const [least, ...others] = [...this.in(lane)].sort((a, b) => a.running - b.running);
    const most = lane === 'usual' ? this.#settings().processes : 1;
    if (least && (least.running === 0 || 1 + others.length >= most)) return least;
    return this.#start(lane);
  }

  /** A run that cannot be moved costs much: what runs beside it is better off elsewhere. */
  demote(process: SandboxProcess): void {
    if (process.lane === 'costly') return;
    process.moveTo('costly');
    const costly = this.in('costly');
    if (costly.length > MOST_COSTLY)
      [...costly].sort((a, b) => a.startedAt - b.startedAt)[0]?.kill();
  }

  endIdle(): void {
    for (const process of this.#processes) if (process.running === 0) process.kill();
  }

  close(): void {
    this.#closed = true;
    for (const process of this.#processes) process.kill();
  }

  get closed(): boolean {
    return this.#closed;
  }

  #start(lane: Lane): SandboxProcess {
    const made = new SandboxProcess({
      lane,
      megabytes: this.#settings().processMegabytes,
      log: this.#log,
      onMessage: this.#events.onMessage,
      onExit: (from, culprit) => {
        this.#processes.delete(from);
        this.#events.onExit(from, culprit);
      },
    });
    this.#nextStart.set(lane, performance.now() + RESTART_MS[lane]);
    if (!this.#closed) made.unref();
    this.#processes.add(made);
    return made;
  }
}
