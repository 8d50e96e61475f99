/** Mandrill's HTTP API. The key is in the body, and failures are 500 whatever their cause. */
import {
  baseOf,
  type CallProvider,
  type Delivery,
  DeliveryError,
  type ProviderAnswer,
  textAt,
  withoutId,
  words,
} from '../providers/outcome.ts';
import type { MailProvider, MailSettings, OutgoingMail } from './mail.ts';

const provider = 'mandrill';

export const createMandrill = (
  settings: () => MailSettings['mandrill'],
  call: CallProvider,
): MailProvider => ({
  async deliver(mail) {
    const { apiKey, endpoint } = settings();
    const answer = await call(
      `${baseOf(endpoint, 'https://mandrillapp.com')}/api/1.0/messages/send.json`,
      {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key: apiKey, message: messageOf(mail) }),
      },
    );
    return answer.ok ? resultOf(answer, mail.to) : refusal(answer);
  },
});

/** One entry per recipient; that of `to` decides. */
function resultOf(answer: ProviderAnswer, to: string): Delivery {
  const entries = answer.json() as unknown;
  const list: readonly unknown[] = Array.isArray(entries) ? entries : [];
  const entry = list.find((one) => textAt(one, 'email') === to) ?? list[0];
  const status = textAt(entry, 'status');
  if (status === 'rejected' || status === 'invalid')
    return {
      outcome: 'refused',
      provider,
      about: 'recipient',
      reason: words(`${status} ${textAt(entry, 'reject_reason') ?? ''}`),
    };
  if (status === undefined) throw withoutId(provider, answer);
  return { outcome: 'accepted', provider, id: textAt(entry, '_id'), detail: status };
}

function refusal(answer: ProviderAnswer): Delivery {
  const body = answer.json();
  const name = textAt(body, 'name') ?? '';
  const reason = words(`${answer.status} ${name} ${textAt(body, 'message') ?? answer.text}`);
  if (name === 'Invalid_Key') throw new DeliveryError('auth', provider, reason);
  if (name === 'ValidationError') return { outcome: 'refused', provider, about: 'content', reason };
  throw new DeliveryError('transient', provider, reason);
}

const messageOf = (mail: OutgoingMail): object => ({
  from_email: mail.from,
  to: [
    { email: mail.to, type: 'to' },
    ...mail.cc.map((email) => ({ email, type: 'cc' })),
    ...mail.bcc.map((email) => ({ email, type: 'bcc' })),
  ],
  subject: mail.subject,
  text: mail.text,
  ...(mail.html === undefined ? {} : { html: mail.html }),
  headers: {
    ...mail.headers,
    'Message-Id': mail.messageId,
    ...(mail.replyTo === undefined ? {} : { 'Reply-To': mail.replyTo }),
  },
  preserve_recipients: true,
  track_opens: mail.tracking.opens,
  track_clicks: mail.tracking.clicks,
  metadata: { penstock_id: mail.id },
  attachments: mail.attachments
    .filter(({ contentId }) => contentId === undefined)
    .map(({ filename, contentType, content }) => ({ name: filename, type: contentType, content })),
  images: mail.attachments
    .filter(({ contentId }) => contentId !== undefined)
    .map(({ contentId, contentType, content }) => ({
      name: contentId,
      type: contentType,
      content,
    })),
});
