/** Errors of the pipeline itself, beside the common ones of `kernel/errors.ts`. */
import { defineErrors } from '../errors.ts';

export const operationErrors = defineErrors({
  PASSWORD_CHANGE_REQUIRED: [403, 'Change the initial password first'],
  SECOND_FACTOR_REQUIRED: [401, 'The second factor of this sign-in is still due'],
  CSRF_REFUSED: [
    403,
    'A cookie does not count for pages of other hosts: send the header X-CSRF-Token, or the token as a bearer',
  ],
  SCOPE_EXCEEDED: [
    403,
    'This API token is not for that: its scopes name what it may do (GET /api-tokens)',
  ],
  IDEMPOTENCY_KEY_INVALID: [400, 'Idempotency-Key must be 1 to 255 visible ASCII characters'],
});
