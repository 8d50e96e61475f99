/** What can go wrong with apps. */
import { defineErrors } from '../../kernel/errors.ts';

export const routerErrors = defineErrors({
  DOMAIN_INVALID: [
    400,
    'domain: give a host name such as app.example.com, *.example.com for all below it, or * for any',
  ],
  CLIENT_REFUSED: [
    401,
    'This app is not known here: send the headers clientid and clientsecret of a registered one',
  ],
  CLIENT_NOT_FOUND: [404, 'There is no such client'],
  CLIENT_EXISTS: [409, 'A client with this alias exists already'],
  CHANNEL_NOT_FOUND: [404, 'There is no such channel'],
  CHANNEL_FORBIDDEN: [403, 'You may not join this channel'],
  CHANNEL_SEND_FORBIDDEN: [403, 'You may receive from this channel, but not send to it'],
  CHANNEL_MEMBERSHIP_REQUIRED: [409, 'You are not in this channel: join it first'],
  CHANNEL_PRESENCE_DISABLED: [409, 'This channel has no presence'],
  CHANNEL_LIMIT_EXCEEDED: [409, 'You are in the maximum number of channels: leave some first'],
  CHANNEL_PAYLOAD_TOO_LARGE: [413, 'This is too large for the channel'],
  EVENT_RESOURCE_REQUIRED: [400, 'resourceId: name the resource to subscribe to'],
  EVENT_RELAY_FORBIDDEN: [403, 'You may not subscribe to this'],
  EVENT_RELAY_NOT_FOUND: [404, 'There is no such event relay'],
  EVENT_RELAY_EXISTS: [409, 'An event relay with this name exists already'],
  EVENT_RELAY_LIMIT_EXCEEDED: [
    409,
    'The maximum number of event relays is reached: delete one first',
  ],
  EVENT_SUBSCRIPTION_LIMIT_EXCEEDED: [
    409,
    'This socket has the maximum number of subscriptions: unsubscribe from some first',
  ],
  CAPTCHA_UNAVAILABLE: [503, 'Captchas cannot be checked now: try again in a moment'],
});
