/** Providers of text messages. Each takes one message to one number. */
import type { CommunicationsConfig } from '../../config.ts';
import { askInOrder, type Pace, providersOf } from '../providers/in-order.ts';
import {
  baseOf,
  basicAuth,
  type CallProvider,
  createCaller,
  type Delivery,
  DeliveryError,
  limitsOf,
  listAt,
  type ProviderAnswer,
  refuseCommon,
  requireId,
  textAt,
  words,
} from '../providers/outcome.ts';
import { callSns, elementOf } from '../providers/sns.ts';

type Settings = CommunicationsConfig['sms'];

export interface OutgoingSms {
  readonly id: string;
  readonly to: string;
  readonly text: string;
}

/** Where a provider reports about a message, if anywhere. */
export type ReportAddress = (
  provider: 'twilio' | 'messageBird',
  messageId: string,
) => string | undefined;

export interface SmsTransport {
  /** `passed` is told of a provider that could not, before the next is asked. */
  deliver(sms: OutgoingSms, passed: (error: DeliveryError) => Promise<void>): Promise<Delivery>;
}

export function createSmsTransport(
  config: () => CommunicationsConfig,
  reportAddress: ReportAddress,
  pace: Pace,
): SmsTransport {
  const limits = limitsOf(config);
  const providers: ReadonlyMap<
    string,
    (sms: OutgoingSms, settings: Settings) => Promise<Delivery>
  > = new Map([
    ['twilio', twilio(createCaller('twilio', limits), reportAddress)],
    ['messageBird', messageBird(createCaller('messageBird', limits), reportAddress)],
    ['clickSend', clickSend(createCaller('clickSend', limits))],
    ['awsSns', awsSns(createCaller('awsSns', limits))],
  ]);
  return {
    async deliver(sms, passed) {
      const settings = config().sms;
      return askInOrder({
        names: providersOf(config(), 'sms'),
        pace,
        passed,
        send: async (name) =>
          (await providers.get(name)?.(sms, settings)) ?? { outcome: 'captured' },
      });
    },
  };
}

const refused = (
  provider: string,
  about: 'recipient' | 'content',
  reason: string,
  gone?: 'stop',
): Delivery => ({
  outcome: 'refused',
  provider,
  about,
  reason: words(reason),
  gone,
});

/** Codes of Twilio that are about the number: it opted out, is none, cannot be reached. */
const twilioRecipient = new Set(['21211', '21610', '21614', '21408', '21612']);

const twilio =
  (call: CallProvider, reportAddress: ReportAddress) =>
  async ({ id, to, text }: OutgoingSms, { twilio: settings }: Settings): Promise<Delivery> => {
    const { accountSID, authToken, phoneNumber, endpoint } = settings;
    const report = reportAddress('twilio', id);
    const sender = phoneNumber.startsWith('MG') ? 'MessagingServiceSid' : 'From';
    const answer = await call(
      `${baseOf(endpoint, 'https://api.twilio.com')}/2010-04-01/Accounts/${encodeURIComponent(accountSID)}/Messages.json`,
      {
        headers: {
          authorization: basicAuth(accountSID, authToken),
          'content-type': 'application/x-www-form-urlencoded',
        },
        body: new URLSearchParams({
          To: to,
          [sender]: phoneNumber,
          Body: text,
          ...(report === undefined ? {} : { StatusCallback: report }),
        }).toString(),
      },
    );
    const body = answer.json();
    const code = textAt(body, 'code') ?? textAt(body, 'error_code') ?? '';
    const said = `${code} ${textAt(body, 'message') ?? textAt(body, 'status') ?? answer.text}`;
    if (answer.ok) {
      const sid = requireId('twilio', answer, textAt(body, 'sid'));
      return { outcome: 'accepted', provider: 'twilio', id: sid, detail: words(said) };
    }
    if (code === '20429') throw new DeliveryError('throttled', 'twilio', words(said));
    refuseCommon('twilio', answer, said);
    return refused(
      'twilio',
      twilioRecipient.has(code) ? 'recipient' : 'content',
      `${answer.status} ${said}`,
      code === '21610' ? 'stop' : undefined,
    );
  };

