/** Writes of what one account alone may have. */
import { codeOf } from '../../../kernel/database/failures.ts';
import type { ErrorFactory } from '../../../kernel/errors.ts';

const uniqueViolation = '23505';

/** Does the write; throws this 409 where somebody else has the value. The unique index decides, whoever looked before. */
export async function unlessTaken<T>(taken: ErrorFactory, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw codeOf(error) === uniqueViolation ? taken({ cause: error }) : error;
  }
}
