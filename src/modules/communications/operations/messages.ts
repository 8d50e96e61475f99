/** What was written to people, and writing to them. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { messageErrors } from '../errors.ts';
import { messageStatuses } from '../queries.ts';
import type { DeliveryHealth } from '../services/delivery.ts';
import type { Outbox } from '../services/outbox.ts';
import { adminFacts, ChannelName, Id, nullable } from './shapes.ts';

const facts = adminFacts;
const Status = Type.Union(
  messageStatuses.map((status) => Type.Literal(status)),
  { description: 'How far it is' },
);

const message = {
  _id: Type.String({ format: 'uuid' }),
  channel: ChannelName,
  recipient: Type.String(),
  template: nullable(Type.String({ description: 'Name of the template' })),
  status: Type.String({
    description:
      'queued, sending, sent (a provider took it), captured (kept here instead of being sent), cancelled or failed; and what providers report: delivered, opened, clicked, bounced, complained',
  }),
  attempts: Type.Integer(),
  error: nullable(Type.String({ description: 'Kind of the last failure' })),
  provider: nullable(Type.String({ description: 'Who took or refused it' })),
  providerId: nullable(Type.String({ description: "The provider's own name for it" })),
  sender: nullable(Type.String()),
  copies: nullable(Type.Array(Type.String())),
  replyTo: nullable(Type.String()),
  category: nullable(Type.String()),
  dueAt: nullable(
    Type.String({
      format: 'date-time',
      description: 'When it goes out, where that is not at once',
    }),
  ),
  createdAt: Type.String({ format: 'date-time' }),
  finishedAt: nullable(Type.String({ format: 'date-time' })),
};
const Message = Type.Object(message);
const MessageWithContent = Type.Object({
  ...message,
  timeline: Type.Optional(
    Type.Array(
      Type.Object({
        kind: Type.String({
          description:
            'queued, tried (and not taken), accepted, captured, refused, failed, cancelled, retaken; from providers: processed, deferred, sent, delivered, opened, clicked, bounced, complained, unsubscribed',
        }),
        provider: nullable(Type.String()),
        detail: nullable(Type.String({ description: "The provider's own words" })),
        at: Type.String({ format: 'date-time' }),
      }),
      { description: 'What happened to it, in order' },
    ),
  ),
  content: Type.Optional(
    Type.Object(
      {
        from: Type.Optional(Type.String()),
        subject: Type.Optional(Type.String()),
        html: Type.Optional(Type.String()),
        text: Type.String(),
        code: Type.Optional(Type.String({ description: 'The code that it tells' })),
        links: Type.Array(Type.String()),
        push: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
        mail: Type.Optional(
          Type.Object({
            cc: Type.Optional(Type.Array(Type.String())),
            bcc: Type.Optional(Type.Array(Type.String())),
            replyTo: Type.Optional(Type.String()),
            headers: Type.Optional(Type.Record(Type.String(), Type.String())),
            attachments: Type.Optional(
              Type.Array(Type.Object({ filename: Type.String(), contentType: Type.String() })),
            ),
          }),
        ),
      },
      { description: 'Only of captured messages' },
    ),
  ),
});

export const messageOperations = (
  outbox: Outbox,
  health: () => Promise<DeliveryHealth>,
): readonly Operation[] => [
  healthOperation(health),
  listOperation(outbox),
  readOperation(outbox),
  retryOperation(outbox),
  cancelOperation(outbox),
];

const ProviderHealth = Type.Object({
  channel: ChannelName,
  provider: Type.String(),
  lastSuccessAt: nullable(Type.String({ format: 'date-time' })),
  lastFailureAt: nullable(Type.String({ format: 'date-time' })),
  lastError: nullable(Type.String()),
  failures: Type.Integer({
    description: 'Since the last success. What it refuses for good is no failure of its own',
  }),
  refusesKey: Type.Boolean({
    description: 'It refused our credentials: what it is given fails until they are corrected',
  }),
});

const healthOperation = (health: () => Promise<DeliveryHealth>): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.health',
    method: 'GET',
    path: '/communications/health',
    input: {},
    output: Type.Object({
      waiting: Type.Integer({ description: 'Messages that wait to be sent' }),
      providers: Type.Array(ProviderHealth),
    }),
    summary: 'Read how the providers do',
    description:
      'Those of each channel in the order in which they are asked, as this node saw them since it started.',
    handler: async () => {
      const { waiting, providers } = await health();
      return { waiting, providers: [...providers] };
    },
  });

const listOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.messages.list',
    method: 'GET',
    path: '/communications/messages',
    input: {
      query: Type.Object({
        ...pagingQuery(),
        channel: Type.Optional(ChannelName),
        recipient: Type.Optional(
          Type.String({ maxLength: 254, description: 'The whole address or number' }),
        ),
        status: Type.Optional(Status),
        template: Type.Optional(
          Type.String({ maxLength: 100, description: 'Name of the template' }),
        ),
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
      'While no provider is set, messages are captured: then this answers the text, the links and the code. They open accounts: a token that may only read gets the list alone, and one that is narrowed to modules reads the messages of those modules and of operators.',
    handler: async ({ caller }, { params }) => {
      const message = await outbox.read(caller, params.id);
      return Reply.value(message);
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
    errors: [messageErrors.MESSAGE_NOT_FOUND, messageErrors.MESSAGE_NOT_RETRYABLE],
    summary: 'Send a message again that failed',
    handler: async (_context, { params }) => {
      await outbox.retry(params.id);
      return 'Message queued';
    },
  });

const cancelOperation = (outbox: Outbox): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.messages.cancel',
    method: 'POST',
    path: '/communications/messages/:id/cancel',
    destructive: true,
    input: { params: Id },
    output: TextResult,
    errors: [messageErrors.MESSAGE_NOT_FOUND, messageErrors.MESSAGE_NOT_CANCELLABLE],
    summary: 'Take back a message that has not gone out',
    description: 'What it says is erased.',
    handler: async (_context, { params }) => {
      await outbox.cancel(params.id);
      return 'Message cancelled';
    },
  });
