/** What can go wrong with webhooks. */
import { defineErrors } from '../../kernel/errors.ts';

export const webhookErrors = defineErrors({
  WEBHOOK_INVALID: [400, 'The webhook endpoint is not valid'],
  WEBHOOK_NOT_FOUND: [404, 'There is no such endpoint'],
  DELIVERY_NOT_FOUND: [404, 'There is no such delivery'],
  WEBHOOK_EXISTS: [409, 'An endpoint with this name exists already'],
  WEBHOOK_DISABLED: [409, 'This endpoint is switched off: enable it first'],
  WEBHOOKS_EXCEEDED: [409, 'The maximum number of endpoints is reached: delete one first'],
});
