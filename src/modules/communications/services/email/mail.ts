/** A mail as every way out takes it. */
import type { CommunicationsConfig } from '../../config.ts';
import type { MailParts } from '../content.ts';
import {
  type Delivery,
  DeliveryError,
  type ProviderAnswer,
  refuseCommon,
  words,
} from '../providers/outcome.ts';

export interface OutgoingMail extends Required<Omit<MailParts, 'replyTo'>> {
  readonly id: string;
  readonly to: string;
  readonly from: string;
  readonly subject: string;
  readonly html: string | undefined;
  readonly text: string;
  readonly replyTo: string | undefined;
  /** `<id@domain>`, the same at every attempt, so that a receiver can tell a repetition. */
  readonly messageId: string;
}

export type MailSettings = CommunicationsConfig['email']['transportSettings'];

export interface MailProvider {
  /** Throws `DeliveryError` for what may go better later. */
  deliver(mail: OutgoingMail): Promise<Delivery>;
  close?(): void;
}

/** A refusal for good, by the text that the provider gave. Throws for what may go better later. */
export function refusedMail(provider: string, answer: ProviderAnswer, said: string): Delivery {
  refuseCommon(provider, answer, said);
  return {
    outcome: 'refused',
    provider,
    about: aboutOf(said),
    reason: words(`${answer.status} ${said}`),
  };
}

/** Whether words of a provider are about the recipient's address. */
const aboutOf = (said: string): 'recipient' | 'content' =>
  /recipient|'?to'? (?:parameter|address)|to\.\d|email address|invalid.{0,20}address/i.test(said)
    ? 'recipient'
    : 'content';

export const notJson = (provider: string, answer: ProviderAnswer): DeliveryError =>
  // It said yes in words that we do not know: sending again may double it.
  new DeliveryError('unknown', provider, words(`${answer.status} without an id: ${answer.text}`));
