/** Work that is taken back afterwards, though nothing went wrong: a transaction, or a part of the open one. */
import type { Database, Transaction } from '../../../kernel/database/database.ts';

const takenBack = Symbol('taken back');

/** What the work answers, after everything it did was taken back. */
export async function rolledBack<T>(database: Database, work: (transaction: Transaction) => Promise<T>): Promise<T> {
  const { value } = await attempt(database, work, () => false);
  return value;
}

/** Does all of the work or, when it answers nothing, none of it; answers what it answers. */
export async function orNothing<T>(database: Database, work: (transaction: Transaction) => Promise<T | undefined>): Promise<T | undefined> {
  const { value } = await attempt(database, work, (answer) => answer !== undefined);
  return value;
}

async function attempt<T>(
  database: Database,
  work: (transaction: Transaction) => Promise<T>,
  keeps: (answer: T) => boolean,
): Promise<{ readonly value: T }> {
  let answer: { readonly value: T } | undefined;
  try {
    await database.part(async (transaction) => {
      answer = { value: await work(transaction) };
      if (!keeps(answer.value)) throw takenBack;
    });
  } catch (error) {
    if (error !== takenBack) throw error;
  }
  if (!answer) throw new Error('The work was not done');
  return answer;
}
