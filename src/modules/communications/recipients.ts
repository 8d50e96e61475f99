/** Addresses in the only forms that a message is sent to or from. Anything that could become a second header or recipient is refused. */
import { messageErrors } from './errors.ts';

/** One mailbox in ASCII: no name, no list, no quotes, no line breaks. */
const mailbox =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/;
const senderName = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}$/;
/** E.164. */
const number = /^\+[1-9]\d{6,14}$/;

const isMailbox = (text: string): boolean => text.length <= 254 && mailbox.test(text);
/** Whether messages can be sent from there: a mailbox, or its name before the `@`. */
export const isSender = (text: string): boolean =>
  text.includes('@') ? isMailbox(text) : senderName.test(text);
/** Whether mailboxes can be at that domain. */
export const isMailDomain = (text: string): boolean =>
  !text.includes('@') && isMailbox(`x@${text}`);

/** Throws INVALID_RECIPIENT. `path` names the input field in the answer. */
export function requireMailbox(text: string, path = 'to'): string {
  if (isMailbox(text)) return text;
  throw refused(path, 'this is not the address of one mailbox');
}

export function requireNumber(text: string, path = 'to'): string {
  if (number.test(text)) return text;
  throw refused(path, 'write the number with its country, like +306900000000');
}

/** From where mails may come, as the configuration of mail says it. */
export interface SenderRules {
  readonly sendingDomain: string;
  /** The usual sender: its domain is one's own too. */
  readonly sender: string;
  readonly allowForeignSenders: boolean;
}

/** A sender with its domain; one that is written without gets that of the configuration. Throws INVALID_RECIPIENT, SENDER_NOT_ALLOWED. */
export function senderAddress(sender: string, rules: SenderRules, path = 'sender'): string {
  const { sendingDomain } = rules;
  if (!isSender(sender)) throw refused(path, 'this is not an address to send from');
  if (!sender.includes('@')) return `${sender}@${sendingDomain || 'sandbox.invalid'}`;
  if (isOwnSender(sender, rules)) return sender;
  const message = `mails are sent from ${sendingDomain}: email.allowForeignSenders allows other domains`;
  throw messageErrors.SENDER_NOT_ALLOWED({
    message: `${path}: ${message}`,
    errors: [{ path, rule: 'domain', message }],
  });
}

/**
 * Whether mails may come from there: from the sending domain, from one below it, or from where the usual sender is.
 * Anywhere while no domain is set: then nothing leaves.
 */
export function isOwnSender(sender: string, rules: SenderRules): boolean {
  const { sendingDomain, sender: usual, allowForeignSenders } = rules;
  if (allowForeignSenders || sendingDomain === '' || !sender.includes('@')) return true;
  const [domain, own] = [domainOf(sender), sendingDomain.toLowerCase()];
  if (domain === own || domain.endsWith(`.${own}`)) return true;
  return usual.includes('@') && domain === domainOf(usual);
}

const domainOf = (address: string): string =>
  address.slice(address.lastIndexOf('@') + 1).toLowerCase();

/** Throws INVALID_RECIPIENT for what no mail can come from. */
export function requireSenderForm(sender: string, path: string): void {
  if (!isSender(sender)) throw refused(path, 'this is not an address to send from');
}

const refused = (path: string, message: string) =>
  messageErrors.INVALID_RECIPIENT({
    message: `${path}: ${message}`,
    errors: [{ path, rule: 'address', message }],
  });

/** A header value on one line. */
export const oneLine = (text: string): string =>
  text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim();

/** Headers that the platform writes itself, or that a provider must. */
const ownHeaders =
  /^(?:from|to|cc|bcc|sender|reply-to|subject|date|message-id|mime-version|return-path|received|dkim-signature|content-.+)$/i;
const headerName = /^[A-Za-z0-9-]{1,60}$/;
/** Visible ASCII: anything else could become a second header, or needs an encoding. */
const headerValue = /^[\x20-\x7e]{1,900}$/;

/** Throws 400 for names that are ours and for values that do not stay on their line. */
export function requireHeaders(
  headers: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(headers)) {
    if (!headerName.test(name) || ownHeaders.test(name))
      throw refused(`headers.${name.slice(0, 60)}`, 'this header cannot be given');
    if (!headerValue.test(value))
      throw refused(`headers.${name}`, 'must be one line of ASCII characters');
  }
  return headers;
}
