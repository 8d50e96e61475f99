/** A process that dies between two steps, without ending one: from a step on nothing that it asks for is done any more. */
import type { Database, Transaction } from '../../src/kernel/database/database.ts';

class Killed extends Error {}

/** Counts steps; from step `last` on, each of them fails. */
export class Life {
  steps = 0;
  readonly last: number;
  readonly #running = new Set<Promise<unknown>>();

  constructor(last: number) {
    this.last = last;
  }

  step(): void {
    this.steps++;
    if (this.steps > this.last) throw new Killed(`killed at step ${this.last}`);
  }

  /** Work that goes on outside of the process: what was sent before it died is still done. */
  sent<T>(work: Promise<T>): Promise<T> {
    const end = work.then(
      () => undefined,
      () => undefined,
    );
    this.#running.add(end);
    void end.then(() => this.#running.delete(end));
    return work;
  }

  /** Resolves when nothing of it goes on any more. */
  async over(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}

/** The same object; each call of these methods is a step before and a step after. */
export function guarded<T extends object>(life: Life, target: T, names: readonly (keyof T)[]): T {
  const copy = Object.create(target) as T;
  for (const name of names) {
    const original = target[name] as (...given: unknown[]) => Promise<unknown>;
    Object.defineProperty(copy, name, {
      value: async (...given: unknown[]) => {
        life.step();
        const result = await life.sent(original.apply(target, given));
        life.step();
        return result;
      },
    });
  }
  return copy;
}

/** The same database; its statements are steps, and so are the moments around a commit. */
export function mortalDatabase(real: Database, life: Life): Database {
  const mortal: Database = guarded(life, real, ['query']);
  Object.defineProperty(mortal, 'transaction', {
    value: async (work: (transaction: Transaction) => Promise<unknown>) => {
      life.step();
      const result = await life.sent(
        real.transaction(async (transaction) => {
          const done = await work(guarded<Transaction>(life, transaction, ['query']));
          // Right before the commit.
          life.step();
          return done;
        }),
      );
      life.step();
      return result;
    },
  });
  return mortal;
}
