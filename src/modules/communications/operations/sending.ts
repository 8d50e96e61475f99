/** Writing to people: mail and text messages. */
import Type, { type Static } from 'typebox';
import { callerKey } from '../../../kernel/caller.ts';
import { errors, invalid, PenstockError, type Problem } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { messageErrors } from '../errors.ts';
import { requireHeaders, requireMailbox, requireNumber } from '../recipients.ts';
import type { MailParts } from '../services/content.ts';
import type { PlainEmail, TemplatedEmail } from '../services/messages.ts';
import type { Outbox } from '../services/outbox.ts';
import { smsSegments } from '../services/sms/providers.ts';
import { adminFacts } from './shapes.ts';

export const sendingOperations = (outbox: Outbox): readonly Operation[] => [
  emailOperation(outbox),
  smsOperation(outbox),
  smsManyOperation(outbox),
];

const Sent = Type.Object({ message: Type.String(), messageId: Type.String({ format: 'uuid' }) });

/** To whom and what kind; what a message says may hold codes and links that open accounts. */
const withoutContent = (sent: unknown): object => {
  const { email, to, templateName, sender, from } = sent as Readonly<Record<string, unknown>>;
  const recipients = email ?? to;
  return {
    recipient: Array.isArray(recipients) ? `${recipients.length} recipients` : recipients,
    templateName,
    sender: sender ?? from,
  };
};

const mailbox = (description: string) =>
  Type.Optional(Type.String({ maxLength: 254, description }));
const mailboxes = (description: string) =>
  Type.Optional(Type.Array(Type.String({ maxLength: 254 }), { maxItems: 50, description }));

/** Bytes of all attachments together, as base64; what most mail servers take once it is encoded. */
const maxAttachments = 14_000_000;

const EmailBody = Type.Object({
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
  templateName: Type.Optional(Type.String({ maxLength: 100 })),
  subject: Type.Optional(
    Type.String({ maxLength: 500, description: 'Goes before that of the template' }),
  ),
  body: Type.Optional(
    Type.String({ maxLength: 200_000, description: 'HTML. Goes before that of the template' }),
  ),
  sender: mailbox('Goes before that of the template'),
  from: mailbox('Another name for sender'),
  variables: Type.Optional(Type.Record(Type.String({ maxLength: 100 }), Type.Unknown())),
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
  attachments: Type.Optional(
    Type.Array(
      Type.Object({
        filename: Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\x00-\\x1f"/\\\\]+$' }),
        contentType: Type.String({
          default: 'application/octet-stream',
          maxLength: 100,
          pattern: '^[a-z0-9.+-]+/[a-z0-9.+-]+$',
        }),
        content: Type.String({ maxLength: maxAttachments, description: 'Base64' }),
        contentId: Type.Optional(
          Type.String({
            pattern: '^[A-Za-z0-9._@-]{1,100}$',
            description: 'For a picture that the HTML names as cid:...',
          }),
        ),
      }),
      { maxItems: 20 },
    ),
  ),
  idempotencyKey: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'A second mail under this key is not sent; the answer is that of the first',
    }),
  ),
});

const emailOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.send',
    method: 'POST',
    path: '/email/send',
    openWorld: true,
    bodyLimit: 16_000_000,
    account: { bytesIn: 16_000_000 },
    auditChanges: ({ body }) => withoutContent(body),
    input: { body: EmailBody },
    output: Type.Object({
      ...Sent.properties,
      messageIds: Type.Optional(
        Type.Array(Type.String({ format: 'uuid' }), { description: 'With several recipients' }),
      ),
    }),
    errors: [
      messageErrors.TEMPLATE_NOT_FOUND,
      messageErrors.TEMPLATE_INVALID,
      messageErrors.INVALID_RECIPIENT,
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.CHANNEL_DISABLED,
      errors.IDEMPOTENCY_KEY_REUSED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a mail',
    description:
      'With `email`, and with `templateName` or `subject` and `body`; empty text counts as none. The mail is stored and sent by a job; `messageId` leads to its state.',
    handler: async ({ caller }, { body }) => {
      const mails = mailsOf(body);
      const messageIds: string[] = [];
      for (const mail of mails)
        messageIds.push(
          await outbox.sendEmail(mail, {
            idempotency: idempotencyOf(callerKey(caller), mail, body),
          }),
        );
      const [messageId = ''] = messageIds;
      return {
        message: 'Email queued',
        messageId,
        ...(messageIds.length > 1 ? { messageIds } : {}),
      };
    },
  });

type EmailInput = Static<typeof EmailBody>;

function idempotencyOf(
  caller: string,
  { to }: { readonly to: string },
  { idempotencyKey, ...body }: EmailInput,
): { readonly key: string; readonly hash: string } | undefined {
  if (idempotencyKey === undefined) return undefined;
  const key = sha256(`${caller} email ${to.toLowerCase()} ${idempotencyKey}`);
  return { key, hash: sha256(JSON.stringify(body)) };
}

