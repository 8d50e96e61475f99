/** The line of runs that wait until there is room for them. */
import type { Active } from './pool-runs.ts';
import type { SandboxProcesses } from './processes.ts';

/** With less time left, a run in line is not begun: it would only be loaded. */
const LITTLE_TIME_MS = 10;

/** Those who behaved come before those who had to be ended, each in their order. */
export function inOrder(
  line: Iterable<Active>,
  offences: (key: string) => number,
): readonly Active[] {
  const soon = performance.now() + LITTLE_TIME_MS;
  return [...line]
    .filter(({ run }) => run.deadlineAt > soon)
    .sort((a, b) => offences(a.run.key) - offences(b.run.key));
}

interface LineParts {
  readonly waiting: Set<Active>;
  readonly processes: Pick<SandboxProcesses, 'room' | 'waitMs' | 'offences'>;
  begin(active: Active): void;
  /** Its process may only start in so many milliseconds. */
  beginLater(active: Active, waitMs: number): void;
}

export class Line {
  readonly #parts: LineParts;
  #serving: NodeJS.Immediate | undefined;

  constructor(parts: LineParts) {
    this.#parts = parts;
  }

  /** Begins a run where there is room, and lets it wait where there is none. */
  take(active: Active): void {
    if (this.#parts.processes.room()(active.run.key)) this.#parts.begin(active);
    else this.#parts.waiting.add(active);
  }

  /** There may be room again; once for all that leave some in one turn of the event loop. */
  serve(): void {
    if (this.#serving || this.#parts.waiting.size === 0) return;
    this.#serving = setImmediate(() => {
      this.#serving = undefined;
      this.#serveAll();
    });
  }

  #serveAll(): void {
    const { waiting, processes, begin, beginLater } = this.#parts;
    const hasRoom = processes.room();
    for (const one of inOrder(waiting, (key) => processes.offences(key))) {
      if (!hasRoom(one.run.key)) continue;
      waiting.delete(one);
      const waitMs = processes.waitMs(one.run.key);
      if (waitMs > 0) beginLater(one, waitMs);
      else begin(one);
    }
  }
}
