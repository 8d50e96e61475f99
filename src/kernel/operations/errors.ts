/** Errors of the pipeline itself, beside the common ones of `kernel/errors.ts`. */
import { defineErrors } from '../errors.ts';

export const operationErrors = defineErrors({
  PASSWORD_CHANGE_REQUIRED: [403, 'Change the initial password first'],
  SECOND_FACTOR_REQUIRED: [401, 'The second factor of this sign-in is still due'],
  INVALID_IDEMPOTENCY_KEY: [400, 'Idempotency-Key must be 1 to 255 visible ASCII characters'],
});
