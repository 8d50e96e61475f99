/** Transactions of code: several calls as one, open over several messages of the sandbox. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';

export interface OpenTransaction {
  /** Runs work inside. */
  within<T>(work: () => Promise<T>): Promise<T>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  /** The run has ended and left it open: it is undone. */
  abandon(): Promise<void>;
}

class RolledBack extends Error {}

/** Resolves when the transaction is open. Inside of another one (a hook of a sign-up) it is a part of that one. */
export function openTransaction(database: Database): Promise<OpenTransaction> {
  const opened = Promise.withResolvers<OpenTransaction>();
  const decision = Promise.withResolvers<void>();
  const open = async (): Promise<void> => {
    const inside = AsyncLocalStorage.snapshot();
    let last: Promise<unknown> = Promise.resolve();
    const end = async (): Promise<void> => {
      await last.catch(() => undefined);
    };
    opened.resolve({
      within(work) {
        const next = last.then(
          () => inside(work),
          () => inside(work),
        );
        last = next;
        return next;
      },
      async commit() {
        await end();
        decision.resolve();
        await done;
      },
      async rollback() {
        await end();
        decision.reject(new RolledBack());
        await done.catch(() => undefined);
      },
      async abandon() {
        decision.reject(new RolledBack());
        await done.catch(() => undefined);
      },
    });
    await decision.promise;
  };
  const done = database.inTransaction()
    ? database.part(open)
    : database.transaction(open, { attempts: 1 });
  done.catch((error: unknown) => {
    opened.reject(error instanceof RolledBack ? errors.CONFLICT() : error);
  });
  return opened.promise;
}