/** One mail for each recipient. Throws 400 before anything is stored. */
function mailsOf(body: EmailInput): readonly (TemplatedEmail | PlainEmail)[] {
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
  const named = { variables, ...(sender === undefined ? {} : { sender }) };
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
  attachments,
}: EmailInput): MailParts {
  const list = (name: 'cc' | 'bcc', addresses: readonly string[] | undefined) =>
    addresses && addresses.length > 0
      ? { [name]: addresses.map((one, index) => requireMailbox(one, `${name}.${index}`)) }
      : {};
  const given = {
    ...requireHeaders(headers ?? {}),
    ...(unsubscribe === undefined ? {} : unsubscribeHeaders(unsubscribe)),
  };
  return {
    ...list('cc', cc),
    ...list('bcc', bcc),
    ...(replyTo ? { replyTo: requireMailbox(replyTo, 'replyTo') } : {}),
    ...(Object.keys(given).length === 0 ? {} : { headers: given }),
    ...(attachments && attachments.length > 0 ? { attachments: checkedFiles(attachments) } : {}),
  };
}

const unsubscribeHeaders = (address: string): Readonly<Record<string, string>> => ({
  ...requireHeaders({ 'List-Unsubscribe': `<${address}>` }),
  ...(address.startsWith('https:')
    ? { 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }
    : {}),
});

type Files = NonNullable<EmailInput['attachments']>;

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

function checkedFiles(files: Files): MailParts['attachments'] {
  const total = files.reduce((size, { content }) => size + content.length, 0);
  if (total > maxAttachments)
    throw errors.PAYLOAD_TOO_LARGE({ message: 'attachments: they are larger than 10 MB together' });
  return files.map((file, index) => {
    if (!base64.test(file.content) || file.content.length % 4 !== 0)
      throw invalid(`attachments.${index}.content`, 'base64', 'must be base64');
    return { ...file, contentType: file.contentType ?? 'application/octet-stream' };
  });
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

const SmsText = Type.String({ minLength: 1, maxLength: 1600 });

const smsOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.sms.send',
    method: 'POST',
    path: '/sms/send',
    openWorld: true,
    deadlineMs: 60_000,
    auditChanges: ({ body }) => withoutContent(body),
    input: {
      body: Type.Object({
        to: Type.String({
          minLength: 8,
          maxLength: 16,
          description: 'Number with its country: +306900000000',
        }),
        message: SmsText,
      }),
    },
    output: Type.Object({
      ...Sent.properties,
      result: Type.String(),
      segments: Type.Integer({ description: 'Parts that a provider charges for' }),
    }),
    errors: [
      messageErrors.INVALID_RECIPIENT,
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.PROVIDER_REFUSED,
      messageErrors.PROVIDER_AUTH,
      messageErrors.CHANNEL_DISABLED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a text message',
    description:
      'Stored, and sent while you wait. What the provider refuses is 500; while it is away or busy the message stays queued and is tried again.',
    handler: async (_context, { body }) => {
      const { messageId, sent } = await outbox.sendSms({ to: body.to, text: body.message });
      const message = sent ? 'SMS sent successfully' : 'SMS queued';
      return { message, messageId, result: message, segments: smsSegments(body.message) };
    },
  });

const SmsResult = Type.Object({
  to: Type.String(),
  success: Type.Boolean(),
  messageId: Type.Optional(Type.String({ format: 'uuid' })),
  error: Type.Optional(Type.String()),
});

const smsManyOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.sms.sendMany',
    method: 'POST',
    path: '/sms/sendMany',
    openWorld: true,
    account: { statements: 20_000 },
    deadlineMs: 120_000,
    auditChanges: ({ body }) => withoutContent(body),
    input: {
      body: Type.Object({
        to: Type.Array(Type.String({ maxLength: 30 }), { minItems: 1, maxItems: 1000 }),
        message: SmsText,
      }),
    },
    output: Type.Object({
      message: Type.String(),
      results: Type.Array(SmsResult),
      successCount: Type.Integer(),
      failureCount: Type.Integer(),
    }),
    errors: [messageErrors.INVALID_RECIPIENT, messageErrors.CHANNEL_DISABLED],
    summary: 'Send a text message to several numbers',
    description:
      'Nothing is sent while one of them is no number. Each is stored and sent by a job; `success` says that it was stored.',
    handler: async (_context, { body }) => {
      const numbers = checkedNumbers(body.to);
      const results: Static<typeof SmsResult>[] = [];
      for (const to of numbers) results.push(await queued(outbox, to, body.message));
      const successCount = results.filter(({ success }) => success).length;
      return {
        message: 'SMS queued',
        results,
        successCount,
        failureCount: results.length - successCount,
      };
    },
  });

/** Each number once. Throws 400 that names all that are none. */
function checkedNumbers(given: readonly string[]): readonly string[] {
  const problems: Problem[] = given.flatMap((number, index) => {
    try {
      requireNumber(number, `to.${index}`);
      return [];
    } catch (error) {
      return error instanceof PenstockError ? [...(error.errors ?? [])] : [];
    }
  });
  const [first] = problems;
  if (first)
    throw messageErrors.INVALID_RECIPIENT({
      message: `${first.path}: ${first.message}`,
      errors: problems,
    });
  return [...new Set(given)];
}

async function queued(outbox: Outbox, to: string, text: string): Promise<Static<typeof SmsResult>> {
  try {
    return { to, success: true, messageId: await outbox.queueSms({ to, text }) };
  } catch (error) {
    // One who has got too many, or wants none, does not hold up the others.
    if (error instanceof PenstockError && (error.status === 429 || error.status === 422))
      return { to, success: false, error: error.message };
    throw error;
  }
}
