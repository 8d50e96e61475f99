/**
 * Writes by rights that were looked up before them: acting for a scope, roles in rules and of fields, and what was evaluated.
 * Once it is written, and before anybody sees it, they are looked up again; where they come to something else, nothing was
 * written and the write begins anew (docs/decisions/562-rights-of-writes-are-looked-up-again.md). Rights that the statement
 * asks about itself need none of this (remembered-rights.ts).
 */
import type { Database } from '../../../kernel/database/database.ts';
import { BegunAgain, type WriteContext } from './write-context.ts';

/** Rights that change again and again are those of a moment before the write. */
const MAX_ATTEMPTS = 10;

/** They came to something else: what was written is taken back. */
class RightsChanged extends Error {}

export async function confirmedWrite<T>(
  database: Database,
  open: () => WriteContext | Promise<WriteContext>,
  write: Write<T>,
): Promise<T> {
  for (let n = 0; n < MAX_ATTEMPTS; n += 1) {
    const done = await attempt(database, await open(), write);
    if (done) return done.value;
  }
  return lastly(await open(), write);
}

/** As they are looked up now. */
const lastly = <T>(context: WriteContext, write: Write<T>): Promise<T> =>
  write(context).catch((error: unknown) => {
    if (error instanceof BegunAgain) return write(error.context);
    throw error;
  });

type Write<T> = (context: WriteContext) => Promise<T>;

/** Nothing when the rights did not hold. */
async function attempt<T>(
  database: Database,
  context: WriteContext,
  write: Write<T>,
): Promise<{ readonly value: T } | undefined> {
  try {
    const value =
      context.rechecks.length === 0
        ? await write(context)
        : await writeConfirmed(database, context, write);
    return { value };
  } catch (error) {
    if (error instanceof BegunAgain) {
      const rechecks = [...context.rechecks, ...error.context.rechecks];
      return attempt(database, { ...error.context, rechecks }, write);
    }
    if (error instanceof RightsChanged) return undefined;
    throw error;
  }
}

function writeConfirmed<T>(database: Database, context: WriteContext, write: Write<T>): Promise<T> {
  const hold = async (): Promise<boolean> =>
    (await Promise.all(context.rechecks.map((recheck) => recheck()))).every(Boolean);
  const once = (ask: () => Promise<boolean>) => async (): Promise<T> => {
    const value = await write(context);
    if (!(await ask())) throw new RightsChanged();
    return value;
  };
  // Within a transaction of somebody else, rights may rest on what that wrote.
  if (database.inTransaction()) return database.part(once(hold));
  return database.transaction(once(() => database.outside(hold)));
}
