/** What can go wrong with messages. */
import { defineErrors } from '../../kernel/errors.ts';

export const messageErrors = defineErrors({
  TEMPLATE_INVALID: [400, 'The template cannot be read'],
  INVALID_RECIPIENT: [400, 'This is not an address that a message can be sent to'],
  TEMPLATE_NOT_FOUND: [404, 'There is no such template'],
  MESSAGE_NOT_FOUND: [404, 'There is no such message, or it is no longer kept'],
  NOTIFICATION_NOT_FOUND: [404, 'There is no such notification'],
  DEVICE_NOT_FOUND: [404, 'There is no such device'],
  RECIPIENT_NOT_FOUND: [404, 'There is no such user'],
  PUSH_DEVICE_MISSING: [404, 'The user has no device, and nothing is to be stored'],
  BROADCAST_NOT_FOUND: [404, 'There is no such broadcast, or it is no longer kept'],
  TEMPLATE_EXISTS: [409, 'A template with this name exists already'],
  MESSAGE_NOT_RETRYABLE: [409, 'Only a message that failed can be sent again'],
  RECIPIENT_SUPPRESSED: [422, 'This recipient refuses messages, or cannot get any'],
  PROVIDER_REFUSED: [500, 'The provider refused the message'],
  PROVIDER_AUTH: [500, 'The provider refused our credentials'],
  PROVIDER_TEMPLATES_UNSUPPORTED: [501, 'This provider keeps no templates'],
  CHANNEL_DISABLED: [503, 'This channel is switched off: see the configuration of communications'],
});
