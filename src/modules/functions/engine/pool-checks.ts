/** Texts that are examined in a sandbox process before they are stored. */
import type { CheckedFacts } from './protocol.ts';
import { type SandboxProcess, SandboxUnavailable } from './sandbox-process.ts';

/** What a text is, and the text that runs: without types. */
export type CheckedText = CheckedFacts & { readonly text: string };

interface GivenText {
  readonly code: string;
  readonly file: string;
}

interface Check extends GivenText {
  process: SandboxProcess | undefined;
  /** A process has died of it, or beside it. */
  isAgain: boolean;
  resolve(checked: CheckedText): void;
  reject(error: unknown): void;
}

const notExamined: CheckedText = {
  ...{ form: 'body', language: 'javascript', packages: [], text: '' },
  error: { name: 'Error', message: 'The code could not be examined' },
};

export class PoolChecks {
  readonly #checks = new Map<number, Check>();
  readonly #take: () => SandboxProcess;

  /** `take`: a process for a text; throws `SandboxUnavailable`. */
  constructor(take: () => SandboxProcess) {
    this.#take = take;
  }

  get size(): number {
    return this.#checks.size;
  }

  /** Has a process examine a text. Rejects with `SandboxUnavailable`. */
  begin(id: number, given: GivenText): Promise<CheckedText> {
    return new Promise((resolve, reject) => {
      const check: Check = { ...given, process: undefined, isAgain: false, resolve, reject };
      this.#checks.set(id, check);
      this.#ask(id, check);
    });
  }

  #ask(id: number, check: Check): void {
    try {
      check.process = this.#take();
      check.process.send({ t: 'check', id, file: check.file }, check.code);
    } catch (error) {
      this.#checks.delete(id);
      check.reject(error);
    }
  }

  /** What a process says of a text that it was given. */
  receive(from: SandboxProcess, id: number, checked: CheckedText): void {
    const check = this.#checks.get(id);
    if (check?.process !== from) return;
    this.#checks.delete(id);
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
      this.#checks.delete(id);
      if (process.isUnavailable) check.reject(new SandboxUnavailable());
      else check.resolve(notExamined);
    }
  }

  #of(process: SandboxProcess): readonly (readonly [id: number, check: Check])[] {
    return [...this.#checks].filter(([, check]) => check.process === process);
  }
}
