/** Configuration of mail. */

import { createPrivateKey } from 'node:crypto';
import Type, { type Static } from 'typebox';
import { isMailDomain, isSender } from '../recipients.ts';
import {
  type ConfigProblem,
  choice,
  endpoint,
  flag,
  pemOf,
  privateKey,
  providerList,
  secret,
  text,
} from './leaves.ts';

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
  failover: providerList(
    emailTransports.filter((name) => name !== 'mock'),
    'Who is asked, in this order, where the transport cannot: it is away, over its limit, or refuses our key. Not where it is unknown whether it took the mail.',
  ),
  sendingDomain: text('Domain of senders that are written without one. Needed with a provider.'),
  sender: text(
    'Sender of messages whose template names none; with or without a domain.',
    'no-reply',
  ),
  allowForeignSenders: flag(
    false,
    'Whether requests and templates may name senders of other domains than `sendingDomain`, those below it, and that of `sender`. Receivers take such mails for forged unless that domain allows it (SPF, DKIM).',
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
  dkim: Type.Object(
    {
      selector: text('Selector: the key is published at <selector>._domainkey.<sendingDomain>.'),
      privateKey: privateKey('Private key, RSA in PEM.'),
    },
    {
      description:
        'Signs mails that go through a mail server (transport smtp). Providers sign by themselves. Empty: not signed.',
    },
  ),
  webhooks: Type.Object(
    {
      mailgun: Type.Object({ signingKey: secret('HTTP webhook signing key of the account.') }),
      sendgrid: Type.Object({
        publicKey: text(
          'Verification key of the signed event webhook: base64, as the console shows it.',
        ),
      }),
      amazonSes: Type.Object({
        topicArn: text('Topic of Amazon SNS that the configuration set publishes to.'),
        endpoint: endpoint('https://sns.<region>.amazonaws.com'),
      }),
      mandrill: Type.Object({ key: secret('Key of the webhook.') }),
      mailersend: Type.Object({ signingSecret: secret('Signing secret of the webhook.') }),
    },
    {
      description:
        'What signatures of providers are checked with, that report to /hook/communications/<provider> on the client surface. Without it their reports are refused.',
    },
  ),
  storeEmails: Type.Object({
    enabled: flag(
      false,
      'Whether the content of sent mails is kept (encrypted) as long as they are listed, so that they can be sent again.',
    ),
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

/** A selector that is none, or without a key, and what is no key. Without a selector nothing is signed. */
function dkimProblems({ dkim }: EmailConfig): ConfigProblem[] {
  const problem = (key: string, rule: string, message: string) => ({
    path: `email.dkim.${key}`,
    rule,
    message,
  });
  const { selector, privateKey: key } = dkim;
  return [
    ...(selector === '' || /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/.test(selector)
      ? []
      : [problem('selector', 'hostname', 'write the selector of the published key')]),
    ...((selector === '' && key === '') || isSigningKey(key)
      ? []
      : [problem('privateKey', 'key', 'must be an RSA private key in PEM')]),
  ];
}

function isSigningKey(pem: string): boolean {
  try {
    const { asymmetricKeyType: type } = createPrivateKey(pemOf(pem));
    return type === 'rsa';
  } catch {
    return false;
  }
}

export function emailProblems(config: EmailConfig): ConfigProblem[] {
  return [...dkimProblems(config), ...senderProblems(config), ...providerProblems(config)];
}

function senderProblems({
  sender,
  sendingDomain,
  transport,
  transportSettings,
}: EmailConfig): ConfigProblem[] {
  const { host } = transportSettings.smtp;
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
  ];
}

/** What the transport still needs, and those that are asked when it cannot. */
function providerProblems({
  transport,
  failover,
  transportSettings,
}: EmailConfig): ConfigProblem[] {
  const missing = [...new Set([transport, ...failover])].flatMap((name) => {
    const block = Reflect.get(transportSettings, name) as
      | Readonly<Record<string, unknown>>
      | undefined;
    const keys = name === 'smtp' && failover.length > 0 ? ['host'] : (required[name] ?? []);
    return keys
      .filter((key) => block?.[key] === '')
      .map((key) => ({
        path: `email.transportSettings.${name}.${key}`,
        rule: 'required',
        message: `${name} needs it`,
      }));
  });
  if (failover.length === 0 || transport !== 'mock') return missing;
  const message = 'choose a transport that sends';
  return [...missing, { path: 'email.failover', rule: 'required', message }];
}
