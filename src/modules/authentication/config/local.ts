/** Configuration of everything that works with an address, a name and a password. Times are in milliseconds. */
import Type from 'typebox';
import { address } from '../redirects.ts';

/* Configuration of captchas. Which service checks them, and its secret, stand in the configuration of the router. */

const captchaFlag = (value: boolean, description: string) =>
  Type.Boolean({ default: value, description });

export const captchaConfig = Type.Object({
  enabled: captchaFlag(
    false,
    'Whether the routes below want a captcha. The service is set up under `captcha` in the router; while it is off there, none is asked for.',
  ),
  routes: Type.Object({
    login: captchaFlag(
      false,
      'Login with a password, and requests for a link, a code or a text to sign that signs in.',
    ),
    register: captchaFlag(false, 'Registration, also of anonymous users, and by phone or wallet.'),
    oAuth2: captchaFlag(false, 'Sign-in at other providers.'),
  }),
  acceptablePlatform: Type.Object({
    android: captchaFlag(false, 'Whether registered apps of the platform ANDROID are asked too.'),
    web: captchaFlag(
      true,
      'Whether registered apps of the platform WEB are. Requests without a registered app always are, other platforms never.',
    ),
  }),
});

/* Who may write the fields by which the schema `User` was extended, where their definitions do not say it. */

export const userDataConfig = Type.Object({
  openByDefault: Type.Boolean({
    default: false,
    description:
      'Whether users may write every field that extends `User` and has no `access.write` of its own, with `userData`. Off: only operators and the server write those.',
  }),
  openFields: Type.Array(Type.String({ maxLength: 64 }), {
    default: [],
    maxItems: 1_000,
    description:
      'Fields that users may write although their definition has no `access.write`: those that were there before such fields belonged to the server. Better say it in the definition.',
  }),
});

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const duration = (value: number, maximum: number, description: string) =>
  Type.Integer({
    default: value,
    minimum: 1000,
    maximum,
    description: `${description} Milliseconds.`,
  });
const texts = (description: string) =>
  Type.Array(Type.String({ maxLength: 254 }), { default: [], maxItems: 10_000, description });

export const localConfig = Type.Object({
  enabled: flag(true, 'Whether users register and log in with e-mail and password.'),
  username_auth_enabled: flag(
    false,
    'Whether users log in with a user name and password. Operators make such accounts.',
  ),
  verification: Type.Object({
    required: flag(
      false,
      'Whether a user must prove their address before they can log in. Registering then answers the same for a taken address; its owner is told by mail.',
    ),
    send_email: flag(
      false,
      'Whether a registration sends the mail with which the address is proven.',
    ),
    method: Type.Union([Type.Literal('link'), Type.Literal('code')], {
      default: 'link',
      description:
        'What that mail holds: a link, or six digits to type at POST /authentication/local/verify-email.',
    }),
    redirect_uri: address(
      'Where the browser goes after the link. Empty: a plain page says that it worked.',
    ),
    resend_threshold: duration(
      minute,
      day,
      'How long one must wait before the same mail is sent again.',
    ),
  }),
  forgot_password_redirect_uri: address(
    'The page of the app on which a new password is chosen; `reset_token` is added to its query. Empty: the mail holds the token itself.',
  ),
});

export const magicLinkConfig = Type.Object({
  enabled: flag(false, 'Whether users sign in by a link in a mail.'),
  redirect_uri: address(
    'Where the browser goes with the tokens after the link. Empty: the tokens are the answer.',
  ),
  link_uri: address(
    'The page of the app that the link leads to instead of our own; `magicToken` is added to its query, and the app exchanges it at POST /authentication/magic-link/:magicToken.',
  ),
});

export const emailCodeConfig = Type.Object({
  enabled: flag(false, 'Whether users sign in by six digits in a mail.'),
});

/** How long the secrets in messages work. */
export const lifetimesConfig = Type.Object({
  verification: duration(day, 30 * day, 'The link or code that proves an address.'),
  passwordReset: duration(30 * minute, day, 'The link that sets a new password.'),
  magicLink: duration(10 * minute, day, 'The link or code that signs in.'),
  changeEmail: duration(day, 7 * day, 'The link that proves a new address.'),
  undoChangeEmail: duration(
    7 * day,
    90 * day,
    'The link with which the old address takes a change back.',
  ),
});

export const emailRestrictionsConfig = Type.Object({
  enabled: flag(false, 'Whether the rules below hold for new addresses.'),
  blockDisposableEmails: flag(
    true,
    'Refuse addresses of throw-away mail services (a list that comes with the platform).',
  ),
  blockPlusAddressing: flag(true, 'Refuse addresses with a plus sign before the @.'),
  blockedAddresses: texts('Addresses that are refused.'),
  blockedDomains: texts('Domains that are refused, with everything below them.'),
  allowedAddresses: texts('Addresses that are accepted whatever the other rules say.'),
  allowedDomains: texts(
    'Domains that are accepted whatever the other rules say, with everything below them.',
  ),
});

export const passwordsConfig = Type.Object({
  minLength: Type.Integer({
    default: 8,
    minimum: 8,
    maximum: 128,
    description: 'Least number of characters of a new password.',
  }),
  blockCommon: flag(true, 'Whether well-known passwords are refused.'),
  contextWords: texts(
    'Names of the product and the like: a password that is little more than one of them is refused.',
  ),
  breached: Type.Object({
    enabled: flag(
      false,
      'Whether new passwords are looked up in a list of leaked ones. Only five characters of a hash leave the platform.',
    ),
    url: Type.String({
      default: 'https://api.pwnedpasswords.com/range/',
      maxLength: 500,
      description: 'The service that is asked, without the five characters at the end.',
    }),
    failClosed: flag(
      false,
      'Refuse new passwords while the service does not answer. Off: accept them and log it.',
    ),
  }),
});
