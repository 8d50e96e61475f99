/** What can go wrong with webhooks. */
import { defineErrors } from '../../kernel/errors.ts';

export const webhookErrors = defineErrors({
  WEBHOOK_INVALID: [400, 'This is not an endpoint that can be served'],
  WEBHOOK_NOT_FOUND: [404, 'There is no such endpoint'],
  DELIVERY_NOT_FOUND: [404, 'There is no such delivery'],
  WEBHOOK_EXISTS: [409, 'An endpoint with this name exists already'],
  WEBHOOK_DISABLED: [409, 'This endpoint is switched off: enable it first'],
  WEBHOOKS_EXCEEDED: [409, 'There are as many endpoints as there may be: delete one first'],
});
