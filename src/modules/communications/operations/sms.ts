/** Writing text messages. */
import Type, { type Static } from 'typebox';
import { errors, PenstockError, type Problem } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import { requireNumber } from '../recipients.ts';
import type { Outbox } from '../services/outbox.ts';
import { smsSegments } from '../services/sms/providers.ts';
import { adminFacts, Sent, withoutContent } from './shapes.ts';

export const smsOperations = (outbox: Outbox): readonly Operation[] => [
  smsOperation(outbox),
  smsManyOperation(outbox),
];

const SmsText = Type.String({ minLength: 1, maxLength: 1600, description: 'What it says' });

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
          minLength: 1,
          maxLength: 30,
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
      const to = requireNumber(body.to);
      const { messageId, sent, captured } = await outbox.sendSms({ to, text: body.message });
      const message = captured ? 'SMS captured: no provider is set' : 'SMS queued';
      const result = sent ? 'SMS sent successfully' : message;
      return { message: result, messageId, result, segments: smsSegments(body.message) };
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
        to: Type.Array(Type.String({ maxLength: 30 }), {
          minItems: 1,
          maxItems: 1000,
          description: 'Numbers',
        }),
        message: SmsText,
      }),
    },
    output: Type.Object({
      message: Type.String(),
      results: Type.Array(SmsResult),
      successCount: Type.Integer(),
      failureCount: Type.Integer(),
    }),
    errors: [
      messageErrors.INVALID_RECIPIENT,
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.CHANNEL_DISABLED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a text message to several numbers',
    description:
      'Nothing is sent while one of them is no number. Each is stored and sent by a job; `success` says that it was stored. Where none is, the answer is the error of the first.',
    handler: async (_context, { body }) => {
      const numbers = checkedNumbers(body.to);
      const results: Static<typeof SmsResult>[] = [];
      const refusals: PenstockError[] = [];
      for (const to of numbers)
        results.push(await queued(outbox, { to, text: body.message }, refusals));
      const [refusal] = refusals;
      if (refusal && refusals.length === numbers.length) throw refusal;
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

/** One who has got too many, or wants none, does not hold up the others. */
async function queued(
  outbox: Outbox,
  { to, text }: { readonly to: string; readonly text: string },
  refusals: PenstockError[],
): Promise<Static<typeof SmsResult>> {
  try {
    return { to, success: true, messageId: await outbox.queueSms({ to, text }) };
  } catch (error) {
    if (!(error instanceof PenstockError) || ![422, 429].includes(error.status)) throw error;
    refusals.push(error);
    return { to, success: false, error: error.message };
  }
}
