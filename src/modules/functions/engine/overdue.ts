/** What becomes of a run whose time is over, and of the process that does not end it. */
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { type Active, lost, type PoolEnd } from './pool-runs.ts';
import type { SandboxProcesses } from './processes.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** How long after its time a run may take to end before its process counts as stuck. */
const GRACE_MS = 1_000;
/** How long a process that begins, or runs in turns, may say nothing before it counts as stuck. */
const SILENT_MS = 10_000;

interface OverdueParts {
  readonly log: Logger;
  readonly processes: Pick<SandboxProcesses, 'letEnd' | 'isInTurns'>;
  finish(active: Active, end: PoolEnd): void;
}

export class Overdue {
  readonly #parts: OverdueParts;

  constructor(parts: OverdueParts) {
    this.#parts = parts;
  }

  /** From now on until it has ended; once for each run. */
  watch(active: Active): void {
    const leftMs = active.run.deadlineAt - performance.now();
    active.overdue ??= setTimeout(() => this.#isOver(active), leftMs);
  }

  /** Its process ends it, unless it has waited for one all its time. */
  #isOver(active: Active): void {
    const { process } = active;
    if (process) {
      active.overdue = setTimeout(() => this.#stuck(active, process), GRACE_MS);
      this.#parts.processes.letEnd(process);
    } else this.#parts.finish(active, { ...lost, outcome: 'unavailable' });
  }

  #stuck(active: Active, process: SandboxProcess): void {
    // It hears of it when it is ready, or in its next turn.
    if (this.#mayBeLate(process)) process.send({ t: 'cancel', id: active.id });
    else if (!process.ended) {
      this.#parts.log.warn(
        { function: active.run.file },
        'A sandbox process does not answer and is killed',
      );
      process.kill();
    }
    const outcome = process.isReady ? 'timeout' : 'unavailable';
    this.#parts.finish(active, { ...lost, outcome, logs: active.lines });
  }

  /** It begins on a machine that is full, or has its turns; for ever it may not be silent either. */
  #mayBeLate(process: SandboxProcess): boolean {
    const isSilent = performance.now() - process.heardAt > SILENT_MS;
    return !isSilent && (!process.isReady || this.#parts.processes.isInTurns(process));
  }
}
