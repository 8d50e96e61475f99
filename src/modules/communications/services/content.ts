/** What a message says, in the forms that it is kept and shown in. */

import { system } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { causedThen, type Hooks } from '../../../kernel/hooks/hooks.ts';
import {
  type MessageHookTexts,
  type MessageHookValue,
  sendPoint,
} from '../../../kernel/hooks/points.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import type { ClaimedMessage } from '../delivery-queries.ts';
import { type Delivery, DeliveryError, words } from './providers/outcome.ts';

/*
 * What a reader without HTML sees of a mail. The text is walked through once and never searched back, so that the
 * time grows with its length, whatever is in it.
 */

interface Tag {
  /** In small letters; empty for what is no element, such as a comment. */
  readonly name: string;
  readonly closing: boolean;
  /** Where a link leads, still with its entities. */
  readonly href?: string | undefined;
}

/**
 * Where the next tag begins: a `<` before a letter, or before what begins the end of an element, a comment or a
 * declaration. Any other is text, as it is for browsers.
 */
function nextTag(html: string, from: number): number {
  for (let open = html.indexOf('<', from); open >= 0; open = html.indexOf('<', open + 1))
    if (/[a-z/!?]/i.test(html.charAt(open + 1))) return open;
  return -1;
}

/** Text, or a tag. What follows a `<` without its `>` is text. */
function* partsOf(html: string): Generator<string | Tag> {
  // Letters of ASCII alone: others can become longer, and places would shift.
  const lower = html.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  const unclosed = new Set<string>();
  let at = 0;
  for (;;) {
    const open = nextTag(html, at);
    const end = open < 0 ? -1 : html.indexOf('>', open);
    if (end < 0) break;
    if (open > at) yield html.slice(at, open);
    const tag = tagOf(html.slice(open + 1, end));
    yield tag;
    at =
      tag.closing || !unread.has(tag.name)
        ? end + 1
        : endOfUnread(lower, tag.name, { from: end + 1, unclosed });
  }
  if (at < html.length) yield html.slice(at);
}

/** Elements whose content nobody reads. */
const unread: ReadonlySet<string> = new Set(['style', 'script', 'head', 'title']);

/** Where the closing tag of an element begins; `from` where it has none, and then none is looked for again. */
function endOfUnread(
  lower: string,
  name: string,
  { from, unclosed }: { readonly from: number; readonly unclosed: Set<string> },
): number {
  const found = unclosed.has(name) ? -1 : lower.indexOf(`</${name}>`, from);
  if (found < 0) unclosed.add(name);
  return found < 0 ? from : found;
}

function tagOf(inside: string): Tag {
  const [, slash, written = ''] = /^(\/?)([a-z][a-z0-9]{0,20})(?![a-z0-9-])/i.exec(inside) ?? [];
  const [name, closing] = [written.toLowerCase(), slash === '/'];
  return { name, closing, href: name === 'a' && !closing ? hrefIn(inside) : undefined };
}

function hrefIn(inside: string): string | undefined {
  const [, double, single] = /\shref=(?:"([^"]+)"|'([^']+)')/i.exec(inside) ?? [];
  return double ?? single;
}

const breaking: ReadonlySet<string> = new Set([
  'p',
  'div',
  'h1',
  'h2',
  'h3',
  'h4',
  'h5',
  'h6',
  'li',
  'tr',
]);

const breaks = ({ name, closing }: Tag): boolean =>
  name === 'br' || (closing && breaking.has(name));

/** The text part of a mail: links are written out behind their labels. */
export function plainText(html: string): string {
  const written: string[] = [];
  let link: { readonly href: string; readonly from: number } | undefined;
  const endLink = (): void => {
    if (!link) return;
    const label = written.splice(link.from).join('').trim();
    written.push(label === link.href ? label : `${label} ${link.href}`);
    link = undefined;
  };
  for (const part of partsOf(html)) {
    if (typeof part === 'string') written.push(part);
    else if (breaks(part)) written.push('\n');
    else if (part.name === 'a' && part.closing) endLink();
    else if (part.href !== undefined) link = { href: part.href, from: written.length };
  }
  return withoutWideSpaces(unescapeHtml(written.join('')));
}

/** Where the links of a mail lead. */
export const linksIn = (html: string): readonly string[] =>
  [...partsOf(html)].flatMap((part) =>
    typeof part === 'object' && part.href !== undefined ? [unescapeHtml(part.href)] : [],
  );

