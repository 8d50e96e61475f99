/** What a request says about a mail, checked and brought into one form. */
import Type, { type Static } from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { localePattern } from '../readers.ts';
import { requireHeaders, requireMailbox } from '../recipients.ts';
import type { MailParts } from '../services/content.ts';
import { unsubscribeHeaders } from '../services/mail-content.ts';
import type { PlainEmail, TemplatedEmail } from '../services/outgoing.ts';
import { Attachments, checkedFiles } from './email-files.ts';

const mailbox = (description: string) =>
  Type.Optional(Type.String({ maxLength: 254, description }));
const mailboxes = (description: string) =>
  Type.Optional(Type.Array(Type.String({ maxLength: 254 }), { maxItems: 50, description }));

export const EmailBody = Type.Object({
  email: mailbox('Address of the recipient'),
  to: Type.Optional(
    Type.Union(
      [
        Type.String({ maxLength: 254 }),
        Type.Array(Type.String({ maxLength: 254 }), { minItems: 1, maxItems: 50 }),
      ],
      { description: 'Another name for email; several get a mail each' },
    ),
  ),
  templateName: Type.Optional(Type.String({ maxLength: 100, description: 'Name of the template' })),
  subject: Type.Optional(
    Type.String({ maxLength: 500, description: 'Goes before that of the template' }),
  ),
  body: Type.Optional(
    Type.String({ maxLength: 200_000, description: 'HTML. Goes before that of the template' }),
  ),
  sender: mailbox('Goes before that of the template'),
  from: mailbox('Another name for sender'),
  variables: Type.Optional(
    Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), {
      description: 'Values for the template, by name',
    }),
  ),
  cc: mailboxes('Copies that the recipient sees'),
  bcc: mailboxes('Copies that nobody sees'),
  replyTo: mailbox('Where answers go'),
  headers: Type.Optional(
    Type.Record(Type.String({ maxLength: 60 }), Type.String({ maxLength: 900 }), {
      maxProperties: 20,
      description: 'Further headers, such as In-Reply-To and References of a thread',
    }),
  ),
  unsubscribe: Type.Optional(
    Type.String({
      format: 'uri',
      pattern: '^(https|mailto):',
      maxLength: 500,
      description:
        'For List-Unsubscribe; an https address is asked by POST with one click (RFC 8058)',
    }),
  ),
  attachments: Type.Optional(Attachments),
  locale: Type.Optional(
    Type.String({
      pattern: localePattern,
      description: 'Language, where the template has several',
    }),
  ),
  strict: Type.Optional(
    Type.Boolean({
      description: 'A variable that the text uses and that is not there is an error',
    }),
  ),
  tracking: Type.Optional(
    Type.Object(
      {
        opens: Type.Optional(Type.Boolean({ description: 'Whether it was opened' })),
        clicks: Type.Optional(Type.Boolean({ description: 'Which links were followed' })),
      },
      {
        description:
          'What the provider watches, in place of what its account says. A mail server watches nothing, Amazon SES what its configuration set says',
      },
    ),
  ),
  category: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,50}$',
      description:
        'Kind of message by which recipients choose what they get; the mail then says how to leave. Without one it always goes out',
    }),
  ),
  critical: Type.Optional(
    Type.Boolean({ description: 'Goes out whatever its recipient chose, and in quiet hours too' }),
  ),
  sendAt: Type.Optional(
    Type.String({ format: 'date-time', description: 'Not before; at most a year ahead' }),
  ),
  inReplyTo: Type.Optional(
    Type.String({
      pattern: '^<[!-;=?-~]{1,200}@[!-;=?-~]{1,200}>$',
      description: 'Message-ID that this answers, with its angle brackets',
    }),
  ),
  references: Type.Optional(
    Type.Array(Type.String({ pattern: '^<[!-;=?-~]{1,200}@[!-;=?-~]{1,200}>$' }), {
      maxItems: 4,
      description: 'Message-IDs of the thread, the oldest first',
    }),
  ),
  idempotencyKey: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'A second mail under this key is not sent; the answer is that of the first',
    }),
  ),
});

export type EmailInput = Static<typeof EmailBody>;

export function idempotencyOf(
  caller: string,
  { to }: { readonly to: string },
  { idempotencyKey, ...body }: EmailInput,
): { readonly key: string; readonly hash: string } | undefined {
  if (idempotencyKey === undefined) return undefined;
  const key = sha256(`${caller} email ${to.toLowerCase()} ${idempotencyKey}`);
  return { key, hash: sha256(JSON.stringify(body)) };
}

