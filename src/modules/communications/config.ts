/** Configuration of messages to people (spec/communications.md section 3). Times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless, sensitive } from '../../kernel/config/definition.ts';
import { isMailDomain, isSender } from './recipients.ts';

const day = 24 * 60 * 60_000;
const text = (description: string, value = '') => Type.String({ default: value, maxLength: 500, description });
const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });

/** A name, or an address of either kind; empty for none. */
const serverName = /^[A-Za-z0-9._:-]*$/;

const smtp = Type.Object({
  host: text('Mail server. Empty: messages are captured for operators to read instead of being sent.'),
  port: Type.Integer({
    default: -1,
    minimum: -1,
    maximum: 65_535,
    description: 'Port of the mail server. -1: 465 with `secure`, else 587.',
  }),
  secure: flag(false, 'TLS from the first byte. Off: the connection is upgraded (STARTTLS) where the server offers it.'),
  ignoreTls: flag(false, 'Never upgrade the connection. Only for servers on the same machine or network.'),
  allowInvalidCertificates: flag(false, 'Accept a certificate that nobody vouches for. Only for servers on the same machine or network.'),
  auth: Type.Object({
    username: text('Name to log in with. Empty: no login.'),
    password: sensitive({ description: 'Password to log in with.' }),
    method: Type.Union([Type.Literal('PLAIN'), Type.Literal('LOGIN'), Type.Literal('CRAM-MD5')], {
      default: 'PLAIN',
      description: 'How to log in.',
    }),
  }),
});

export const communicationsConfig = defineConfig({
  schema: Type.Object({
    email: Type.Object({
      active: flag(true, 'Whether mail is sent. Off: routes that need mail are gone.'),
      transport: Type.Union([Type.Literal('smtp'), Type.Literal('mock')], {
        default: 'smtp',
        description: '`smtp`, or `mock`: messages are captured for operators to read instead of being sent.',
      }),
      sendingDomain: text('Domain of senders that are written without one. Needed with a mail server.'),
      sender: text('Sender of messages whose template names none; with or without a domain.', 'no-reply'),
      transportSettings: Type.Object({ smtp }),
      maxPerRecipient: Type.Integer({
        default: 20,
        minimum: 1,
        maximum: 100_000,
        description: 'Messages that one address gets in an hour. More are dropped, so that nobody can be flooded.',
      }),
    }),
    sms: Type.Object({
      active: flag(true, 'Whether text messages are sent. Off: routes that need them are gone.'),
      providerName: Type.Literal('mock', {
        default: 'mock',
        description: '`mock`: messages are captured for operators to read instead of being sent.',
      }),
      maxPerRecipient: Type.Integer({
        default: 5,
        minimum: 1,
        maximum: 100_000,
        description: 'Messages that one number gets in an hour. More are dropped, so that nobody can be flooded.',
      }),
    }),
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
        description: 'How long messages are listed. What was sent is listed without its content. Milliseconds.',
      }),
    }),
  }),
  check: ({ email: { sender, sendingDomain, transport, transportSettings } }) => {
    const { host } = transportSettings.smtp;
    const problem = (path: string, rule: string, message: string) => ({ path: `email.${path}`, rule, message });
    return [
      ...(isSender(sender) ? [] : [problem('sender', 'address', 'this is not an address to send from')]),
      ...(sendingDomain === '' || isMailDomain(sendingDomain)
        ? []
        : [problem('sendingDomain', 'hostname', 'write a domain like example.com')]),
      ...(serverName.test(host) ? [] : [problem('transportSettings.smtp.host', 'hostname', 'write a host name or an address')]),
      ...(transport === 'smtp' && host !== '' && sendingDomain === ''
        ? [problem('sendingDomain', 'required', 'name the domain that mail is sent from')]
        : []),
    ];
  },
});

export type CommunicationsConfig = Static<typeof communicationsConfig.schema>;
