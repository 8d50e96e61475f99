/** Configuration of messages to people (spec/communications.md section 3). Times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';
import { emailConfig, emailProblems } from './config/email.ts';
import { addressProblems, flag } from './config/leaves.ts';
import { pushConfig, pushProblems } from './config/push.ts';
import { smsConfig, smsProblems } from './config/sms.ts';

const day = 24 * 60 * 60_000;

export const communicationsConfig = defineConfig({
  schema: Type.Object({
    email: emailConfig,
    pushNotifications: pushConfig,
    sms: smsConfig,
    messages: Type.Object({
      retries: Type.Integer({
        ...harmless,
        default: 15,
        minimum: 0,
        maximum: 50,
        description: 'How often delivery is tried again, with growing pauses of up to an hour.',
      }),
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
    providers: Type.Object({
      allowInternal: flag(
        false,
        'Whether providers may be on private addresses and without TLS (a gateway in your own network).',
      ),
    }),
  }),
  check: ({ email, pushNotifications, sms }) => [
    ...emailProblems(email),
    ...pushProblems(pushNotifications),
    ...smsProblems(sms),
    ...addressProblems(email, 'email'),
    ...addressProblems(pushNotifications, 'pushNotifications'),
    ...addressProblems(sms, 'sms'),
  ],
});

export type CommunicationsConfig = Static<typeof communicationsConfig.schema>;
