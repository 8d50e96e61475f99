/** MailerSend's HTTP API. */
import { baseOf, type CallProvider, textAt, withoutId } from '../providers/outcome.ts';
import { type MailProvider, type MailSettings, type OutgoingMail, refusedMail } from './mail.ts';

const provider = 'mailersend';

export const createMailersend = (
  settings: () => MailSettings['mailersend'],
  call: CallProvider,
): MailProvider => ({
  async deliver(mail) {
    const { apiKey, endpoint } = settings();
    const answer = await call(`${baseOf(endpoint, 'https://api.mailersend.com')}/v1/email`, {
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(bodyOf(mail)),
    });
    if (!answer.ok) {
      const { errors } = answer.json();
      const said = `${textAt(answer.json(), 'message') ?? answer.text} ${errors ? JSON.stringify(errors) : ''}`;
      return refusedMail(provider, answer, said);
    }
    const id = answer.header('x-message-id');
    // Its warnings are JSON; a page of somebody in between is not.
    if (id === undefined && answer.text !== '') throw withoutId(provider, answer);
    return {
      outcome: 'accepted',
      provider,
      id,
      detail: String(answer.status),
    };
  },
});

const named = (addresses: readonly string[]) => addresses.map((email) => ({ email }));

const bodyOf = (mail: OutgoingMail): object => ({
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
