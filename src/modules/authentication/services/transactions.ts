/** Work that is taken back afterwards, though nothing went wrong: a transaction, or a part of the open one. */
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { type ErrorFactory, errors } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';

/* Writes of what one account alone may have. */

const uniqueViolation = '23505';

/** Does the write; throws this 409 where somebody else has the value. The unique index decides, whoever looked before. */
export async function onUniqueViolation<T>(
  taken: ErrorFactory,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw codeOf(error) === uniqueViolation ? taken({ cause: error }) : error;
  }
}

/* Hooks stand between a user and their account while a transaction is open: one that does not answer is a refusal. */

/** Milliseconds. */
const deadlineMs = 5_000;

/** What the hook answers or throws; 503 when it takes longer than five seconds. */
export async function withTimeout<T>(answer: Promise<T>, log: Logger): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    log.error({ deadlineMs }, 'A hook did not answer in time: what it was asked about is refused');
    reject(
      errors.UNAVAILABLE({ message: 'This took too long: try again in a moment', retryAfter: 5 }),
    );
  }, deadlineMs);
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

const rollbackMarker = Symbol('taken back');

/** What the work answers, after everything it did was taken back. */
export async function withRollback<T>(
  database: Database,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  const { value } = await attempt(database, work, () => false);
  return value;
}

/** Does all of the work or, when it answers nothing, none of it; answers what it answers. */
export async function allOrNothing<T>(
  database: Database,
  work: (transaction: Transaction) => Promise<T | undefined>,
): Promise<T | undefined> {
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
      if (!keeps(answer.value)) throw rollbackMarker;
    });
  } catch (error) {
    if (error !== rollbackMarker) throw error;
  }
  if (!answer) throw new Error('The work was not done');
  return answer;
}
