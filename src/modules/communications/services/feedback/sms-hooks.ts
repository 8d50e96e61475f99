/** Reports of providers of text messages. */
import {
  formOf,
  type HookRequest,
  hmac,
  ownId,
  type ReadReports,
  type Report,
  refuseHook,
  requireKey,
  requireSame,
  said,
  sortedFields,
} from './report.ts';

const twilioKinds: ReadonlyMap<string, Report['kind']> = new Map<string, Report['kind']>([
  ['sent', 'sent'],
  ['delivered', 'delivered'],
  ['undelivered', 'bounced'],
  ['failed', 'failed'],
  ['read', 'opened'],
]);

/** Numbers that take nothing more: opted out, unknown, landlines. */
const lost: ReadonlyMap<string, string> = new Map([
  ['21610', 'stop'],
  ['30005', 'bounce'],
  ['30006', 'bounce'],
]);

/** Signed is the whole address with the fields behind it. */
export const twilioHook =
  (token: () => string): ReadReports =>
  ({ raw, headers, url, query }) => {
    const form = formOf(raw);
    const expected = hmac('sha1', requireKey(token()), 'base64', url, sortedFields(form));
    requireSame(headers['x-twilio-signature'], expected);
    const id = form.get('MessageSid') ?? form.get('SmsSid') ?? '';
    const status = form.get('MessageStatus') ?? form.get('SmsStatus') ?? '';
    const kind = twilioKinds.get(status);
    if (kind === undefined || id === '') return { reports: [] };
    const code = form.get('ErrorCode');
    const reason = lost.get(code ?? '');
    return {
      reports: [
        {
          eventId: `${id}:${status}`,
          kind,
          messageId: ownId(query.message),
          providerId: id,
          recipient: form.get('To'),
          detail: said(status, code),
          permanent: reason !== undefined,
          reason,
        },
      ],
    };
  };

const messageBirdKinds: ReadonlyMap<string, Report['kind']> = new Map<string, Report['kind']>([
  ['sent', 'sent'],
  ['buffered', 'deferred'],
  ['delivered', 'delivered'],
  ['expired', 'failed'],
  ['delivery_failed', 'failed'],
]);

/** Not signed: the address of each report has a token of its message. */
export const messageBirdHook =
  (tokenOf: (messageId: string) => string): ReadReports =>
  ({ query }: HookRequest) => {
    const messageId = ownId(query.reference) ?? refuseHook('The report names no message');
    requireSame(query.token, tokenOf(messageId));
    const status = query.status ?? '';
    const kind = messageBirdKinds.get(status);
    if (kind === undefined) return { reports: [] };
    const { statusErrorCode: code } = query;
    return {
      reports: [{ eventId: `${messageId}:${status}`, kind, messageId, detail: said(status, code) }],
    };
  };
