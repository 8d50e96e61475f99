/** Configuration of messages to people (spec/communications.md section 3). Times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';
import { emailConfig, emailProblems, emailTransports } from './config/email.ts';
import { addressProblems, flag } from './config/leaves.ts';
import { legacyDocuments } from './config/legacy.ts';
import { pushConfig, pushProblems, pushProviders } from './config/push.ts';
import { smsConfig, smsProblems, smsProviders } from './config/sms.ts';
import { isTimezone, localePattern } from './readers.ts';

const day = 24 * 60 * 60_000;
const time = {
  default: '',
  maxLength: 5,
  pattern: '^(?:(?:[01][0-9]|2[0-3]):[0-5][0-9])?$',
} as const;

const pace = (provider: string) =>
  Type.Number({
    ...harmless,
    default: 0,
    minimum: 0,
    maximum: 10_000,
    description: `Messages in a second through ${provider}. 0: no limit.`,
  });
const providerNames = [...emailTransports, ...smsProviders, ...pushProviders];
const paces: Readonly<Record<string, ReturnType<typeof pace>>> = Object.fromEntries(
  [...new Set(providerNames)]
    .filter((name) => name !== 'mock' && name !== 'basic')
    .map((name) => [name, pace(name)]),
);

export const communicationsConfig = defineConfig({
  schema: Type.Object({
    email: emailConfig,
    pushNotifications: pushConfig,
    sms: smsConfig,
    messages: Type.Object({
      retention: Type.Integer({
        ...harmless,
        default: 7 * day,
        minimum: 60_000,
        maximum: 365 * day,
        description:
          'How long messages are listed. What was sent is listed without its content. Milliseconds.',
      }),
      allowOnly: Type.Array(Type.String({ minLength: 1, maxLength: 254 }), {
        default: [],
        maxItems: 1000,
        description:
          'Only these get messages: addresses, domains (`@example.com`), numbers, ids of users. Messages to all others are captured. Empty: everybody.',
      }),
    }),
    defaultLocale: Type.String({
      ...harmless,
      default: '',
      pattern: `^$|${localePattern}`,
      description:
        'Language of readers who have not said theirs, such as de, where a template has it. Empty: the first text of the template.',
    }),
    quietHours: Type.Object(
      {
        start: Type.String({
          ...time,
          description: 'When they begin, such as 22:00. Empty: never.',
        }),
        end: Type.String({ ...time, description: 'When they end, such as 07:30.' }),
        timezone: Type.String({
          default: 'UTC',
          maxLength: 60,
          description: 'Where a user is who has not said it, such as Europe/Athens.',
        }),
      },
      {
        description:
          'Messages that have a category and are not critical wait until these hours are over, by the clock of each user. Users may choose others.',
      },
    ),
    orchestration: Type.Object({
      retryAttempts: Type.Integer({
        ...harmless,
        default: 15,
        minimum: 0,
        maximum: 50,
        description:
          'How often a provider that is away or over its limit is asked again. Not what it refuses for good, nor one that refuses our key.',
      }),
      retryDelay: Type.Integer({
        ...harmless,
        default: 1000,
        minimum: 100,
        maximum: 3_600_000,
        description:
          'Pause before the second attempt; each further one is twice as long, and none longer than an hour. What a provider asks for goes before it. Milliseconds.',
      }),
      timeout: Type.Integer({
        ...harmless,
        default: 30_000,
        minimum: 100,
        maximum: 60_000,
        description:
          'How long a provider has to answer one request, and a mail server may be silent (all in all twelve times as long, four minutes at most). What it did with the message is not known then. Milliseconds.',
      }),
      fallbackTimeout: Type.Integer({
        ...harmless,
        default: 5000,
        minimum: 100,
        maximum: 604_800_000,
        description:
          'How long a step of a chain has before the next, where it does not say. Milliseconds.',
      }),
    }),
    suppression: Type.Object({
      enabled: flag(
        true,
        'Whether addresses that bounce for good, complain or opt out get no further messages.',
      ),
    }),
    providers: Type.Object({
      allowInternal: flag(
        false,
        'Whether providers may be on private addresses and without TLS (a gateway in your own network).',
      ),
      perSecond: Type.Object(paces, {
        description:
          'Messages that each provider gets in a second, from all nodes together. What is more waits in the queue. 0: no limit.',
      }),
    }),
  }),
  formerly: legacyDocuments,
  check: ({ email, pushNotifications, sms, quietHours }) => [
    ...(isTimezone(quietHours.timezone)
      ? []
      : [
          {
            path: 'quietHours.timezone',
            rule: 'timezone',
            message: 'write a name like Europe/Athens',
          },
        ]),
    ...emailProblems(email),
    ...pushProblems(pushNotifications),
    ...smsProblems(sms),
    ...addressProblems(email, 'email'),
    ...addressProblems(pushNotifications, 'pushNotifications'),
    ...addressProblems(sms, 'sms'),
  ],
});

export type CommunicationsConfig = Static<typeof communicationsConfig.schema>;
