/** What can go wrong at a sign-in of any kind of account. The catalogues of users and admins hold these too. */
import { defineErrors } from '../errors.ts';

export const identityErrors = defineErrors({
  CODE_INVALID: [401, 'The code is wrong, was used already, or has expired'],
  SECOND_FACTOR_MISSING: [404, 'No second factor is enabled: enable one first'],
  ATTEMPTS_EXHAUSTED: [429, 'Too many failed attempts: wait before you try again'],
});
