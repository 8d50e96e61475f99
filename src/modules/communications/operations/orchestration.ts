/** One message over several channels: on one, or on all of them. */
import Type, { type Static } from 'typebox';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import type { Channel } from '../queries.ts';
import type { Addresses, UnifiedMessage } from '../services/composer.ts';
import { ChannelName } from './shapes.ts';
import {
  message,
  type Orchestration,
  readMessage,
  sending,
  sendingErrors,
} from './unified-message.ts';

export const orchestrationOperations = (parts: Orchestration): readonly Operation[] => [
  sendOperation(parts),
  multipleOperation(parts),
];

const Result = Type.Object({
  channel: ChannelName,
  success: Type.Boolean({ description: 'It was stored, and is sent by a job' }),
  messageId: Type.Optional(Type.String({ format: 'uuid' })),
  error: Type.Optional(Type.String()),
  skipped: Type.Optional(
    Type.Boolean({ description: 'The channel is off, or does not lead to the recipient' }),
  ),
});

/** What is about the recipient is told as a result; what is about the request is thrown. */
async function stored(
  { database, composer }: Orchestration,
  channel: Channel,
  about: { readonly to: Addresses; readonly message: UnifiedMessage },
): Promise<Static<typeof Result>> {
  try {
    const { messageId } = await database.transaction((transaction) =>
      composer.store(transaction, channel, about),
    );
    return { channel, success: true, messageId };
  } catch (error) {
    if (!(error instanceof PenstockError) || ![422, 429].includes(error.status)) throw error;
    return { channel, success: false, error: error.message };
  }
}

const sendOperation = (parts: Orchestration): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.send',
    path: '/communications/send',
    input: {
      body: Type.Object({
        channel: ChannelName,
        ...message,
        digest: Type.Optional(
          Type.Object(
            {
              key: Type.String({ minLength: 1, maxLength: 100 }),
              windowSeconds: Type.Integer({ minimum: 1, maximum: 2_592_000 }),
            },
            {
              description:
                'Collected under this key; when the time is over one message is written with `items` (the variables of each) and `count`',
            },
          ),
        ),
      }),
    },
    output: Type.Object({
      ...Result.properties,
      digestId: Type.Optional(Type.String({ format: 'uuid' })),
      items: Type.Optional(Type.Integer()),
    }),
    errors: sendingErrors,
    summary: 'Send a message over a channel',
    description:
      'Stored, and sent by a job. `success` is false where the recipient refuses messages or has got too many.',
    handler: async (_context, { body: { channel, digest, ...said } }) => {
      const about = await readMessage(parts, said);
      if (!digest) return stored(parts, channel, about);
      if (!parts.available(channel)) throw messageErrors.CHANNEL_DISABLED();
      return { channel, success: true, ...(await parts.digests.add(channel, about, digest)) };
    },
  });

const multipleOperation = (parts: Orchestration): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.sendMultiple',
    path: '/send/multiple',
    input: {
      body: Type.Object({
        channels: Type.Array(ChannelName, {
          minItems: 1,
          maxItems: 3,
          uniqueItems: true,
          description: 'Channels, all of them at once',
        }),
        strategy: Type.Optional(
          Type.Enum(['BEST_EFFORT', 'ALL_OR_NOTHING'], {
            description: 'BEST_EFFORT unless set. ALL_OR_NOTHING: one that cannot keeps back all',
          }),
        ),
        ...message,
      }),
    },
    output: Type.Object({
      successCount: Type.Integer(),
      failureCount: Type.Integer(),
      results: Type.Array(Result),
    }),
    errors: [
      ...sendingErrors,
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.RECIPIENT_OPTED_OUT,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a message over several channels at once',
    description:
      'Results come in the order of `channels`. With ALL_OR_NOTHING every channel, address and template is examined, and all messages are stored or none.',
    handler: async (_context, { body: { channels, strategy, ...said } }) => {
      const about = await readMessage(parts, said);
      const results =
        strategy === 'ALL_OR_NOTHING'
          ? await allOrNothing(parts, channels, about)
          : await bestEffort(parts, channels, about);
      const successCount = results.filter(({ success }) => success).length;
      return { successCount, failureCount: results.length - successCount, results };
    },
  });

type About = Awaited<ReturnType<typeof readMessage>>;

/** One transaction: an error of one takes all back. */
const allOrNothing = (
  { database, composer }: Orchestration,
  channels: readonly Channel[],
  about: About,
): Promise<Static<typeof Result>[]> =>
  database.transaction(async (transaction) => {
    const results: Static<typeof Result>[] = [];
    for (const [place, channel] of channels.entries()) {
      const { messageId } = await composer
        .store(transaction, channel, about)
        .catch((error: unknown) => failed(channel, place, error));
      results.push({ channel, success: true, messageId });
    }
    return results;
  });

/** The error of a channel, which it names. */
function failed(channel: Channel, place: number, error: unknown): never {
  if (!(error instanceof PenstockError)) throw error;
  const { code, status, message, errors: problems = [], retryAfter, detail } = error;
  throw new PenstockError(code, status, `${channel}: ${message}`, {
    errors: [...problems, { path: `channels.${place}`, rule: 'failed', message }],
    retryAfter,
    detail,
    cause: error,
  });
}

/** Channels that are off, or on which the recipient has no address, are told and left out. Throws while all of them are. */
async function bestEffort(
  parts: Orchestration,
  channels: readonly Channel[],
  about: About,
): Promise<Static<typeof Result>[]> {
  const results: Static<typeof Result>[] = [];
  let refusal: unknown;
  for (const channel of channels) {
    try {
      results.push(await stored(parts, channel, about));
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status === 500) throw error;
      refusal ??= error;
      results.push({ channel, success: false, skipped: true, error: error.message });
    }
  }
  if (refusal !== undefined && results.every(({ success }) => !success)) throw refusal;
  return results;
}
