/** A message that goes over one channel after the other. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import type { ChainView } from '../services/chains.ts';
import { requireReachable } from '../services/composer.ts';
import { AllowDuplicate, FallbackStep } from './chain-definitions.ts';
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
  name: nullable(Type.String({ description: 'Under which its steps are kept' })),
  status: ChainStatus,
  successfulChannel: nullable(ChannelName),
  messageId: nullable(Type.String({ format: 'uuid' })),
  attempts: Type.Array(Attempt),
};

function onWire({ id, name, status, attempts }: ChainView) {
  const success = attempts.find((attempt) => attempt.success);
  return {
    chainId: id,
    name,
    status,
    successfulChannel: success?.channel ?? null,
    messageId: success?.messageId ?? null,
    attempts: attempts.map((attempt) => ({ ...attempt })),
  };
}

/** How long a caller waits. Milliseconds. */
const waitMs = 45_000;

const FallbackSteps = Type.Array(FallbackStep, {
  minItems: 1,
  maxItems: 10,
  description: 'Channels in their order, each with how long it has',
});

const fallbackOperation = (parts: Orchestration): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.sendFallback',
    path: '/send/fallback',
    deadlineMs: 60_000,
    account: { statements: 3000 },
    input: {
      body: Type.Object({
        fallbackChain: Type.Optional(FallbackSteps),
        chain: Type.Optional(
          Type.String({
            maxLength: 100,
            description: 'Name of a chain that is kept, in place of fallbackChain',
          }),
        ),
        allowDuplicate: AllowDuplicate,
        ...message,
      }),
    },
    output: Type.Object(chainFacts),
    errors: [
      ...sendingErrors,
      messageErrors.CHAIN_DEFINITION_NOT_FOUND,
      messageErrors.CHANNELS_FAILED,
    ],
    summary: 'Send a message over one channel after the other',
    description:
      'The first that succeeds ends it. Steps until `delivered` or `read`, and what takes longer than the call, go on by themselves: `status` is then running, and GET /communications/chains/:id tells the rest.',
    handler: async (
      _context,
      { body: { fallbackChain, chain: name, allowDuplicate, ...said } },
    ) => {
      if ((fallbackChain === undefined) === (name === undefined))
        throw invalid(
          'fallbackChain',
          'choice',
          'is to be given, or the name of a chain that is kept in its place',
        );
      const { steps, ...chosen } = await parts.chainDefinitions.choose(
        { fallbackChain, chain: name, allowDuplicate, ...said },
        parts.config().orchestration.fallbackTimeout,
      );
      const { templateName } = chosen;
      const about = await readMessage(parts, {
        ...said,
        ...(templateName === undefined ? {} : { templateName }),
      });
      requireReachable(steps, about.to);
      const order = { ...about, name: chosen.name, allowDuplicate: chosen.allowDuplicate };
      const chain = await parts.chains.run(order, steps, waitMs);
      if (chain.status === 'failed') throw allFailed(chain);
      return onWire(chain);
    },
  });

const allFailed = ({ attempts }: ChainView) =>
  messageErrors.CHANNELS_FAILED({
    message: `No channel accepted the message, after ${attempts.length} attempts: ${attempts
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
