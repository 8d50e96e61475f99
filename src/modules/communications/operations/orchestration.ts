/** One message over several channels: on one, on all of them, or on one after the other. */
import Type, { type Static } from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { ChainStep } from '../chain-queries.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import type { Channel } from '../queries.ts';
import type { Chains, ChainView } from '../services/chains.ts';
import type { Addresses, Composer, UnifiedMessage } from '../services/composer.ts';
import type { Digests } from '../services/digests.ts';
import { localePattern } from '../services/locales.ts';
import { adminFacts, ChannelName, Id, nullable, Timestamp } from './shapes.ts';

export interface Orchestration {
  readonly database: Kernel['database'];
  readonly composer: Composer;
  readonly chains: Chains;
  readonly digests: Digests;
  readonly config: () => CommunicationsConfig;
  readonly available: (channel: Channel) => boolean;
}

export const orchestrationOperations = (parts: Orchestration): readonly Operation[] => [
  sendOperation(parts),
  multipleOperation(parts),
  fallbackOperation(parts),
  chainOperation(parts),
  cancelOperation(parts),
];

/* What is said, and to whom. */

const text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));

const Recipient = Type.Union(
  [
    Type.String({ minLength: 1, maxLength: 254 }),
    Type.Object({
      userId: Type.Optional(Type.String({ format: 'uuid' })),
      email: Type.Optional(Type.String({ maxLength: 254 })),
      phone: Type.Optional(Type.String({ maxLength: 16 })),
    }),
  ],
  {
    description:
      'An address, a number, or the id of a user, whose address and number are looked up; or several of them by name',
  },
);

const message = {
  recipient: Recipient,
  templateName: text(100, 'Template for several channels, or a mail template'),
  subject: text(500, 'Goes before that of the template; the title of a push message'),
  body: text(200_000, 'Goes before that of the template; may hold {{variables}}'),
  variables: Type.Optional(Type.Record(Type.String({ maxLength: 100 }), Type.Unknown())),
  sender: text(254, 'Of a mail'),
  locale: Type.Optional(Type.String({ pattern: localePattern })),
  category: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,50}$',
      description: 'Kind of message by which recipients choose; that of the template unless set',
    }),
  ),
  critical: Type.Optional(
    Type.Boolean({ description: 'Goes out whatever its recipient chose, and in quiet hours too' }),
  ),
};
const Message = Type.Object(message);

async function readMessage(
  composer: Composer,
  { recipient, ...said }: Static<typeof Message>,
): Promise<{ readonly to: Addresses; readonly message: UnifiedMessage }> {
  return { to: await composer.addressesOf(recipient), message: said };
}

/** To whom and what kind; what a message says is not for the audit log. */
const auditChanges = ({ body }: { readonly body: unknown }): object => {
  const { recipient, templateName, channel, channels, category } = body as Record<string, unknown>;
  return { recipient, templateName, channel, channels, category };
};

const sending = {
  ...adminFacts,
  method: 'POST',
  openWorld: true,
  auditChanges,
} as const;
const sendingErrors = [
  messageErrors.INVALID_RECIPIENT,
  messageErrors.TEMPLATE_INVALID,
  messageErrors.TEMPLATE_NOT_FOUND,
  messageErrors.RECIPIENT_NOT_FOUND,
  messageErrors.CHANNEL_DISABLED,
];

const Result = Type.Object({
  channel: ChannelName,
  success: Type.Boolean({ description: 'It was stored, and is sent by a job' }),
  messageId: Type.Optional(Type.String({ format: 'uuid' })),
  error: Type.Optional(Type.String()),
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
      const about = await readMessage(parts.composer, said);
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
        channels: Type.Array(ChannelName, { minItems: 1, maxItems: 3, uniqueItems: true }),
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
      const about = await readMessage(parts.composer, said);
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
    for (const channel of channels) {
      const { messageId } = await composer.store(transaction, channel, about);
      results.push({ channel, success: true, messageId });
    }
    return results;
  });

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
      results.push({ channel, success: false, error: error.message });
    }
  }
  if (refusal !== undefined && results.every(({ success }) => !success)) throw refusal;
  return results;
}

const Attempt = Type.Object({
  channel: ChannelName,
  success: Type.Boolean(),
  messageId: Type.Optional(Type.String({ format: 'uuid' })),
  error: Type.Optional(Type.String()),
});

