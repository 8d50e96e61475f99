/** Reports of mail providers that sign with a shared key, and of SendGrid, which signs with a key pair. */
import { createPublicKey, verify } from 'node:crypto';
import { listAt, textAt } from '../providers/outcome.ts';
import {
  formOf,
  hmac,
  isFresh,
  jsonOf,
  ownId,
  type ReadReports,
  type Report,
  refuseHook,
  requireKey,
  requireSame,
  said,
  sortedFields,
} from './report.ts';

type Kind = Report['kind'];
const kindsOf = (kinds: Readonly<Record<string, Kind>>): ReadonlyMap<string, Kind> =>
  new Map(Object.entries(kinds));

const mailgunKinds = kindsOf({
  accepted: 'processed',
  delivered: 'delivered',
  opened: 'opened',
  clicked: 'clicked',
  complained: 'complained',
  unsubscribed: 'unsubscribed',
  rejected: 'failed',
});

/** The signature covers time and token alone, so a token counts once. */
export const mailgunHook =
  (key: () => string): ReadReports =>
  ({ raw }) => {
    const signingKey = requireKey(key());
    const body = jsonOf(raw.toString('utf8'));
    const [timestamp = '', token = '', signature] = ['timestamp', 'token', 'signature'].map(
      (name) => textAt(body, 'signature', name),
    );
    requireSame(signature, hmac('sha256', signingKey, 'hex', timestamp, token));
    if (!isFresh(Number(timestamp))) refuseHook('The signature is too old');
    const data: unknown =
      typeof body === 'object' && body !== null ? Reflect.get(body, 'event-data') : undefined;
    const report = mailgunReport(data, token);
    return { reports: report ? [report] : [], nonce: token };
  };

/** What an event of Mailgun says; nothing for those that say nothing of a message. `eventId`: where it has none. */
export function mailgunReport(data: unknown, eventId = ''): Report | undefined {
  const at = (...path: string[]) => textAt(data, ...path);
  const event = at('event') ?? '';
  const permanent = event === 'failed' && at('severity') === 'permanent';
  const kind = event === 'failed' ? (permanent ? 'bounced' : 'deferred') : mailgunKinds.get(event);
  const id = at('id') ?? eventId;
  if (kind === undefined || id === '') return undefined;
  const { code, message, description } = {
    code: at('delivery-status', 'code'),
    message: at('delivery-status', 'message'),
    description: at('delivery-status', 'description'),
  };
  return {
    eventId: id,
    kind,
    permanent,
    messageId: ownId(at('user-variables', 'penstock-id')),
    providerId: at('message', 'headers', 'message-id'),
    recipient: at('recipient'),
    detail: said(code, message || description || at('reason')),
  };
}

const sendgridKinds = kindsOf({
  processed: 'processed',
  deferred: 'deferred',
  delivered: 'delivered',
  open: 'opened',
  click: 'clicked',
  bounce: 'bounced',
  dropped: 'failed',
  spamreport: 'complained',
  unsubscribe: 'unsubscribed',
  group_unsubscribe: 'unsubscribed',
});

export const sendgridHook =
  (key: () => string): ReadReports =>
  ({ raw, headers }) => {
    const publicKey = sendgridKey(requireKey(key()));
    const timestamp = headers['x-twilio-email-event-webhook-timestamp'] ?? '';
    const signature = headers['x-twilio-email-event-webhook-signature'] ?? '';
    const signed = Buffer.concat([Buffer.from(timestamp), raw]);
    if (!verify('sha256', signed, publicKey, Buffer.from(signature, 'base64')))
      refuseHook('The signature does not belong to this request');
    if (!isFresh(Number(timestamp))) refuseHook('The signature is too old');
    const events = jsonOf(raw.toString('utf8'));
    return { reports: (Array.isArray(events) ? events : []).flatMap(sendgridReport) };
  };

function sendgridKey(key: string) {
  try {
    return createPublicKey({ key: Buffer.from(key, 'base64'), format: 'der', type: 'spki' });
  } catch {
    return refuseHook('The key that is set is no public key of SendGrid');
  }
}

