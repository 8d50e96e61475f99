/** What can go wrong at a sign-in of any kind of account. The catalogues of users and admins hold these too. */
import { defineErrors } from '../errors.ts';

export const identityErrors = defineErrors({
  CODE_INVALID: [401, 'The code is not right, was used already, or is too old'],
  SECOND_FACTOR_MISSING: [404, 'There is no second factor to prove: switch one on first'],
  ATTEMPTS_EXHAUSTED: [429, 'Too many failed attempts: wait before you try again'],
});