const ChainStatus = Type.Enum(['running', 'done', 'failed', 'cancelled']);

const chainFacts = {
  chainId: Type.String({ format: 'uuid' }),
  status: ChainStatus,
  successfulChannel: nullable(ChannelName),
  messageId: nullable(Type.String({ format: 'uuid' })),
  attempts: Type.Array(Attempt),
};

function onWire({ id, status, attempts }: ChainView) {
  const success = attempts.find((attempt) => attempt.success);
  return {
    chainId: id,
    status,
    successfulChannel: success?.channel ?? null,
    messageId: success?.messageId ?? null,
    attempts: attempts.map((attempt) => ({ ...attempt })),
  };
}

const week = 604_800_000;
/** How long a caller waits. Milliseconds. */
const waitMs = 45_000;

const fallbackOperation = (parts: Orchestration): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.sendFallback',
    path: '/send/fallback',
    deadlineMs: 60_000,
    account: { statements: 3000 },
    input: {
      body: Type.Object({
        fallbackChain: Type.Array(
          Type.Object({
            channel: ChannelName,
            timeout: Type.Optional(
              Type.Integer({
                minimum: 100,
                maximum: week,
                description:
                  'Milliseconds before the next one; orchestration.fallbackTimeout unless set',
              }),
            ),
            until: Type.Optional(
              Type.Enum(['accepted', 'delivered', 'read'], {
                description:
                  'What must have happened by then: a provider took it (unless set), it was delivered, or it was opened',
              }),
            ),
          }),
          { minItems: 1, maxItems: 10 },
        ),
        allowDuplicate: Type.Optional(
          Type.Boolean({
            description:
              'Go on also where nobody knows whether a provider took it; it may arrive twice',
          }),
        ),
        ...message,
      }),
    },
    output: Type.Object(chainFacts),
    errors: [...sendingErrors, messageErrors.CHANNELS_FAILED],
    summary: 'Send a message over one channel after the other',
    description:
      'The first that succeeds ends it. Steps until `delivered` or `read`, and what takes longer than the call, go on by themselves: `status` is then running, and GET /communications/chains/:id tells the rest.',
    handler: async (_context, { body: { fallbackChain, allowDuplicate, ...said } }) => {
      const about = await readMessage(parts.composer, said);
      const { fallbackTimeout } = parts.config().orchestration;
      const steps = fallbackChain.map(
        ({ channel, timeout = fallbackTimeout, until = 'accepted' }): ChainStep => ({
          channel,
          timeout,
          until,
        }),
      );
      const chain = await parts.chains.run({ ...about, allowDuplicate }, steps, waitMs);
      if (chain.status === 'failed') throw allFailed(chain);
      return onWire(chain);
    },
  });

const allFailed = ({ attempts }: ChainView) =>
  messageErrors.CHANNELS_FAILED({
    message: `No channel took the message, after ${attempts.length} attempts: ${attempts
      .map(({ channel, error }) => `${channel} (${error ?? 'failed'})`)
      .join(', ')}`,
  });

const chainOperation = ({ chains }: Orchestration): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.chains.get',
    method: 'GET',
    path: '/communications/chains/:id',
    input: { params: Id },
    output: Type.Object({
      ...chainFacts,
      position: Type.Integer({ description: 'The step that it is at, from 0' }),
      createdAt: Timestamp,
      finishedAt: nullable(Timestamp),
    }),
    errors: [messageErrors.CHAIN_NOT_FOUND],
    summary: 'Read how far a message is that goes over one channel after the other',
    handler: async (_context, { params }) => {
      const chain = await chains.get(params.id);
      return {
        ...onWire(chain),
        position: chain.position,
        createdAt: chain.createdAt.toISOString(),
        finishedAt: chain.finishedAt?.toISOString() ?? null,
      };
    },
  });

const cancelOperation = ({ chains }: Orchestration): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.chains.cancel',
    method: 'POST',
    path: '/communications/chains/:id/cancel',
    destructive: true,
    input: { params: Id },
    output: TextResult,
    errors: [messageErrors.CHAIN_NOT_FOUND],
    summary: 'Stop a message that goes over one channel after the other',
    description: 'What has gone out stays; nothing more goes out.',
    handler: async (_context, { params }) => {
      await chains.cancel(params.id);
      return 'Chain cancelled';
    },
  });
