/** Errors of the pipeline itself, beside the common ones of `kernel/errors.ts`. */
import { defineErrors } from '../errors.ts';

export const operationErrors = defineErrors({
  PASSWORD_CHANGE_REQUIRED: [403, 'Change the initial password first'],
  SECOND_FACTOR_REQUIRED: [401, 'This sign-in still needs its second factor'],
  CSRF_REFUSED: [
    403,
    'Cookies are not accepted from pages of other hosts: send the header X-CSRF-Token, or the token as a bearer',
  ],
  SCOPE_EXCEEDED: [
    403,
    'The scopes of this API token do not allow this (GET /api-tokens lists them)',
  ],
  IDEMPOTENCY_KEY_INVALID: [400, 'Idempotency-Key must be 1 to 255 visible ASCII characters'],
});
