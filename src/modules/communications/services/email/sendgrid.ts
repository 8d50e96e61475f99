/** SendGrid's HTTP API. */
import {
  baseOf,
  type CallProvider,
  listAt,
  type ProviderAnswer,
  textAt,
  withoutId,
} from '../providers/outcome.ts';
import { type MailProvider, type MailSettings, type OutgoingMail, refusedMail } from './mail.ts';

const provider = 'sendgrid';
type Settings = MailSettings['sendgrid'];

export const sendgridRequest = ({ endpoint, residency, apiKey }: Settings, rest: string) => ({
  url: `${baseOf(endpoint, residency === 'eu' ? 'https://api.eu.sendgrid.com' : 'https://api.sendgrid.com')}/v3/${rest}`,
  headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
});

export const createSendgrid = (settings: () => Settings, call: CallProvider): MailProvider => ({
  async deliver(mail) {
    const { url, headers } = sendgridRequest(settings(), 'mail/send');
    const answer = await call(url, { headers, body: JSON.stringify(bodyOf(mail)) });
    if (!answer.ok) return refusedMail(provider, answer, sendgridWords(answer));
    // 202, or 200 in its sandbox, with an empty body; the id is in a header.
    const id = answer.header('x-message-id');
    if (id === undefined && answer.text !== '') throw withoutId(provider, answer);
    return {
      outcome: 'accepted',
      provider,
      id,
      detail: String(answer.status),
    };
  },
});

export const sendgridWords = (answer: ProviderAnswer): string =>
  listAt(answer.json(), 'errors')
    .map((error) => `${textAt(error, 'field') ?? ''} ${textAt(error, 'message') ?? ''}`.trim())
    .join('; ') || answer.text;

const named = (addresses: readonly string[]) => addresses.map((email) => ({ email }));

function trackingOf({ opens, clicks }: OutgoingMail['tracking']): object {
  const settings = {
    ...(opens === undefined ? {} : { open_tracking: { enable: opens } }),
    ...(clicks === undefined ? {} : { click_tracking: { enable: clicks } }),
  };
  return Object.keys(settings).length === 0 ? {} : { tracking_settings: settings };
}

const bodyOf = (mail: OutgoingMail): object => ({
  personalizations: [
    {
      to: named([mail.to]),
      ...(mail.cc.length === 0 ? {} : { cc: named(mail.cc) }),
      ...(mail.bcc.length === 0 ? {} : { bcc: named(mail.bcc) }),
      custom_args: { penstock_id: mail.id },
    },
  ],
  from: { email: mail.from },
  ...(mail.replyTo === undefined ? {} : { reply_to: { email: mail.replyTo } }),
  subject: mail.subject,
  // The plain text goes first, as SendGrid asks.
  content: [
    { type: 'text/plain', value: mail.text || ' ' },
    ...(mail.html === undefined ? [] : [{ type: 'text/html', value: mail.html }]),
  ],
  headers: { ...mail.headers, 'Message-ID': mail.messageId },
  ...trackingOf(mail.tracking),
  ...(mail.attachments.length === 0
    ? {}
    : {
        attachments: mail.attachments.map(({ filename, contentType, content, contentId }) => ({
          content,
          filename,
          type: contentType,
          disposition: contentId === undefined ? 'attachment' : 'inline',
          ...(contentId === undefined ? {} : { content_id: contentId }),
        })),
      }),
});
