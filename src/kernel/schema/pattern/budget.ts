/** What one request may spend on matching patterns, over all its texts: values of lists, records of a batch. */
import { currentAccount, type RequestAccount } from '../../account/request-account.ts';
import { errors } from '../../errors.ts';

/**
 * Steps of automata for each byte that the request may send. An ordinary pattern has 10 to 50 instructions, and
 * most bytes of a request are no part of a text with a pattern.
 */
const STEPS_PER_BYTE = 64;

const spent = new WeakMap<RequestAccount, number>();

/** Throws 400. Work of the platform's own has no account, and no budget. */
export function spendSteps(steps: number): void {
  const account = currentAccount();
  if (!account) return;
  const total = (spent.get(account) ?? 0) + steps;
  spent.set(account, total);
  if (total > STEPS_PER_BYTE * account.limits.bytesIn) {
    throw errors.INVALID_ARGUMENTS({ message: 'The request has too much text for fields with a pattern: split it' });
  }
}
