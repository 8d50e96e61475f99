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
  CAPTCHA_UNAVAILABLE: [503, 'Captchas cannot be checked now: try again in a moment'],
});