const withoutWideSpaces = (text: string): string =>
  text
    .replace(/[ \t]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();

const entities = new Map(
  Object.entries({
    '&amp;': '&',
    '&lt;': '<',
    '&gt;': '>',
    '&quot;': '"',
    '&#x27;': "'",
    '&#39;': "'",
    '&#x60;': '`',
    '&#x3D;': '=',
    '&nbsp;': ' ',
  }),
);

const unescapeHtml = (html: string): string =>
  html.replace(/&(?:#x?[0-9a-f]{1,4}|[a-z]{2,4});/gi, (entity) => entities.get(entity) ?? entity);

export interface Attachment {
  readonly filename: string;
  readonly contentType: string;
  /** Base64; empty where it is a file of storage. */
  readonly content: string;
  /** The file that it is, read when the mail goes out. Whoever wrote the mail was allowed to read it. */
  readonly fileId?: string | undefined;
  /** For pictures that the HTML names as `cid:...`. */
  readonly contentId?: string | undefined;
}

/** What a mail has beside recipient, subject and text. */
export interface MailParts {
  readonly cc?: readonly string[] | undefined;
  readonly bcc?: readonly string[] | undefined;
  readonly replyTo?: string | undefined;
  /** Checked: neither names of ours nor line breaks. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly attachments?: readonly Attachment[] | undefined;
  /** Whether the provider watches openings and clicks; as its account says where that is left out. */
  readonly tracking?: Tracking | undefined;
}

export interface Tracking {
  readonly opens?: boolean | undefined;
  readonly clicks?: boolean | undefined;
}

/** What a device is told. */
export interface PushNote {
  readonly title?: string | undefined;
  readonly body?: string | undefined;
  /** Texts only: that is all that every provider carries. */
  readonly data?: Readonly<Record<string, string>> | undefined;
  /** Nothing is shown; the app gets `data`. */
  readonly silent: boolean;
  /** Figure on the icon of the app. */
  readonly badge?: number | undefined;
  readonly sound?: string | undefined;
  readonly image?: string | undefined;
  /** A later message of the same key takes the place of an earlier one. */
  readonly collapseKey?: string | undefined;
  /** Seconds that a provider keeps it for a device that is away. */
  readonly ttl?: number | undefined;
}

export interface MessageContent {
  /** Address of the sender; absent for SMS. */
  readonly from?: string;
  readonly subject?: string;
  readonly html?: string;
  readonly text: string;
  /** The code that the message tells, where it tells one. */
  readonly code?: string;
  /** The module that wrote it, unless operators did. */
  readonly module?: string;
  /** Copies, further headers and attachments of a mail. */
  readonly mail?: MailParts;
  /** What devices are told, and only those of one platform where it names one. */
  readonly push?: PushNote & { readonly platform?: string | undefined };
}

const context = (id: string): string => `communications:message:${id}`;

/** The content encrypted, since it carries links and codes that open accounts. */
export const sealContent = (secrets: SecretBox, id: string, content: MessageContent): string =>
  secrets.seal(JSON.stringify(content), context(id));

/** Characters of all attachments from which a mail is sealed in slices. */
const largeFrom = 256 * 1024;

/** Whether sealing it at once would hold up others. */
export const isLarge = ({ mail }: MessageContent): boolean =>
  (mail?.attachments ?? []).reduce((size, { content }) => size + content.length, 0) > largeFrom;

/** The same of a large one: the bytes of the sealed text. */
export const sealLargeContent = (
  secrets: SecretBox,
  id: string,
  content: MessageContent,
): Promise<Buffer> => secrets.sealInSlices(textsOf(content), context(id));

/** Either, as a text. */
export const sealAnyContent = async (
  secrets: SecretBox,
  id: string,
  content: MessageContent,
): Promise<string> =>
  isLarge(content)
    ? (await sealLargeContent(secrets, id, content)).toString('latin1')
    : sealContent(secrets, id, content);

/** The content as JSON, its files as pieces of their own. They are base64, of which nothing needs to be escaped. */
function textsOf({ mail = {}, ...content }: MessageContent): readonly string[] {
  const { attachments = [], ...others } = mail;
  const files = attachments.flatMap(({ content: base64, ...about }, index) => [
    `${index > 0 ? ',' : ''}${JSON.stringify(about).slice(0, -1)},"content":"`,
    base64,
    '"}',
  ]);
  const beside = JSON.stringify(others).slice(0, -1);
  const comma = beside === '{' ? '' : ',';
  const head = JSON.stringify(content).slice(0, -1);
  return [`${head},"mail":${beside}${comma}"attachments":[`, ...files, ']}}'];
}

export const openContent = async (
  secrets: SecretBox,
  id: string,
  sealed: string,
): Promise<MessageContent> =>
  JSON.parse(await secrets.openInSlices(sealed, context(id))) as MessageContent;

/** Where the links of a message lead. */
export const linksOf = ({ html, text }: MessageContent): readonly string[] =>
  html === undefined
    ? [...text.matchAll(/https?:\/\/[^\s<>"]{1,2000}/g)].map(([link]) => link)
    : linksIn(html);

/* What operators' hooks say about a message that is about to go out. */

/**
 * The content as the hooks of operators left it, or their refusal. A hook that cannot answer now is asked again with the
 * next attempt. Throws `DeliveryError`.
 */
export async function askHooks(
  hooks: Hooks,
  { id, channel, recipient, category, attempts, causedBy: chain }: ClaimedMessage,
  content: MessageContent,
): Promise<MessageContent | Delivery> {
  if (!hooks.has(sendPoint)) return content;
  const { subject, html, text, push } = content;
  try {
    const answer = await causedThen(chain ?? [], () =>
      hooks.run<MessageHookValue>(sendPoint, system('communications'), {
        ...{ id, channel, to: recipient, attempt: attempts, subject, html },
        ...{ text: push ? (push.body ?? '') : text, title: push?.title, data: push?.data },
        category: category ?? undefined,
      }),
    );
    return withTexts(content, answer);
  } catch (error) {
    const reason = words(error instanceof Error ? error.message : String(error));
    if (!(error instanceof PenstockError) || error.status >= 500)
      throw new DeliveryError('transient', 'hook', reason);
    return { outcome: 'refused', provider: 'hook', about: 'content', reason };
  }
}

/** Another HTML brings its own text, unless the hook gave one too. */
function withTexts(before: MessageContent, given: MessageHookTexts): MessageContent {
  const { push, ...content } = before;
  const { subject, html, title, data } = given;
  if (push) {
    const note = { ...push, title, data, ...(given.text !== '' && { body: given.text }) };
    return { ...content, text: note.body ?? title ?? '', push: note };
  }
  const isOwnText = given.text !== before.text || html === undefined || html === before.html;
  return {
    ...content,
    text: isOwnText ? given.text : plainText(html),
    ...(subject !== undefined && { subject }),
    ...(html !== undefined && { html }),
  };
}
