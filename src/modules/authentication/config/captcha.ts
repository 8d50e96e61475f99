/** Configuration of captchas. Which service checks them, and its secret, stand in the configuration of the router. */
import Type from 'typebox';

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });

export const captchaConfig = Type.Object({
  enabled: flag(
    false,
    'Whether the routes below want a captcha. The service is set up under `captcha` in the router; while it is off there, none is asked for.',
  ),
  routes: Type.Object({
    login: flag(false, 'Login with a password, and requests for a link, a code or a text to sign that signs in.'),
    register: flag(false, 'Registration, also of anonymous users, and by phone or wallet.'),
    oAuth2: flag(false, 'Sign-in at other providers.'),
  }),
  acceptablePlatform: Type.Object({
    android: flag(false, 'Whether registered apps of the platform ANDROID are asked too.'),
    web: flag(
      true,
      'Whether registered apps of the platform WEB are. Requests without a registered app always are, other platforms never.',
    ),
  }),
});
