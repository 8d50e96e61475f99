/** Texts that are examined in a sandbox process before they are stored. */
import type { CheckedFacts } from './protocol.ts';
import { type SandboxProcess, SandboxUnavailable } from './sandbox-process.ts';

/** What a text is, and the text that runs: without types. */
export type CheckedText = CheckedFacts & { readonly text: string };

interface Check {
  readonly process: SandboxProcess;
  resolve(checked: CheckedText): void;
  reject(error: SandboxUnavailable): void;
}

const notExamined: CheckedText = {
  ...{ form: 'body', language: 'javascript', packages: [], text: '' },
  error: { name: 'Error', message: 'The code could not be examined' },
};

export class PoolChecks {
  readonly #checks = new Map<number, Check>();

  get size(): number {
    return this.#checks.size;
  }

  /** Has a process examine a text. Rejects with `SandboxUnavailable`. */
  begin(process: SandboxProcess, id: number, code: string, file: string): Promise<CheckedText> {
    process.send({ t: 'check', id, file }, code);
    return new Promise((resolve, reject) => this.#checks.set(id, { process, resolve, reject }));
  }

  /** What a process says of a text that it was given. */
  receive(from: SandboxProcess, id: number, checked: CheckedText): void {
    const check = this.#checks.get(id);
    if (check?.process !== from) return;
    this.#checks.delete(id);
    check.resolve(checked);
  }

  gone(process: SandboxProcess): void {
    for (const [id, check] of this.#checks) {
      if (check.process !== process) continue;
      this.#checks.delete(id);
      if (process.isUnavailable) check.reject(new SandboxUnavailable());
      else check.resolve(notExamined);
    }
  }
}
