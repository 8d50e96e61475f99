/** How many records one request may change or delete: locks, memory and the time of those who wait have an end. */
import type { Caller } from '../caller.ts';
import { recordErrors } from './errors.ts';

export const MAX_AFFECTED = 50_000;

/** What a request may still touch beside the records that it is about. Counts down. */
export interface Budget {
  left: number;
}

/** The platform's own work is not cut short: nobody could ask for the rest of it. */
export const budgetOf = ({ kind }: Caller): Budget => ({ left: kind === 'system' ? Number.POSITIVE_INFINITY : MAX_AFFECTED });

/** Ends a query as soon as it is known that there are too many. */
export const probe = ({ left }: Budget): string => (Number.isFinite(left) ? ` limit ${left + 1}` : '');

/** Throws 409 when there is more than the budget holds. `schema`: of the records. */
export function spend(budget: Budget, count: number, schema: string): void {
  if (count > budget.left) {
    const message = `More than ${MAX_AFFECTED} records hang on what is to be deleted, the last of them in ${schema}: delete those first, step by step`;
    throw recordErrors.TOO_MANY_DEPENDANTS({ message });
  }
  budget.left -= count;
}
