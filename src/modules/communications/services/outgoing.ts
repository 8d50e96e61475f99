/** Messages as whoever sends them describes them. */
import type { ChoicesRow } from '../preference-queries.ts';
import type { MailParts, PushNote } from './content.ts';
import type { Variables } from './template-language.ts';

export interface Recipient {
  /** The user that it is about: the message goes when the user is deleted. */
  readonly userId?: string;
}

/** A module writes its messages in its own name: they are read by who may look into that module. Those of operators have none. */
export interface OfModule {
  readonly module: string;
}

export interface TemplatedEmail extends Recipient, Partial<OfModule>, MailParts {
  readonly to: string;
  readonly template: string;
  readonly variables: Variables;
  /** Language, instead of that of the user. */
  readonly locale?: string;
  /** A variable that is not there is an error. */
  readonly strict?: boolean | undefined;
  /** In place of what the template says. */
  readonly subject?: string;
  readonly body?: string;
  readonly sender?: string;
  /**
   * Sent however many messages the recipient has got: for what the owner of an account must learn. Whoever has
   * taken the account could else use up what they may get, and with it the notice that leads back.
   */
  readonly essential?: boolean;
}

export interface PlainEmail extends Recipient, Partial<OfModule>, MailParts {
  readonly to: string;
  readonly subject: string;
  /** HTML with {{variables}}. */
  readonly body: string;
  readonly variables?: Variables;
  readonly strict?: boolean | undefined;
  readonly sender?: string;
  /** That of the template that the texts are from. */
  readonly templateSender?: string | undefined;
}

export interface Sms extends Recipient, Partial<OfModule> {
  /** E.164. */
  readonly to: string;
  readonly text: string;
  /** The code that the text tells, for the sandbox. */
  readonly code?: string;
  readonly template?: string | null;
}

/** How a message is stored beside what it says. */
export interface Storing {
  /** Kind of message by which users choose. Without one it belongs to their account, and always goes out. */
  readonly category?: string | undefined;
  /** Goes out whatever its recipient chose, and in quiet hours too. */
  readonly critical?: boolean | undefined;
  /** Not before. */
  readonly sendAt?: Date | undefined;
  /** The broadcast that it belongs to. */
  readonly broadcastId?: string | undefined;
  /** The chain that it is a step of. */
  readonly chainId?: string | undefined;
  readonly resentFrom?: string | undefined;
  /** What the user chose, where whoever stores it knows that already. */
  readonly choices?: ChoicesRow | undefined;
  /** The caller's own key: a second message under it is not stored. */
  readonly idempotency?: { readonly key: string; readonly hash: string } | undefined;
  /** Whoever stores it makes the first attempt; the job comes only where that one is lost. */
  readonly firstAttempt?: boolean | undefined;
}

export interface Push extends Partial<OfModule> {
  readonly userId: string;
  readonly note: PushNote;
  /** Only to devices of this platform. */
  readonly platform?: string | undefined;
  readonly template?: string | null;
}
