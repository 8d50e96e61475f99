/** Writes a mail: what its template says, or what the request says in its place. */

import { cutText } from '../../../kernel/text.ts';
import type { CommunicationsConfig } from '../config.ts';
import { isOwnSender, oneLine, senderAddress } from '../recipients.ts';
import { type MailParts, type MessageContent, plainText } from './content.ts';
import type { PlainEmail, TemplatedEmail } from './outgoing.ts';
import type { ReadyTemplate, Templates } from './templates.ts';

export interface Writing {
  readonly templates: Pick<Templates, 'resolve' | 'ready'>;
  readonly config: () => CommunicationsConfig;
}

export interface WritingOptions {
  /** Language of the recipient, asked only where the template has several. */
  readonly locale?: () => Promise<string | undefined>;
  /** Where the recipient says no to more of its kind. */
  readonly unsubscribe?: string | undefined;
}

/** Throws TEMPLATE_NOT_FOUND, TEMPLATE_INVALID, INVALID_RECIPIENT and SENDER_NOT_ALLOWED (the sender). */
export async function writeMail(
  writing: Writing,
  email: TemplatedEmail | PlainEmail,
  { locale, unsubscribe }: WritingOptions = {},
): Promise<MessageContent> {
  const parts = await textsOf(writing.templates, email, locale);
  const given = email.variables ?? {};
  const variables = unsubscribe === undefined ? given : { unsubscribeLink: unsubscribe, ...given };
  const { code } = email.variables ?? {};
  return {
    from: senderOf(writing, email, parts),
    ...filled(parts, variables, email.strict),
    ...(typeof code === 'string' ? { code } : {}),
    ...(email.module && { module: email.module }),
    ...mailPartsOf(email, unsubscribe),
  };
}

/** What a mail of this template says. Throws TEMPLATE_INVALID. */
export function filled(
  parts: ReadyTemplate,
  variables: Readonly<Record<string, unknown>>,
  strict: boolean | undefined,
): { readonly subject: string; readonly html: string; readonly text: string } {
  const subject = parts.subject.render(variables, 'plain', parts.partials, strict);
  return { subject: cutText(oneLine(subject), 500), ...bodyOf(parts, variables, strict) };
}

/** Stands in previews for the link that each recipient has of their own. */
export const unsubscribeExample = 'https://example.com/unsubscribe';

/**
 * That of the request, else that of the template. A domain that was another's own when the template was written must
 * not keep back the notices of accounts: such a mail comes from the usual sender.
 */
function senderOf(
  { config }: Writing,
  { sender }: TemplatedEmail | PlainEmail,
  { sender: ofTemplate }: ReadyTemplate,
): string {
  const rules = config().email;
  if (sender !== undefined) return senderAddress(sender, rules);
  const usable = ofTemplate && isOwnSender(ofTemplate, rules);
  return senderAddress(usable ? ofTemplate : rules.sender, rules);
}

/** A body without any tag is a text that somebody wrote in lines; as HTML alone they would run into one. */
function bodyOf(
  { body, partials }: ReadyTemplate,
  variables: Readonly<Record<string, unknown>>,
  strict: boolean | undefined,
): { readonly html: string; readonly text: string } {
  const html = body.render(variables, 'html', partials, strict);
  if (/<[a-z!/]/i.test(html)) return { html, text: plainText(html) };
  const text = body.render(variables, 'plain', partials);
  return { html: html.replaceAll(/\r?\n/g, '<br>\n'), text };
}

/** What the mail says itself goes before what its template says. */
async function textsOf(
  templates: Writing['templates'],
  email: TemplatedEmail | PlainEmail,
  locale: WritingOptions['locale'],
): Promise<ReadyTemplate> {
  const { subject, body } = email;
  if (!('template' in email)) {
    const { templateSender: sender } = email;
    return templates.ready({ subject: email.subject, body: email.body, sender });
  }
  const template = await templates.resolve(
    email.template,
    email.locale === undefined ? locale : () => email.locale,
  );
  const own =
    subject === undefined && body === undefined
      ? undefined
      : await templates.ready({ subject: subject ?? '', body: body ?? '' });
  return {
    subject: subject === undefined || !own ? template.subject : own.subject,
    body: body === undefined || !own ? template.body : own.body,
    sender: template.sender,
    partials: new Map([...template.partials, ...(own?.partials ?? [])]),
  };
}

/** What stands in a mail beside its text, where anything does. */
function mailPartsOf(
  { cc, bcc, replyTo, headers, attachments, tracking }: MailParts,
  unsubscribe: string | undefined,
): Pick<MessageContent, 'mail'> {
  const all =
    unsubscribe === undefined || headers?.['List-Unsubscribe'] !== undefined
      ? headers
      : { ...headers, ...unsubscribeHeaders(unsubscribe) };
  const parts = Object.entries({ cc, bcc, replyTo, headers: all, attachments, tracking }).filter(
    ([, part]) => part !== undefined,
  );
  return parts.length === 0 ? {} : { mail: Object.fromEntries(parts) };
}

/** Who reads the mail may leave the list; an https address takes it with one click (RFC 8058). */
export const unsubscribeHeaders = (address: string): Readonly<Record<string, string>> => ({
  'List-Unsubscribe': `<${address}>`,
  ...(/^https?:/.test(address) ? { 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' } : {}),
});

/** A text that is no mail: filled, without HTML. Throws TEMPLATE_INVALID. */
export async function writePlain(
  templates: Writing['templates'],
  texts: { readonly subject?: string | undefined; readonly body: string },
  variables: Readonly<Record<string, unknown>>,
  strict = false,
): Promise<{ readonly subject: string | undefined; readonly body: string }> {
  const { subject, body, partials } = await templates.ready({
    subject: texts.subject ?? '',
    body: texts.body,
  });
  const title = texts.subject && subject.render(variables, 'plain', partials, strict);
  return { subject: title || undefined, body: body.render(variables, 'plain', partials, strict) };
}
