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
  PARTIAL_NOT_FOUND: [404, 'There is no such partial'],
  UNSUBSCRIBE_INVALID: [404, 'This link is not, or no longer, good'],
  CHAIN_NOT_FOUND: [404, 'There is no such chain, or it is no longer kept'],
  SUPPRESSION_NOT_FOUND: [404, 'This address is not on the list'],
  WEBHOOK_NOT_FOUND: [404, 'No such provider reports here'],
  WEBHOOK_REFUSED: [403, 'The report is not from the provider'],
  TEMPLATE_EXISTS: [409, 'A template with this name exists already'],
  MESSAGE_NOT_RETRYABLE: [409, 'Only a message that failed can be sent again'],
  MESSAGE_NOT_CANCELLABLE: [409, 'Only a message that waits can be taken back'],
  MESSAGE_CONTENT_MISSING: [
    409,
    'What this mail said is not kept: see email.storeEmails in the configuration',
  ],
  RECIPIENT_SUPPRESSED: [422, 'This recipient refuses messages, or cannot get any'],
  RECIPIENT_OPTED_OUT: [422, 'This recipient does not want messages of this kind'],
  CHANNELS_FAILED: [500, 'No channel took the message'],
  PROVIDER_REFUSED: [500, 'The provider refused the message'],
  PROVIDER_AUTH: [500, 'The provider refused our credentials'],
  PROVIDER_TEMPLATES_UNSUPPORTED: [501, 'This provider keeps no templates'],
  CHANNEL_DISABLED: [503, 'This channel is switched off: see the configuration of communications'],
});
