/** What is written with the first change of a piece of work, by the transaction that makes the change. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Companion, Queryable } from './database.ts';

export interface Companions {
  run<T>(companion: Companion, work: () => T): T;
  /** That of this flow, while it is still to be written. */
  waiting(): Companion | undefined;
}

export function createCompanions(): Companions {
  const store = new AsyncLocalStorage<Companion>();
  return {
    run: (companion, work) => store.run(companion, work),
    waiting() {
      const companion = store.getStore();
      return companion?.isWaiting() ? companion : undefined;
    },
  };
}

/**
 * The companion of one transaction: taken when the work is done, given back when it does not commit. Two transactions
 * of one flow that run at the same time do not write it twice.
 */
export class Accompanied {
  readonly #companion: Companion | undefined;
  #written = false;

  constructor(companion: Companion | undefined) {
    this.#companion = companion;
  }

  /** Right before the commit. The statement itself leaves a transaction alone that has written nothing. */
  async write(transaction: Queryable): Promise<void> {
    if (!this.#companion?.isWaiting()) return;
    const statement = this.#companion.take();
    if (!statement) return;
    try {
      this.#written = (await transaction.query(statement)).count > 0;
    } finally {
      if (!this.#written) this.#companion.giveBack();
    }
  }

  failed(): void {
    if (this.#written) this.#companion?.giveBack();
  }
}
