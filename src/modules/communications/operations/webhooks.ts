/** Where providers report what became of messages. Whoever calls proves by a signature to be the provider. */
import Type from 'typebox';
import {
  anyType,
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { wholeBody } from '../../../kernel/operations/operation-input.ts';
import { messageErrors } from '../errors.ts';
import { type Feedback, hookProviders } from '../services/feedback/feedback.ts';

export const webhookOperations = (feedback: Feedback): readonly Operation[] => [
  postOperation(feedback),
  getOperation(feedback),
];

/** Providers report many messages at once, from few addresses. */
const limit = { requests: 3000, seconds: 60 } as const;
const bytes = 4_000_000;

const facts = {
  surface: 'client',
  access: 'public',
  limit,
  graphql: false,
  idempotency: false,
  output: TextResult,
  errors: [messageErrors.WEBHOOK_REFUSED, messageErrors.WEBHOOK_NOT_FOUND],
} as const;

const header = Type.Optional(Type.String({ maxLength: 1000 }));
const Headers = Type.Object({
  'x-twilio-email-event-webhook-signature': header,
  'x-twilio-email-event-webhook-timestamp': header,
  'x-mandrill-signature': header,
  'x-twilio-signature': header,
  signature: header,
});
const text = (maxLength: number) => Type.Optional(Type.String({ maxLength }));

const postOperation = (feedback: Feedback): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.webhooks.receive',
    method: 'POST',
    path: '/hook/communications/:provider',
    input: {
      params: Type.Object({
        provider: Type.Enum(hookProviders.filter((name) => name !== 'messageBird')),
      }),
      query: Type.Object({ message: Type.Optional(Type.String({ format: 'uuid' })) }),
      headers: Headers,
      stream: {
        contentTypes: [anyType],
        description: "What the provider reports, in the provider's own form",
        limit: bytes,
        inMemory: true,
      },
    },
    summary: 'Take what a provider reports about messages',
    description:
      'Deliveries, openings, bounces and complaints. Believed only with the signature of the provider; the same report again changes nothing.',
    handler: async (_context, { params, query, headers, stream }) => {
      const raw = await wholeBody(stream);
      await feedback.receive(params.provider, { raw, headers, query });
      return 'OK';
    },
  });

const getOperation = (feedback: Feedback): Operation =>
  defineOperation({
    ...facts,
    id: 'communications.webhooks.report',
    method: 'GET',
    path: '/hook/communications/messageBird',
    changes: true,
    input: {
      query: Type.Object({
        token: text(100),
        reference: text(100),
        status: text(50),
        statusErrorCode: text(20),
      }),
    },
    summary: 'Take what MessageBird reports about a text message',
    description: 'Believed only with the token that the address of each report has.',
    handler: async (_context, { query }) => {
      await feedback.receive('messageBird', { raw: Buffer.alloc(0), headers: {}, query });
      return 'OK';
    },
  });
