/** What was written to people, and writing to them. */
import Type from 'typebox';
import { errors, invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation, standardLimit, TextResult } from '../../../kernel/operation.ts';
import { messageErrors } from '../errors.ts';
import { requireMailbox } from '../recipients.ts';
import type { Outbox, PlainEmail, TemplatedEmail } from '../services/messages.ts';
import type { Variables } from '../services/template-language.ts';

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Id = Type.Object({ id: Type.String({ format: 'uuid' }) });
const ChannelName = Type.Union([Type.Literal('email'), Type.Literal('sms')]);
const Status = Type.Union(['queued', 'sending', 'sent', 'captured', 'failed'].map((status) => Type.Literal(status)));

const message = {
  _id: Type.String({ format: 'uuid' }),
  channel: ChannelName,
  recipient: Type.String(),
  template: nullable(Type.String()),
  status: Type.String({ description: 'queued, sending, sent, captured (kept here instead of being sent) or failed' }),
  attempts: Type.Integer(),
  error: nullable(Type.String({ description: 'Kind of the last failure' })),
  createdAt: Type.String({ format: 'date-time' }),
  finishedAt: nullable(Type.String({ format: 'date-time' })),
};
const Message = Type.Object(message);
const MessageWithContent = Type.Object({
  ...message,
  content: Type.Optional(
    Type.Object(
      {
        from: Type.Optional(Type.String()),
        subject: Type.Optional(Type.String()),
        html: Type.Optional(Type.String()),
        text: Type.String(),
        code: Type.Optional(Type.String({ description: 'The code that it tells' })),
        links: Type.Array(Type.String()),
      },
      { description: 'Only of captured messages' },
    ),
  ),
});

const VariableValues = Type.Record(Type.String({ maxLength: 100 }), Type.Unknown());

export const messageOperations = (outbox: Outbox): readonly Operation[] => [
  listOperation(outbox),
  readOperation(outbox),
  retryOperation(outbox),
  emailOperation(outbox),
  smsOperation(outbox),
];

const listOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.messages.list',
    method: 'GET',
    path: '/communications/messages',
    input: {
      query: Type.Object({
        skip: Type.Integer({ default: 0, minimum: 0, maximum: 1_000_000_000 }),
        limit: Type.Integer({ default: 25, minimum: 1, maximum: 1000 }),
        channel: Type.Optional(ChannelName),
        recipient: Type.Optional(Type.String({ maxLength: 254, description: 'The whole address or number' })),
        status: Type.Optional(Status),
        template: Type.Optional(Type.String({ maxLength: 100 })),
      }),
    },
    output: Type.Object({ messages: Type.Array(Message), count: Type.Integer() }),
    summary: 'List messages to people',
    description: 'Newest first, without what they say.',
    handler: async (_context, { query }) => {
      const { messages, count } = await outbox.list(query);
      return { messages: [...messages], count };
    },
  });

const readOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.messages.get',
    method: 'GET',
    path: '/communications/messages/:id',
    // What it says may open an account.
    reveals: () => true,
    input: { params: Id },
    output: MessageWithContent,
    errors: [messageErrors.MESSAGE_NOT_FOUND],
    summary: 'Read a message',
    description:
      'While no provider is set, messages are captured: then this answers the text, the links and the code. They open accounts, so a token that may only read gets the list alone.',
    handler: async (_context, { params }) => {
      const { content, ...row } = await outbox.read(params.id);
      return content === undefined ? row : { ...row, content: { ...content, links: [...content.links] } };
    },
  });

const retryOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.messages.retry',
    method: 'POST',
    path: '/communications/messages/:id/retry',
    openWorld: true,
    input: { params: Id },
    output: TextResult,
    errors: [messageErrors.MESSAGE_NOT_FOUND, messageErrors.NOT_RETRYABLE],
    summary: 'Send a message again that failed',
    handler: async (_context, { params }) => {
      await outbox.retry(params.id);
      return 'Message queued';
    },
  });

const Sent = Type.Object({ message: Type.String(), messageId: Type.String({ format: 'uuid' }) });

