/** Configuration of second factors and of the ways in that need no password. Times are in milliseconds. */
import { isIP } from 'node:net';
import Type, { type Static } from 'typebox';

const minute = 60_000;
const day = 24 * 60 * minute;

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const count = (value: number, description: string) =>
  Type.Integer({ default: value, minimum: 1, maximum: 100_000, description });
const text = (description: string, value = '') =>
  Type.String({ default: value, maxLength: 253, description });

export const factorsConfig = {
  twoFa: Type.Object({
    enabled: flag(
      false,
      'Whether users may switch on a second factor. Off: nobody new can; who has one is still asked for it, so that a setting never weakens an account.',
    ),
    required: flag(
      false,
      'Whether everybody needs one. Who has none can do nothing else after signing in than to set one up. Operators ask it of single users by `requiresTwoFA`.',
    ),
    methods: Type.Object({
      authenticator: flag(true, 'Codes of an authenticator app.'),
      sms: flag(false, 'Codes by text message. Weaker than an app: numbers can be taken over.'),
      passkey: flag(true, 'Passkeys, while users can have some (`passkeys.enabled`).'),
    }),
    backUpCodes: Type.Object({
      enabled: flag(
        true,
        'Whether users may make ten codes for the day on which they lose their device.',
      ),
    }),
    issuer: Type.String({
      default: 'Penstock',
      minLength: 1,
      maxLength: 60,
      pattern: '^[^:]+$',
      description: 'What authenticator apps call this installation.',
    }),
  }),
  passkeys: Type.Object({
    enabled: flag(
      false,
      'Whether users sign in with passkeys (WebAuthn), and use them as a second factor.',
    ),
    rpId: text(
      'The domain that passkeys belong to: that of your app, or one above it. Empty: the host of `hostUrl` in the router. A change makes all passkeys useless.',
    ),
    rpName: text('What browsers call this installation when they ask.', 'Penstock'),
    origins: Type.Array(Type.String({ minLength: 1, maxLength: 300 }), {
      default: [],
      maxItems: 50,
      description:
        'Where your app runs, like `https://app.example.com`; for Android apps `android:apk-key-hash:...`. Empty: the origin of `hostUrl` in the router.',
    }),
    maxPerUser: Type.Integer({
      default: 20,
      minimum: 1,
      maximum: 100,
      description: 'How many passkeys one user may have.',
    }),
  }),
  phoneAuthentication: Type.Object({
    enabled: flag(
      false,
      'Whether users register and sign in with a phone number and a code by text message.',
    ),
    codeLifetime: Type.Integer({
      default: 10 * minute,
      minimum: minute,
      maximum: 10 * minute,
      description: 'How long a code by text message works. Milliseconds.',
    }),
    maxPerNumber: count(
      5,
      'Messages that one number gets in an hour, and four times as many in a day. More requests are answered the same and send nothing.',
    ),
    maxPerPrefix: count(
      50,
      'Messages in an hour to all numbers that differ in the last four digits only: whoever is paid for calls to a range of numbers asks for many of them.',
    ),
    countries: Type.Array(Type.String({ pattern: '^[A-Z]{2}$' }), {
      default: [],
      maxItems: 300,
      description: 'Countries whose numbers may be used, as two letters (`GR`). Empty: all.',
    }),
  }),
  anonymousUsers: Type.Object({
    enabled: flag(
      false,
      'Whether the app may make users who have no name yet, and who can register later and keep their data.',
    ),
    expiry: Type.Integer({
      default: 30 * day,
      minimum: day,
      maximum: 3650 * day,
      description:
        'How long after their last sign of life anonymous users are deleted. Milliseconds.',
    }),
  }),
  biometricAuthentication: Type.Object({
    enabled: flag(
      false,
      'Whether apps sign in with a key that the device keeps behind its own lock. Passkeys are the better choice for new apps.',
    ),
    maxPerUser: Type.Integer({
      default: 20,
      minimum: 1,
      maximum: 100,
      description: 'How many devices one user may have.',
    }),
  }),
};

const schema = Type.Object(factorsConfig);
type FactorsConfig = Static<typeof schema>;

/** Contradictions, with dotted paths. */
export function factorsProblems({ twoFa, passkeys }: Pick<FactorsConfig, 'twoFa' | 'passkeys'>) {
  const problems = passkeys.origins.flatMap((origin, i) =>
    originProblem(origin, passkeys.rpId, `passkeys.origins.${i}`),
  );
  if (passkeys.rpId !== '' && !isHost(passkeys.rpId)) {
    problems.push({
      path: 'passkeys.rpId',
      rule: 'domain',
      message: 'write a domain alone, like example.com',
    });
  }
  if (twoFa.required && !twoFa.enabled) {
    problems.push({
      path: 'twoFa.required',
      rule: 'enabled',
      message: 'switch second factors on first (twoFa.enabled)',
    });
  }
  if (twoFa.required && !canBeSetUp({ twoFa, passkeys })) {
    problems.push({
      path: 'twoFa.methods',
      rule: 'required',
      message: 'a second factor is required: leave users a method',
    });
  }
  return problems;
}

/** Whether there is a second factor that somebody who has none can set up when they sign in. */
export const canBeSetUp = ({
  twoFa: { methods },
  passkeys,
}: Pick<FactorsConfig, 'twoFa' | 'passkeys'>): boolean =>
  methods.authenticator || methods.sms || (methods.passkey && passkeys.enabled);

/** A name: browsers accept no IP address here. */
const isHost = (text: string): boolean =>
  isIP(text) === 0 &&
  URL.canParse(`https://${text}`) &&
  new URL(`https://${text}`).hostname === text;

/** Browsers give a passkey only to pages of its domain, over a connection that nobody can read. */
function originProblem(origin: string, rpId: string, path: string) {
  if (/^android:apk-key-hash:[A-Za-z0-9_-]{43}$/.test(origin)) return [];
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  if (!url || url.origin !== origin)
    return [
      { path, rule: 'origin', message: 'write an origin alone, like https://app.example.com' },
    ];
  const isLocal = url.hostname === 'localhost';
  if (url.protocol !== 'https:' && !isLocal)
    return [{ path, rule: 'https', message: 'passkeys need https' }];
  const fits = rpId === '' || url.hostname === rpId || url.hostname.endsWith(`.${rpId}`);
  return fits ? [] : [{ path, rule: 'domain', message: 'this is not within passkeys.rpId' }];
}
