/** Mailgun's HTTP API. */
import { baseOf, basicAuth, type CallProvider, textAt, withoutId } from '../providers/outcome.ts';
import { type MailProvider, type MailSettings, type OutgoingMail, refusedMail } from './mail.ts';

const provider = 'mailgun';

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
    const form = new Response(formOf(mail));
    const answer = await call(url, {
      headers: { ...headers, 'content-type': form.headers.get('content-type') ?? '' },
      body: new Uint8Array(await form.arrayBuffer()),
    });
    if (!answer.ok)
      return refusedMail(provider, answer, textAt(answer.json(), 'message') ?? answer.text);
    const id = textAt(answer.json(), 'id');
    if (id === undefined) throw withoutId(provider, answer);
    return { outcome: 'accepted', provider, id: id.replace(/^<|>$/g, ''), detail: answer.text };
  },
});

function formOf(mail: OutgoingMail): FormData {
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