function sendgridReport(event: unknown): Report[] {
  const kind = sendgridKinds.get(textAt(event, 'event') ?? '');
  const eventId = textAt(event, 'sg_event_id');
  if (kind === undefined || eventId === undefined) return [];
  return [
    {
      eventId,
      kind,
      // A block is about this message; a bounce is about the address.
      permanent: kind === 'bounced' && textAt(event, 'type') !== 'blocked',
      messageId: ownId(textAt(event, 'penstock_id')),
      // Of the two parts, the first is what the send was answered with.
      providerId: textAt(event, 'sg_message_id')?.split('.', 1)[0],
      recipient: textAt(event, 'email'),
      detail: said(textAt(event, 'status'), textAt(event, 'reason') ?? textAt(event, 'response')),
    },
  ];
}

const mandrillKinds = kindsOf({
  send: 'processed',
  deferral: 'deferred',
  delivered: 'delivered',
  hard_bounce: 'bounced',
  soft_bounce: 'bounced',
  open: 'opened',
  click: 'clicked',
  spam: 'complained',
  unsub: 'unsubscribed',
  reject: 'failed',
});

/** Signed is the address with the fields behind it. */
export const mandrillHook =
  (key: () => string): ReadReports =>
  ({ raw, headers, url }) => {
    const form = formOf(raw);
    const events = jsonOf(form.get('mandrill_events') ?? '[]');
    // Mandrill tries an address with no events before it knows a key for it.
    if (!Array.isArray(events) || events.length === 0) return { reports: [] };
    const expected = hmac('sha1', requireKey(key()), 'base64', url, sortedFields(form));
    requireSame(headers['x-mandrill-signature'], expected);
    return {
      reports: events.flatMap((event): Report[] => {
        const name = textAt(event, 'event') ?? '';
        const kind = mandrillKinds.get(name);
        const id = textAt(event, '_id') ?? textAt(event, 'msg', '_id');
        if (kind === undefined || id === undefined) return [];
        return [
          {
            eventId: `${name}:${id}:${textAt(event, 'ts') ?? ''}`,
            kind,
            permanent: name === 'hard_bounce',
            messageId: ownId(textAt(event, 'msg', 'metadata', 'penstock_id')),
            providerId: id,
            recipient: textAt(event, 'msg', 'email'),
            detail: said(textAt(event, 'msg', 'bounce_description'), textAt(event, 'msg', 'diag')),
          },
        ];
      }),
    };
  };

const mailersendKinds = kindsOf({
  'activity.sent': 'processed',
  'activity.deferred': 'deferred',
  'activity.delivered': 'delivered',
  'activity.opened': 'opened',
  'activity.opened_unique': 'opened',
  'activity.clicked': 'clicked',
  'activity.clicked_unique': 'clicked',
  'activity.soft_bounced': 'bounced',
  'activity.hard_bounced': 'bounced',
  'activity.spam_complaint': 'complained',
  'activity.unsubscribed': 'unsubscribed',
});

export const mailersendHook =
  (key: () => string): ReadReports =>
  ({ raw, headers }) => {
    requireSame(headers.signature, hmac('sha256', requireKey(key()), 'hex', raw));
    const body = jsonOf(raw.toString('utf8'));
    const type = textAt(body, 'type') ?? '';
    const kind = mailersendKinds.get(type);
    const eventId = textAt(body, 'data', 'id');
    if (kind === undefined || eventId === undefined) return { reports: [] };
    return {
      reports: [
        {
          eventId,
          kind,
          permanent: type === 'activity.hard_bounced',
          providerId: textAt(body, 'data', 'email', 'message', 'id'),
          waits: true,
          recipient: textAt(body, 'data', 'email', 'recipient', 'email'),
          detail: said(textAt(body, 'data', 'morph', 'reason')),
        },
      ],
    };
  };

/** What stands in a list of objects under one name. */
export const fieldsIn = (value: unknown, list: string, name: string): readonly string[] =>
  listAt(value, list).flatMap((one) => textAt(one, name) ?? []);
