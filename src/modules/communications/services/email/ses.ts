/** Amazon SES, version 2 of its API. */
import { signedHeaders } from '../providers/aws-signature.ts';
import {
  baseOf,
  type CallProvider,
  DeliveryError,
  type ProviderAnswer,
  textAt,
  withoutId,
  words,
} from '../providers/outcome.ts';
import { type MailProvider, type MailSettings, type OutgoingMail, refusedMail } from './mail.ts';

const provider = 'amazonSes';
type Settings = MailSettings['amazonSes'];

/** One signed request; `path` stands behind `/v2/email/`. */
export function callSes(
  call: CallProvider,
  settings: Settings,
  {
    method = 'POST',
    path,
    body,
  }: { readonly method?: string; readonly path: string; readonly body?: object },
): Promise<ProviderAnswer> {
  const { region, accessKeyId, secretAccessKey, endpoint } = settings;
  const url = `${baseOf(endpoint, `https://email.${region}.amazonaws.com`)}/v2/email/${path}`;
  const text = body === undefined ? '' : JSON.stringify(body);
  const headers = signedHeaders(
    { method, url, headers: { 'content-type': 'application/json' }, body: text },
    { region, accessKeyId, secretAccessKey, service: 'ses' },
  );
  return call(url, { method, headers, ...(body === undefined ? {} : { body: text }) });
}

export const createSes = (settings: () => Settings, call: CallProvider): MailProvider => ({
  async deliver(mail) {
    const current = settings();
    const answer = await callSes(call, current, {
      path: 'outbound-emails',
      body: bodyOf(mail, current.configurationSet),
    });
    if (!answer.ok) return refusal(answer);
    const id = textAt(answer.json(), 'MessageId');
    if (id === undefined) throw withoutId(provider, answer);
    return { outcome: 'accepted', provider, id, detail: String(answer.status) };
  },
});

const aboutUs = new Set([
  'MailFromDomainNotVerifiedException',
  'AccountSuspendedException',
  'SendingPausedException',
]);

export const sesWords = (answer: ProviderAnswer): string => {
  const code =
    answer.header('x-amzn-errortype')?.split(':', 1)[0] ?? textAt(answer.json(), '__type') ?? '';
  return `${code} ${textAt(answer.json(), 'message') ?? answer.text}`;
};

function refusal(answer: ProviderAnswer) {
  const said = sesWords(answer);
  const [code = ''] = said.split(' ', 1);
  if (aboutUs.has(code))
    throw new DeliveryError('auth', provider, words(`${answer.status} ${said}`));
  if (code === 'LimitExceededException' || code === 'TooManyRequestsException')
    throw new DeliveryError('throttled', provider, words(`${answer.status} ${said}`));
  return refusedMail(provider, answer, said);
}

const utf8 = (Data: string) => ({ Data, Charset: 'UTF-8' });

const bodyOf = (mail: OutgoingMail, configurationSet: string): object => ({
  FromEmailAddress: mail.from,
  Destination: { ToAddresses: [mail.to], CcAddresses: mail.cc, BccAddresses: mail.bcc },
  ...(mail.replyTo === undefined ? {} : { ReplyToAddresses: [mail.replyTo] }),
  Content: {
    Simple: {
      Subject: utf8(mail.subject),
      Body: {
        Text: utf8(mail.text),
        ...(mail.html === undefined ? {} : { Html: utf8(mail.html) }),
      },
      // SES makes its own Message-ID and refuses one of ours.
      Headers: Object.entries(mail.headers).map(([Name, Value]) => ({ Name, Value })),
      ...(mail.attachments.length === 0
        ? {}
        : {
            Attachments: mail.attachments.map(({ filename, contentType, content, contentId }) => ({
              RawContent: content,
              FileName: filename,
              ContentType: contentType,
              ContentDisposition: contentId === undefined ? 'ATTACHMENT' : 'INLINE',
              ContentTransferEncoding: 'BASE64',
              ...(contentId === undefined ? {} : { ContentId: contentId }),
            })),
          }),
    },
  },
  EmailTags: [{ Name: 'penstock-id', Value: mail.id }],
  ...(configurationSet === '' ? {} : { ConfigurationSetName: configurationSet }),
});
