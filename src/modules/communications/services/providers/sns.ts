/** The few actions of Amazon SNS that messages need (query API, answers in XML). */
import { signedHeaders } from './aws-signature.ts';
import {
  baseOf,
  type CallProvider,
  DeliveryError,
  type ProviderAnswer,
  requireId,
  retryAfterOf,
  words,
} from './outcome.ts';

export interface SnsSettings {
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly endpoint: string;
}

/** An answer that says no for good; `code` is SNS's own. */
export interface SnsRefusal {
  readonly code: string;
  readonly message: string;
}

export type SnsAnswer =
  | { readonly ok: true; readonly text: string }
  | ({ readonly ok: false } & SnsRefusal);

/** What a yes tells, by the action. */
const tells: ReadonlyMap<string | undefined, string> = new Map([
  ['Publish', 'MessageId'],
  ['CreatePlatformEndpoint', 'EndpointArn'],
]);

/** Answers what SNS answered, or its refusal. Throws `DeliveryError` for what may go better later. */
export async function callSns(
  call: CallProvider,
  settings: SnsSettings,
  parameters: Readonly<Record<string, string>>,
): Promise<SnsAnswer> {
  const { region, accessKeyId, secretAccessKey, endpoint } = settings;
  const url = `${baseOf(endpoint, `https://sns.${region}.amazonaws.com`)}/`;
  const body = new URLSearchParams({ Version: '2010-03-31', ...parameters }).toString();
  const headers = signedHeaders(
    {
      method: 'POST',
      url,
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body,
    },
    { region, accessKeyId, secretAccessKey, service: 'sns' },
  );
  const answer = await call(url, { headers, body });
  if (answer.ok) {
    const told = tells.get(parameters.Action);
    if (told !== undefined) requireId('awsSns', answer, elementOf(answer.text, told));
    return { ok: true, text: answer.text };
  }
  const code = elementOf(answer.text, 'Code') ?? String(answer.status);
  const message = elementOf(answer.text, 'Message') ?? '';
  refuseLater(answer, code, message);
  return { ok: false, code, message };
}

const aboutUs = new Set([
  'AuthorizationError',
  'InvalidClientTokenId',
  'SignatureDoesNotMatch',
  'InvalidSecurity',
  'AccessDenied',
]);

function refuseLater(answer: ProviderAnswer, code: string, message: string): void {
  const reason = words(`${answer.status} ${code} ${message}`);
  if (aboutUs.has(code) || (answer.status === 403 && code === '403'))
    throw new DeliveryError('auth', 'awsSns', reason);
  if (answer.status === 429 || code.startsWith('Throttl'))
    throw new DeliveryError('throttled', 'awsSns', reason, retryAfterOf(answer));
  if (answer.status >= 500) throw new DeliveryError('transient', 'awsSns', reason);
}

/** The text of the first element of that name; SNS's answers have no attributes on those that we read. */
export function elementOf(xml: string, name: string): string | undefined {
  const from = xml.indexOf(`<${name}>`);
  const to = from < 0 ? -1 : xml.indexOf(`</${name}>`, from);
  return to < 0 ? undefined : unescapeXml(xml.slice(from + name.length + 2, to));
}

const unescapeXml = (text: string): string =>
  text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&apos;', "'")
    .replaceAll('&amp;', '&');