const messageBird =
  (call: CallProvider, reportAddress: ReportAddress) =>
  async ({ id, to, text }: OutgoingSms, { messageBird: settings }: Settings): Promise<Delivery> => {
    const { accessKeyId, originatorName, endpoint } = settings;
    const report = reportAddress('messageBird', id);
    const answer = await call(`${baseOf(endpoint, 'https://rest.messagebird.com')}/messages`, {
      headers: { authorization: `AccessKey ${accessKeyId}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        originator: originatorName,
        recipients: [to.slice(1)],
        body: text,
        reference: id,
        datacoding: 'auto',
        ...(report === undefined ? {} : { reportUrl: report }),
      }),
    });
    const name = 'messageBird';
    if (answer.ok) {
      const taken = requireId(name, answer, textAt(answer.json(), 'id'));
      return { outcome: 'accepted', provider: name, id: taken, detail: String(answer.status) };
    }
    const [error] = listAt(answer.json(), 'errors');
    const code = textAt(error, 'code') ?? '';
    const said = `${code} ${textAt(error, 'description') ?? answer.text}`;
    // No money: as with a key that is refused, an operator mends that.
    if (code === '2' || code === '25') throw new DeliveryError('auth', name, words(said));
    if (code === '98' || code === '99') throw new DeliveryError('transient', name, words(said));
    refuseCommon(name, answer, said);
    const about = textAt(error, 'parameter')?.startsWith('recipient') ? 'recipient' : 'content';
    return refused(name, about, `${answer.status} ${said}`);
  };

/** Each message is judged by itself: the status is 200 also when nothing is sent. */
const clickSend =
  (call: CallProvider) =>
  async ({ id, to, text }: OutgoingSms, { clickSend: settings }: Settings): Promise<Delivery> => {
    const { username, clicksendApiKey, sender, endpoint } = settings;
    const answer = await call(`${baseOf(endpoint, 'https://rest.clicksend.com')}/v3/sms/send`, {
      headers: {
        authorization: basicAuth(username, clicksendApiKey),
        'content-type': 'application/json',
      },
      body: JSON.stringify({
        messages: [
          {
            to,
            body: text,
            source: 'penstock',
            custom_string: id,
            ...(sender ? { from: sender } : {}),
          },
        ],
      }),
    });
    const name = 'clickSend';
    const body = answer.json();
    if (!answer.ok) refuseCommon(name, answer, textAt(body, 'response_msg') ?? answer.text);
    const [message] = listAt(body.data, 'messages');
    const status = judgedBy(answer, textAt(message, 'status') ?? textAt(body, 'response_code'));
    if (status === 'SUCCESS')
      return {
        outcome: 'accepted',
        provider: name,
        id: textAt(message, 'message_id'),
        detail: status,
      };
    if (status === 'INSUFFICIENT_CREDIT') throw new DeliveryError('auth', name, status);
    return refused(
      name,
      status.includes('RECIPIENT') ? 'recipient' : 'content',
      `${answer.status} ${status}`,
    );
  };

/** Throws where it said yes and no more: nobody knows whether the message goes. */
function judgedBy(answer: ProviderAnswer, status: string | undefined): string {
  return answer.ok ? requireId('clickSend', answer, status) : (status ?? answer.text);
}

const awsSns =
  (call: CallProvider) =>
  async ({ to, text }: OutgoingSms, { awsSns: settings }: Settings): Promise<Delivery> => {
    const attribute = (index: number, name: string, value: string) => ({
      [`MessageAttributes.entry.${index}.Name`]: name,
      [`MessageAttributes.entry.${index}.Value.DataType`]: 'String',
      [`MessageAttributes.entry.${index}.Value.StringValue`]: value,
    });
    const answer = await callSns(call, settings, {
      Action: 'Publish',
      PhoneNumber: to,
      Message: text,
      ...attribute(1, 'AWS.SNS.SMS.SMSType', 'Transactional'),
      ...(settings.senderId === '' ? {} : attribute(2, 'AWS.SNS.SMS.SenderID', settings.senderId)),
    });
    if (answer.ok)
      return {
        outcome: 'accepted',
        provider: 'awsSns',
        id: elementOf(answer.text, 'MessageId'),
        detail: 'accepted',
      };
    const about = /phone ?number|opted out/i.test(answer.message) ? 'recipient' : 'content';
    return refused('awsSns', about, `${answer.code} ${answer.message}`);
  };

/* How long a text message is for those who carry it. */

/** GSM 03.38: what fits into seven bits; those of the second list take two places. */
const gsm =
  /^[@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&'()*+,\-./0-9:;<=>?¡A-ZÄÖÑÜ§¿a-zäöñüà^{}\\[~\]|€]*$/;
const twoPlaces = /[\^{}\\[~\]|€]/g;

/** Into how many parts a text is split on its way: what a provider charges for. */
export function smsSegments(text: string): number {
  const seven = gsm.test(text);
  const length = seven ? text.length + (text.match(twoPlaces)?.length ?? 0) : text.length;
  const [one, many] = seven ? [160, 153] : [70, 67];
  return length <= one ? 1 : Math.ceil(length / many);
}
