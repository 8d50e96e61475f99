/** Texts that are examined in a sandbox process before they are stored. */
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { CheckedFacts } from './protocol.ts';
import { type SandboxProcess, SandboxUnavailable } from './sandbox-process.ts';

/** Milliseconds that a process which examines a text may say nothing before it counts as stuck. */
const SILENT_MS = 10_000;

/** What a text is, and the text that runs: without types. */
export type CheckedText = CheckedFacts & { readonly text: string };

interface GivenText {
  readonly code: string;
  readonly file: string;
}

interface Check extends GivenText {
  process: SandboxProcess | undefined;
  /** When its process was asked; on the clock of `performance.now()`. */
  askedAt: number;
  /** Looks at a process that does not answer. */
  watch: NodeJS.Timeout | undefined;
  /** A process has died of it, or beside it. */
  isAgain: boolean;
  resolve(checked: CheckedText): void;
  reject(error: unknown): void;
}

const notExamined: CheckedText = {
  ...{ form: 'body', language: 'javascript', packages: [], text: '' },
  error: { name: 'Error', message: 'The code could not be examined' },
};

export interface ExamineSettings {
  /** Milliseconds that a process which examines a text may say nothing; ten seconds unless given. */
  readonly silentMs?: number;
}

interface ChecksParts {
  readonly log: Pick<Logger, 'warn'>;
  settings(): ExamineSettings;
  /** A process for a text; throws `SandboxUnavailable`. */
  take(): SandboxProcess;
}

export class PoolChecks {
  readonly #checks = new Map<number, Check>();
  readonly #parts: ChecksParts;

  constructor(parts: ChecksParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#checks.size;
  }

  /** Has a process examine a text. Rejects with `SandboxUnavailable`. */
  begin(id: number, given: GivenText): Promise<CheckedText> {
    return new Promise((resolve, reject) => {
      const none = { process: undefined, askedAt: 0, watch: undefined, isAgain: false };
      const check: Check = { ...given, ...none, resolve, reject };
      this.#checks.set(id, check);
      this.#ask(id, check);
    });
  }

  #ask(id: number, check: Check): void {
    try {
      check.process = this.#parts.take();
      check.askedAt = performance.now();
      check.process.send({ t: 'check', id, file: check.file }, check.code);
      this.#watch(check);
    } catch (error) {
      this.#end(id, check);
      check.reject(error);
    }
  }

  /** A process that is stuck examines nothing any more: it is killed, and another one is asked (`gone`). */
  #watch(check: Check): void {
    const { process, askedAt } = check;
    if (!process) return;
    clearTimeout(check.watch);
    const { silentMs = SILENT_MS } = this.#parts.settings();
    const leftMs = Math.max(askedAt, process.heardAt) + silentMs - performance.now();
    if (leftMs > 0) check.watch = setTimeout(() => this.#watch(check), leftMs);
    else if (!process.ended) {
      this.#parts.log.warn(
        { file: check.file },
        'A sandbox process does not answer and is killed; its texts are examined in another one',
      );
      process.kill();
    }
  }

  #end(id: number, check: Check): void {
    clearTimeout(check.watch);
    this.#checks.delete(id);
  }

  /** What a process says of a text that it was given. */
  receive(from: SandboxProcess, id: number, checked: CheckedText): void {
    const check = this.#checks.get(id);
    if (check?.process !== from) return;
    this.#end(id, check);
    check.resolve(checked);
  }

  /** A process answers no more, and has said so: another one is asked. */
  leave(process: SandboxProcess): void {
    for (const [id, check] of this.#of(process)) this.#ask(id, check);
  }

  /** The same for one that has died, once: it may have died of the text. */
  gone(process: SandboxProcess): void {
    for (const [id, check] of this.#of(process)) {
      if (!process.isUnavailable && !check.isAgain) {
        check.isAgain = true;
        this.#ask(id, check);
        continue;
      }
      this.#end(id, check);
      if (process.isUnavailable) check.reject(new SandboxUnavailable());
      else check.resolve(notExamined);
    }
  }

  #of(process: SandboxProcess): readonly (readonly [id: number, check: Check])[] {
    return [...this.#checks].filter(([, check]) => check.process === process);
  }
}
