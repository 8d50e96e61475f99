/** A message that goes over one channel after the other. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { ChainStep } from '../chain-queries.ts';
import { messageErrors } from '../errors.ts';
import type { ChainView } from '../services/chains.ts';
import { requireReachable } from '../services/composer.ts';
import { adminFacts, ChannelName, Id, nullable, Timestamp } from './shapes.ts';
import {
  message,
  type Orchestration,
  readMessage,
  sending,
  sendingErrors,
} from './unified-message.ts';

export const chainOperations = (parts: Orchestration): readonly Operation[] => [
  fallbackOperation(parts),
  chainOperation(parts),
  cancelOperation(parts),
];

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
      requireReachable(steps, about.to);
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
