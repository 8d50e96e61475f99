/** Reports of Amazon SES, which come through Amazon SNS: signed with the key of a certificate that SNS serves. */
import { verify, X509Certificate } from 'node:crypto';
import { errors } from '../../../../kernel/errors.ts';
import {
  type CallProvider,
  DeliveryError,
  listAt,
  type ProviderAnswer,
  textAt,
  words,
} from '../providers/outcome.ts';
import { fieldsIn } from './mail-hooks.ts';
import {
  jsonOf,
  ownId,
  type ReadReports,
  type Report,
  refuseHook,
  requireKey,
  requireSame,
  said,
} from './report.ts';

export interface SesHookSettings {
  /** The topic that is listened to: everybody may have one. */
  readonly topicArn: string;
  /** Where SNS is, instead of `https://sns.<region>.amazonaws.com`. */
  readonly endpoint: string;
}

/** Parts of an envelope that are signed, in order, where they are there. */
const signedOf = (type: string): readonly string[] =>
  type === 'Notification'
    ? ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
    : ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];

/** A GET at SNS. Throws 503 where it says no, or nothing: whoever sent us there tries again. */
async function askSns(call: CallProvider, address: string): Promise<ProviderAnswer> {
  const answer = await call(address, { method: 'GET' }).catch((cause: unknown) => {
    if (cause instanceof DeliveryError) throw away(cause.message, cause);
    throw cause;
  });
  if (!answer.ok) throw away(String(answer.status));
  return answer;
}

const away = (said: string, cause?: unknown) =>
  errors.UNAVAILABLE({ message: `Amazon SNS cannot be asked now: ${words(said)}`, cause });

export function sesHook(settings: () => SesHookSettings, call: CallProvider): ReadReports {
  const keys = new Map<string, X509Certificate>();

  const keyAt = async (address: string): Promise<X509Certificate> => {
    const known = keys.get(address);
    if (known) return known;
    const answer = await askSns(call, address);
    const certificate = certificateIn(answer.text);
    if (keys.size >= 10) keys.clear();
    keys.set(address, certificate);
    return certificate;
  };

  return async ({ raw }) => {
    const { topicArn, endpoint } = settings();
    const envelope = jsonOf(raw.toString('utf8'));
    const at = (name: string) => textAt(envelope, name);
    requireSame(at('TopicArn'), requireKey(topicArn));
    const certificate = await keyAt(requireCertificate(at('SigningCertURL'), endpoint));
    const type = at('Type') ?? '';
    const signed = signedOf(type)
      .flatMap((name) => (at(name) === undefined ? [] : [name, at(name)]))
      .map((line) => `${line}\n`)
      .join('');
    const algorithm = at('SignatureVersion') === '2' ? 'sha256' : 'sha1';
    const signature = Buffer.from(at('Signature') ?? '', 'base64');
    if (!verify(algorithm, Buffer.from(signed), certificate.publicKey, signature))
      refuseHook('The signature does not belong to this request');
    if (type === 'SubscriptionConfirmation') {
      await askSns(call, requireSns(at('SubscribeURL'), endpoint));
      return { reports: [] };
    }
    return { reports: reportsIn(at('MessageId') ?? '', jsonOf(at('Message') ?? '')) };
  };
}

/** Only SNS itself is asked: the address stands in what a stranger may have sent. */
function requireSns(address: string | undefined, endpoint: string): string {
  const genuine =
    endpoint === ''
      ? /^https:\/\/sns\.[a-z0-9-]{1,40}\.amazonaws\.com(?:\.cn)?\/[^\s]*$/.test(address ?? '')
      : address?.startsWith(`${endpoint.replace(/\/$/, '')}/`) === true;
  return genuine && address !== undefined
    ? address
    : refuseHook('The certificate of the signature is not at SNS');
}

/** SNS answers calls of anybody at the same host, with what they have stored there: only its own files count. */
function requireCertificate(address: string | undefined, endpoint: string): string {
  const found = requireSns(address, endpoint);
  const base = endpoint === '' ? new URL(found).origin : endpoint.replace(/\/$/, '');
  return /^\/SimpleNotificationService-[0-9A-Za-z]{1,100}\.pem$/.test(found.slice(base.length))
    ? found
    : refuseHook('The certificate of the signature is not at SNS');
}

function certificateIn(pem: string): X509Certificate {
  try {
    const certificate = new X509Certificate(pem);
    const now = Date.now();
    if (Date.parse(certificate.validFrom) <= now && now <= Date.parse(certificate.validTo))
      return certificate;
  } catch {
    // Told below.
  }
  return refuseHook('The certificate of the signature is none that counts now');
}

const kinds: ReadonlyMap<string, Report['kind']> = new Map<string, Report['kind']>([
  ['Send', 'processed'],
  ['Delivery', 'delivered'],
  ['DeliveryDelay', 'deferred'],
  ['Bounce', 'bounced'],
  ['Complaint', 'complained'],
  ['Reject', 'failed'],
  ['Rendering Failure', 'failed'],
  ['Open', 'opened'],
  ['Click', 'clicked'],
]);

/** One for each address that it is about. */
function reportsIn(eventId: string, event: unknown): Report[] {
  const type = textAt(event, 'eventType') ?? textAt(event, 'notificationType') ?? '';
  const kind = kinds.get(type);
  if (kind === undefined) return [];
  const { bounce, complaint } = event as Readonly<Record<string, unknown>>;
  const addresses = [
    ...fieldsIn(bounce, 'bouncedRecipients', 'emailAddress'),
    ...fieldsIn(complaint, 'complainedRecipients', 'emailAddress'),
  ];
  const [first] = listAt(bounce, 'bouncedRecipients');
  const base = {
    kind,
    permanent: textAt(bounce, 'bounceType') === 'Permanent',
    messageId: ownId(textAt(event, 'mail', 'tags', 'penstock-id', 0)),
    providerId: textAt(event, 'mail', 'messageId'),
    detail: said(
      textAt(bounce, 'bounceType'),
      textAt(first, 'diagnosticCode'),
      textAt(complaint, 'complaintFeedbackType'),
    ),
  };
  if (addresses.length === 0) return [{ eventId, ...base }];
  return addresses.map((recipient) => ({ eventId: `${eventId}:${recipient}`, ...base, recipient }));
}
