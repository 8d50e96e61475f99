/** Configuration of text messages. */
import Type, { type Static } from 'typebox';
import {
  type ConfigProblem,
  choice,
  endpoint,
  flag,
  providerList,
  secret,
  text,
} from './leaves.ts';

export const smsProviders = ['mock', 'twilio', 'messageBird', 'clickSend', 'awsSns'] as const;

export const smsConfig = Type.Object({
  active: flag(true, 'Whether text messages are sent. Off: routes that need them are gone.'),
  providerName: choice(
    smsProviders,
    'mock',
    'Who sends. `mock`: messages are captured for operators to read instead of being sent.',
  ),
  failover: providerList(
    smsProviders.filter((name) => name !== 'mock'),
    'Who is asked, in this order, where the provider cannot: it is away, over its limit, or refuses our key. Not where it is unknown whether it took the message.',
  ),
  twilio: Type.Object({
    phoneNumber: text('Number to send from, or the id of a messaging service (MG...).'),
    accountSID: text('Id of the account.'),
    authToken: secret('Token of the account.'),
    endpoint: endpoint('https://api.twilio.com'),
  }),
  messageBird: Type.Object({
    accessKeyId: secret('Access key.'),
    originatorName: text('Number or name to send from.'),
    endpoint: endpoint('https://rest.messagebird.com'),
  }),
  clickSend: Type.Object({
    username: text('Name of the account.'),
    clicksendApiKey: secret('Key of the account.'),
    sender: text('Number or name to send from; empty for a shared number.'),
    endpoint: endpoint('https://rest.clicksend.com'),
  }),
  awsSns: Type.Object({
    region: text('Region, such as eu-central-1.'),
    accessKeyId: text('Id of the access key.'),
    secretAccessKey: secret('The access key.'),
    senderId: text('Name to send from, where the country allows it.'),
    endpoint: endpoint('https://sns.<region>.amazonaws.com'),
  }),
  statusCallbacks: flag(
    false,
    'Whether Twilio and MessageBird are asked to report deliveries to the client surface. It must be reachable for them under hostUrl of the router.',
  ),
  maxPerRecipient: Type.Integer({
    default: 5,
    minimum: 1,
    maximum: 100_000,
    description:
      'Messages that one number gets in an hour. More are dropped, so that nobody can be flooded.',
  }),
});

export type SmsConfig = Static<typeof smsConfig>;

const required: Readonly<Record<string, readonly string[]>> = {
  twilio: ['accountSID', 'authToken', 'phoneNumber'],
  messageBird: ['accessKeyId', 'originatorName'],
  clickSend: ['username', 'clicksendApiKey'],
  awsSns: ['region', 'accessKeyId', 'secretAccessKey'],
};

/** What the chosen provider still needs. */
export function smsProblems(config: SmsConfig): ConfigProblem[] {
  const { providerName, failover } = config;
  const missing = [...new Set([providerName, ...failover])].flatMap((name) => {
    const block = Reflect.get(config, name) as Readonly<Record<string, unknown>> | undefined;
    return (required[name] ?? [])
      .filter((key) => block?.[key] === '')
      .map((key) => ({
        path: `sms.${name}.${key}`,
        rule: 'required',
        message: `${name} needs it`,
      }));
  });
  if (failover.length === 0 || providerName !== 'mock') return missing;
  const message = 'choose a provider that sends';
  return [...missing, { path: 'sms.failover', rule: 'required', message }];
}
