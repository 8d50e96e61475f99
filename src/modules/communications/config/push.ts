/** Configuration of push messages and the inbox. */
import Type, { type Static } from 'typebox';
import { harmless } from '../../../kernel/config/config-definition.ts';
import { type ConfigProblem, choice, endpoint, flag, privateKey, secret, text } from './leaves.ts';

const day = 24 * 60 * 60_000;

export const pushProviders = ['basic', 'firebase', 'onesignal', 'sns', 'apns'] as const;

export const pushConfig = Type.Object({
  active: flag(true, 'Whether users can be notified. Off: the routes answer 503.'),
  providerName: choice(
    pushProviders,
    'basic',
    'Who brings messages to devices. `basic`: nobody; they are put into the inbox and captured for operators.',
  ),
  firebase: Type.Object({
    projectId: text('Project of the service account.'),
    clientEmail: text('Address of the service account.'),
    privateKey: privateKey('Private key of the service account.'),
    endpoint: endpoint('https://fcm.googleapis.com'),
    tokenEndpoint: text(
      'Where access tokens are asked for.',
      'https://oauth2.googleapis.com/token',
    ),
  }),
  onesignal: Type.Object({
    appId: text('Id of the app.'),
    apiKey: secret('Key of the app.'),
    endpoint: endpoint('https://api.onesignal.com'),
  }),
  sns: Type.Object({
    region: text('Region, such as eu-central-1.'),
    accessKeyId: text('Id of the access key.'),
    secretAccessKey: secret('The access key.'),
    gcmApplicationArn: text('Platform application for Android and web.'),
    apnsApplicationArn: text('Platform application for Apple devices.'),
    endpoint: endpoint('https://sns.<region>.amazonaws.com'),
  }),
  apns: Type.Object({
    keyId: text(
      'Id of the signing key. With a key set, devices of Apple are reached directly, whatever the provider.',
    ),
    teamId: text('Id of the team.'),
    bundleId: text('Bundle id of the app.'),
    privateKey: privateKey('The signing key (.p8).'),
    production: flag(true, 'Whether devices that do not say otherwise are in production.'),
    endpoint: endpoint('https://api.push.apple.com'),
  }),
  webpush: Type.Object({
    publicKey: text(
      'VAPID public key: 65 bytes, base64url. With a key pair set, browsers are reached directly.',
    ),
    privateKey: secret('VAPID private key: 32 bytes, base64url.'),
    subject: text('How push services reach you: mailto: or https:.'),
    allowInternal: flag(
      false,
      'Whether subscriptions may point into your own network. They come from users: leave it off outside of tests.',
    ),
  }),
  inbox: Type.Object({
    retention: Type.Integer({
      ...harmless,
      default: 90 * day,
      minimum: 60_000,
      maximum: 3650 * day,
      description: 'How long entries of the inbox are kept. Milliseconds.',
    }),
  }),
  maxDevices: Type.Integer({
    default: 50,
    minimum: 1,
    maximum: 1000,
    description: 'Devices of one user; the one that was not seen for longest makes room.',
  }),
  maxPerRecipient: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Messages that one user gets in an hour. More are dropped.',
  }),
});

export type PushConfig = Static<typeof pushConfig>;

const required: Readonly<Record<string, readonly string[]>> = {
  firebase: ['projectId', 'clientEmail', 'privateKey'],
  onesignal: ['appId', 'apiKey'],
  sns: ['region', 'accessKeyId', 'secretAccessKey'],
  apns: ['keyId', 'teamId', 'bundleId', 'privateKey'],
};

/** What the chosen provider still needs. */
export function pushProblems(config: PushConfig): ConfigProblem[] {
  const { providerName, webpush } = config;
  const block = Reflect.get(config, providerName) as Readonly<Record<string, unknown>>;
  const missing = (required[providerName] ?? []).filter((key) => block[key] === '');
  const half = webpush.publicKey !== '' && webpush.privateKey === '';
  return [
    ...missing.map((key) => ({
      path: `pushNotifications.${providerName}.${key}`,
      rule: 'required',
      message: `${providerName} needs it`,
    })),
    ...(half
      ? [
          {
            path: 'pushNotifications.webpush.privateKey',
            rule: 'required',
            message: 'the public key needs it',
          },
        ]
      : []),
    ...(webpush.publicKey !== '' && !/^(?:mailto:[^@]+@[^@]+|https:\/\/.+)$/.test(webpush.subject)
      ? [
          {
            path: 'pushNotifications.webpush.subject',
            rule: 'format',
            message: 'write mailto:... or https://...',
          },
        ]
      : []),
  ];
}