/** To whom and what kind; what a message says may hold codes and links that open accounts. */
const withoutContent = (sent: unknown): object => {
  const { email, to, templateName, sender, from } = sent as Readonly<Record<string, unknown>>;
  return { recipient: email ?? to, templateName, sender: sender ?? from };
};

const mailbox = (description: string) => Type.Optional(Type.String({ maxLength: 254, description }));

const emailOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.email.send',
    method: 'POST',
    path: '/email/send',
    openWorld: true,
    auditChanges: ({ body }) => withoutContent(body),
    input: {
      body: Type.Object({
        email: mailbox('Address of the recipient'),
        to: mailbox('Another name for email'),
        templateName: Type.Optional(Type.String({ maxLength: 100 })),
        subject: Type.Optional(Type.String({ maxLength: 500, description: 'Goes before that of the template' })),
        body: Type.Optional(Type.String({ maxLength: 200_000, description: 'HTML. Goes before that of the template' })),
        sender: mailbox('Goes before that of the template'),
        from: mailbox('Another name for sender'),
        variables: Type.Optional(VariableValues),
      }),
    },
    output: Sent,
    errors: [
      messageErrors.TEMPLATE_NOT_FOUND,
      messageErrors.INVALID_TEMPLATE,
      messageErrors.INVALID_RECIPIENT,
      messageErrors.CHANNEL_OFF,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a mail',
    description:
      'With `email`, and with `templateName` or `subject` and `body`; empty text counts as none. The mail is stored and sent by a job; `messageId` leads to its state.',
    handler: async (_context, { body }) => ({ message: 'Email queued', messageId: await outbox.sendEmail(emailOf(body)) }),
  });

type Texts<Name extends string> = { readonly [name in Name]?: string };
type EmailBody = Texts<'email' | 'to' | 'templateName' | 'subject' | 'body' | 'sender' | 'from'> & { readonly variables?: Variables };

function emailOf({ variables = {}, ...given }: EmailBody): TemplatedEmail | PlainEmail {
  const texts: Texts<Exclude<keyof EmailBody, 'variables'>> = Object.fromEntries(Object.entries(given).filter(([, text]) => text !== ''));
  const { templateName, subject, body } = texts;
  const to = requireMailbox(
    oneOf(texts, 'email', 'to') ?? missing('email', 'an address to send to'),
    texts.email === undefined ? 'to' : 'email',
  );
  const sender = oneOf(texts, 'sender', 'from');
  const named = { to, variables, ...(sender === undefined ? {} : { sender }) };
  if (templateName === undefined) {
    const instead = (what: string): string => `templateName, or ${what}`;
    return {
      ...named,
      subject: subject ?? missing('subject', instead('a subject')),
      body: body ?? missing('body', instead('a body')),
    };
  }
  return { ...named, template: templateName, ...(subject === undefined ? {} : { subject }), ...(body === undefined ? {} : { body }) };
}

/** A text under one of its two names. Throws 400 when they say different things. */
function oneOf<Name extends string>(texts: Texts<Name>, name: Name, other: Name): string | undefined {
  const [first, second] = [texts[name], texts[other]];
  if (first !== undefined && second !== undefined && first !== second)
    throw invalid(other, 'same', `this is another name for ${name}: give one of them`);
  return first ?? second;
}

function missing(path: string, what: string): never {
  throw invalid(path, 'required', `give ${what}`);
}

const smsOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.sms.send',
    method: 'POST',
    path: '/sms/send',
    openWorld: true,
    auditChanges: ({ body }) => withoutContent(body),
    input: {
      body: Type.Object({
        to: Type.String({ minLength: 8, maxLength: 16, description: 'Number with its country: +306900000000' }),
        message: Type.String({ minLength: 1, maxLength: 1600 }),
      }),
    },
    output: Type.Object({ ...Sent.properties, result: Type.String() }),
    errors: [messageErrors.INVALID_RECIPIENT, messageErrors.CHANNEL_OFF, errors.RATE_LIMIT],
    summary: 'Send a text message',
    handler: async (_context, { body }) => {
      const messageId = await outbox.sendSms({ to: body.to, text: body.message });
      return { message: 'SMS queued', messageId, result: 'SMS queued' };
    },
  });
