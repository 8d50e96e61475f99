/** Mail providers that take each mail with one request: Mailgun, SendGrid and MailerSend. */
import {
  baseOf,
  basicAuth,
  type CallProvider,
  listAt,
  type ProviderAnswer,
  textAt,
  withoutId,
} from '../providers/outcome.ts';
import { type MailProvider, type MailSettings, type OutgoingMail, refusedMail } from './mail.ts';

const named = (addresses: readonly string[]) => addresses.map((email) => ({ email }));

/* Mailgun. */

interface MailgunSettings {
  readonly settings: MailSettings['mailgun'];
  readonly sendingDomain: string;
}

/** `<base>/v3/<domain>/<rest>` and the header that opens it. */
export const mailgunRequest = ({ settings, sendingDomain }: MailgunSettings, rest: string) => ({
  url: `${baseOf(settings.endpoint, 'https://api.mailgun.net')}/v3/${encodeURIComponent(settings.domain || sendingDomain)}/${rest}`,
  headers: { authorization: basicAuth('api', settings.apiKey) },
});

export const createMailgun = (
  current: () => MailgunSettings,
  call: CallProvider,
): MailProvider => ({
  async deliver(mail) {
    const { url, headers } = mailgunRequest(current(), 'messages');
    const form = new Response(mailgunForm(mail));
    const answer = await call(url, {
      headers: { ...headers, 'content-type': form.headers.get('content-type') ?? '' },
      body: new Uint8Array(await form.arrayBuffer()),
    });
    if (!answer.ok)
      return refusedMail('mailgun', answer, textAt(answer.json(), 'message') ?? answer.text);
    const id = textAt(answer.json(), 'id');
    if (id === undefined) throw withoutId('mailgun', answer);
    return {
      outcome: 'accepted',
      provider: 'mailgun',
      id: id.replace(/^<|>$/g, ''),
      detail: answer.text,
    };
  },
});

function mailgunForm(mail: OutgoingMail): FormData {
  const form = new FormData();
  form.append('from', mail.from);
  form.append('to', mail.to);
  for (const address of mail.cc) form.append('cc', address);
  for (const address of mail.bcc) form.append('bcc', address);
  form.append('subject', mail.subject);
  form.append('text', mail.text);
  if (mail.html !== undefined) form.append('html', mail.html);
  form.append('h:Message-Id', mail.messageId);
  if (mail.replyTo !== undefined) form.append('h:Reply-To', mail.replyTo);
  for (const [name, value] of Object.entries(mail.headers)) form.append(`h:${name}`, value);
  for (const [name, on] of Object.entries(mail.tracking))
    form.append(`o:tracking-${name}`, on ? 'yes' : 'no');
  form.append('v:penstock-id', mail.id);
  for (const { filename, contentType, content, contentId } of mail.attachments) {
    const bytes = new Blob([Buffer.from(content, 'base64')], { type: contentType });
    form.append(contentId === undefined ? 'attachment' : 'inline', bytes, contentId ?? filename);
  }
  return form;
}

/* SendGrid. */

type Settings = MailSettings['sendgrid'];

export const sendgridRequest = ({ endpoint, residency, apiKey }: Settings, rest: string) => ({
  url: `${baseOf(endpoint, residency === 'eu' ? 'https://api.eu.sendgrid.com' : 'https://api.sendgrid.com')}/v3/${rest}`,
  headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
});

export const createSendgrid = (settings: () => Settings, call: CallProvider): MailProvider => ({
  async deliver(mail) {
    const { url, headers } = sendgridRequest(settings(), 'mail/send');
    const answer = await call(url, { headers, body: JSON.stringify(sendgridBody(mail)) });
    if (!answer.ok) return refusedMail('sendgrid', answer, sendgridWords(answer));
    // 202, or 200 in its sandbox, with an empty body; the id is in a header.
    const id = answer.header('x-message-id');
    if (id === undefined && answer.text !== '') throw withoutId('sendgrid', answer);
    return {
      outcome: 'accepted',
      provider: 'sendgrid',
      id,
      detail: String(answer.status),
    };
  },
});

export const sendgridWords = (answer: ProviderAnswer): string =>
  listAt(answer.json(), 'errors')
    .map((error) => `${textAt(error, 'field') ?? ''} ${textAt(error, 'message') ?? ''}`.trim())
    .join('; ') || answer.text;

function trackingOf({ opens, clicks }: OutgoingMail['tracking']): object {
  const settings = {
    ...(opens === undefined ? {} : { open_tracking: { enable: opens } }),
    ...(clicks === undefined ? {} : { click_tracking: { enable: clicks } }),
  };
  return Object.keys(settings).length === 0 ? {} : { tracking_settings: settings };
}

const sendgridBody = (mail: OutgoingMail): object => ({
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

/* MailerSend. */

export const createMailersend = (
  settings: () => MailSettings['mailersend'],
  call: CallProvider,
): MailProvider => ({
  async deliver(mail) {
    const { apiKey, endpoint } = settings();
    const answer = await call(`${baseOf(endpoint, 'https://api.mailersend.com')}/v1/email`, {
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(mailersendBody(mail)),
    });
    if (!answer.ok) {
      const { errors } = answer.json();
      const said = `${textAt(answer.json(), 'message') ?? answer.text} ${errors ? JSON.stringify(errors) : ''}`;
      return refusedMail('mailersend', answer, said);
    }
    const id = answer.header('x-message-id');
    // Its warnings are JSON; a page of somebody in between is not.
    if (id === undefined && answer.text !== '') throw withoutId('mailersend', answer);
    return {
      outcome: 'accepted',
      provider: 'mailersend',
      id,
      detail: String(answer.status),
    };
  },
});

const mailersendBody = (mail: OutgoingMail): object => ({
  from: { email: mail.from },
  to: named([mail.to]),
  ...(mail.cc.length === 0 ? {} : { cc: named(mail.cc) }),
  ...(mail.bcc.length === 0 ? {} : { bcc: named(mail.bcc) }),
  ...(mail.replyTo === undefined ? {} : { reply_to: { email: mail.replyTo } }),
  subject: mail.subject,
  text: mail.text,
  ...(mail.html === undefined ? {} : { html: mail.html }),
  headers: Object.entries(mail.headers).map(([name, value]) => ({ name, value })),
  ...(Object.keys(mail.tracking).length === 0
    ? {}
    : { settings: { track_opens: mail.tracking.opens, track_clicks: mail.tracking.clicks } }),
  attachments: mail.attachments.map(({ filename, content, contentId }) => ({
    filename,
    content,
    disposition: contentId === undefined ? 'attachment' : 'inline',
    ...(contentId === undefined ? {} : { id: contentId }),
  })),
});
