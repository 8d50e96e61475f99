/** Configuration of mail. */
import Type, { type Static } from 'typebox';
import { isMailDomain, isSender } from '../recipients.ts';
import { type ConfigProblem, choice, endpoint, flag, secret, text } from './leaves.ts';

/** A name, or an address of either kind; empty for none. */
const serverName = /^[A-Za-z0-9._:-]*$/;

export const emailTransports = [
  'smtp',
  'mailgun',
  'sendgrid',
  'amazonSes',
  'mandrill',
  'mailersend',
  'mock',
] as const;

const smtp = Type.Object({
  host: text(
    'Mail server. Empty: messages are captured for operators to read instead of being sent.',
  ),
  port: Type.Integer({
    default: -1,
    minimum: -1,
    maximum: 65_535,
    description: 'Port of the mail server. -1: 465 with `secure`, else 587.',
  }),
  secure: flag(
    false,
    'TLS from the first byte. Off: the connection is upgraded (STARTTLS) where the server offers it.',
  ),
  ignoreTls: flag(
    false,
    'Never upgrade the connection. Only for servers on the same machine or network.',
  ),
  allowInvalidCertificates: flag(
    false,
    'Accept a certificate that nobody vouches for. Only for servers on the same machine or network.',
  ),
  auth: Type.Object({
    username: text('Name to log in with. Empty: no login.'),
    password: secret('Password to log in with.'),
    method: choice(['PLAIN', 'LOGIN', 'CRAM-MD5'], 'PLAIN', 'How to log in.'),
  }),
});

export const emailConfig = Type.Object({
  active: flag(true, 'Whether mail is sent. Off: routes that need mail are gone.'),
  transport: choice(
    emailTransports,
    'smtp',
    'Who sends. `mock`: messages are captured for operators to read instead of being sent.',
  ),
  sendingDomain: text('Domain of senders that are written without one. Needed with a provider.'),
  sender: text(
    'Sender of messages whose template names none; with or without a domain.',
    'no-reply',
  ),
  transportSettings: Type.Object({
    smtp,
    mailgun: Type.Object({
      apiKey: secret('Key of the account.'),
      domain: text('Domain at Mailgun; `sendingDomain` unless set.'),
      endpoint: endpoint('https://api.mailgun.net (EU: https://api.eu.mailgun.net)'),
    }),
    sendgrid: Type.Object({
      apiKey: secret('Key of the account.'),
      residency: choice(['global', 'eu'], 'global', 'Where data stays.'),
      endpoint: endpoint('https://api.sendgrid.com'),
    }),
    amazonSes: Type.Object({
      region: text('Region, such as eu-central-1.'),
      accessKeyId: text('Id of the access key.'),
      secretAccessKey: secret('The access key.'),
      configurationSet: text('Configuration set of the messages.'),
      endpoint: endpoint('https://email.<region>.amazonaws.com'),
    }),
    mandrill: Type.Object({
      apiKey: secret('Key of the account.'),
      endpoint: endpoint('https://mandrillapp.com'),
    }),
    mailersend: Type.Object({
      apiKey: secret('Key of the account.'),
      endpoint: endpoint('https://api.mailersend.com'),
    }),
  }),
  maxPerRecipient: Type.Integer({
    default: 20,
    minimum: 1,
    maximum: 100_000,
    description:
      'Messages that one address gets in an hour. More are dropped, so that nobody can be flooded.',
  }),
});

export type EmailConfig = Static<typeof emailConfig>;

const required: Readonly<Record<string, readonly string[]>> = {
  mailgun: ['apiKey'],
  sendgrid: ['apiKey'],
  amazonSes: ['region', 'accessKeyId', 'secretAccessKey'],
  mandrill: ['apiKey'],
  mailersend: ['apiKey'],
};

export function emailProblems({
  sender,
  sendingDomain,
  transport,
  transportSettings,
}: EmailConfig): ConfigProblem[] {
  const { host } = transportSettings.smtp;
  const block = Reflect.get(transportSettings, transport) as
    | Readonly<Record<string, unknown>>
    | undefined;
  const problem = (path: string, rule: string, message: string) => ({
    path: `email.${path}`,
    rule,
    message,
  });
  const sends = transport === 'smtp' ? host !== '' : transport !== 'mock';
  return [
    ...(isSender(sender)
      ? []
      : [problem('sender', 'address', 'this is not an address to send from')]),
    ...(sendingDomain === '' || isMailDomain(sendingDomain)
      ? []
      : [problem('sendingDomain', 'hostname', 'write a domain like example.com')]),
    ...(serverName.test(host)
      ? []
      : [problem('transportSettings.smtp.host', 'hostname', 'write a host name or an address')]),
    ...(sends && sendingDomain === ''
      ? [problem('sendingDomain', 'required', 'name the domain that mail is sent from')]
      : []),
    ...(required[transport] ?? [])
      .filter((key) => block?.[key] === '')
      .map((key) =>
        problem(`transportSettings.${transport}.${key}`, 'required', `${transport} needs it`),
      ),
  ];
}