/** One mail for each recipient. Throws 400 before anything is stored. */
export function mailsOf(body: EmailInput): readonly (TemplatedEmail | PlainEmail)[] {
  const recipients = recipientsOf(body);
  const parts = mailPartsOf(body);
  if (recipients.length > 1 && (parts.cc || parts.bcc))
    throw invalid(parts.cc ? 'cc' : 'bcc', 'single', 'copies go with one recipient');
  const content = contentOf(body);
  return recipients.map((to) => ({ ...content, ...parts, to }));
}

function recipientsOf({ email, to }: EmailInput): readonly string[] {
  if (Array.isArray(to)) {
    if (email) throw invalid('to', 'same', 'this is another name for email: give one of them');
    return [...new Set(to)].map((one, index) => requireMailbox(one, `to.${index}`));
  }
  const named = oneOf({ email: email || undefined, to: to || undefined }, 'email', 'to');
  return [
    requireMailbox(named ?? missing('email', 'an address to send to'), email ? 'email' : 'to'),
  ];
}

type Content = Omit<TemplatedEmail, 'to'> | Omit<PlainEmail, 'to'>;

function contentOf({ variables = {}, ...body }: EmailInput): Content {
  // Empty text says nothing.
  const {
    templateName,
    subject,
    body: html,
  } = {
    templateName: body.templateName || undefined,
    subject: body.subject || undefined,
    body: body.body || undefined,
  };
  const sender = oneOf(
    { sender: body.sender || undefined, from: body.from || undefined },
    'sender',
    'from',
  );
  const { strict } = body;
  const named = { variables, strict, ...(sender === undefined ? {} : { sender }) };
  const language = body.locale === undefined ? {} : { locale: body.locale };
  if (templateName === undefined) {
    const instead = (what: string): string => `templateName, or ${what}`;
    return {
      ...named,
      subject: subject ?? missing('subject', instead('a subject')),
      body: html ?? missing('body', instead('a body')),
    };
  }
  return {
    ...named,
    ...language,
    template: templateName,
    ...(subject === undefined ? {} : { subject }),
    ...(html === undefined ? {} : { body: html }),
  };
}

function mailPartsOf({
  cc,
  bcc,
  replyTo,
  headers,
  unsubscribe,
  inReplyTo,
  references,
  attachments,
  tracking,
}: EmailInput): MailParts {
  const list = (name: 'cc' | 'bcc', addresses: readonly string[] | undefined) =>
    addresses && addresses.length > 0
      ? { [name]: addresses.map((one, index) => requireMailbox(one, `${name}.${index}`)) }
      : {};
  const given = {
    ...requireHeaders(headers ?? {}),
    ...(unsubscribe === undefined ? {} : requireHeaders(unsubscribeHeaders(unsubscribe))),
    ...threadHeaders(inReplyTo, references),
  };
  return {
    ...(tracking && Object.keys(tracking).length > 0 ? { tracking } : {}),
    ...list('cc', cc),
    ...list('bcc', bcc),
    ...(replyTo ? { replyTo: requireMailbox(replyTo, 'replyTo') } : {}),
    ...(Object.keys(given).length === 0 ? {} : { headers: given }),
    ...(attachments && attachments.length > 0 ? { attachments: checkedFiles(attachments) } : {}),
  };
}

/** By which readers put mails into one thread (RFC 5322, 3.6.4). */
const threadHeaders = (
  inReplyTo: string | undefined,
  references: readonly string[] = inReplyTo === undefined ? [] : [inReplyTo],
): Readonly<Record<string, string>> =>
  requireHeaders({
    ...(inReplyTo === undefined ? {} : { 'In-Reply-To': inReplyTo }),
    ...(references.length === 0 ? {} : { References: references.join(' ') }),
  });

const furthestMs = 366 * 24 * 3600_000;

/** How the mail is stored beside what it says. Throws 400 for a time too far ahead. */
export function storingOf({ category, critical, sendAt }: EmailInput): {
  readonly category?: string | undefined;
  readonly critical?: boolean | undefined;
  readonly sendAt?: Date | undefined;
} {
  const at = sendAt === undefined ? undefined : new Date(sendAt);
  if (at && at.getTime() > Date.now() + furthestMs)
    throw invalid('sendAt', 'maximum', 'must be within a year');
  return { category, critical, sendAt: at };
}

/** A text under one of its two names. Throws 400 when they say different things. */
function oneOf<Name extends string>(
  texts: { readonly [name in Name]?: string | undefined },
  name: Name,
  other: Name,
): string | undefined {
  const [first, second] = [texts[name], texts[other]];
  if (first !== undefined && second !== undefined && first !== second)
    throw invalid(other, 'same', `this is another name for ${name}: give one of them`);
  return first ?? second;
}

function missing(path: string, what: string): never {
  throw invalid(path, 'required', `give ${what}`);
}
