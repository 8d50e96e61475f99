/** Who gets no messages any more: listed, added and taken off by operators. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import { type Suppressions, scopeWord } from '../services/suppressions.ts';
import { adminFacts, ChannelName, nullable, Paging, Timestamp } from './shapes.ts';

export const suppressionOperations = (suppressions: Suppressions): readonly Operation[] => [
  listOperation(suppressions),
  addOperation(suppressions),
  removeOperation(suppressions),
];

const path = '/communications/suppressions';
const Address = Type.String({
  minLength: 1,
  maxLength: 254,
  description: 'Mailbox, number, or id of a user (push)',
});
const Scope = Type.String({
  pattern: '^[A-Za-z0-9_.-]{1,50}$',
  description: 'all; non-critical; or a category of messages',
});

const listOperation = (suppressions: Suppressions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.suppressions.list',
    method: 'GET',
    path,
    input: {
      query: Type.Object({
        ...Paging,
        channel: Type.Optional(ChannelName),
        reason: Type.Optional(
          Type.Union(
            ['bounce', 'complaint', 'unsubscribe', 'stop', 'manual'].map((reason) =>
              Type.Literal(reason),
            ),
            { description: 'Why they get none' },
          ),
        ),
        search: Type.Optional(
          Type.String({ minLength: 1, maxLength: 254, description: 'A part of the address' }),
        ),
      }),
    },
    output: Type.Object({
      suppressions: Type.Array(
        Type.Object({
          channel: ChannelName,
          address: Type.String(),
          scope: Type.String(),
          reason: Type.String(),
          detail: nullable(Type.String()),
          createdAt: Timestamp,
        }),
      ),
      count: Type.Integer(),
    }),
    summary: 'List who gets no messages any more',
    description: 'Newest first. Bounces and complaints come from the webhooks of providers.',
    handler: async (_context, { query }) => {
      const { rows, count } = await suppressions.list(query);
      return {
        suppressions: rows.map(({ createdAt, scope, ...row }) => ({
          ...row,
          scope: scopeWord(scope),
          createdAt: createdAt.toISOString(),
        })),
        count,
      };
    },
  });

const addOperation = (suppressions: Suppressions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.suppressions.add',
    method: 'POST',
    path,
    input: {
      body: Type.Object({
        channel: ChannelName,
        address: Address,
        scope: Type.Optional(Scope),
        detail: Type.Optional(
          Type.String({ maxLength: 300, description: 'For operators: more about it' }),
        ),
      }),
    },
    output: Type.Object({ added: Type.Boolean({ description: 'false: it was there' }) }),
    errors: [messageErrors.INVALID_RECIPIENT],
    summary: 'Send an address no messages any more',
    handler: async (_context, { body }) => ({ added: await suppressions.add(body) }),
  });

const removeOperation = (suppressions: Suppressions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.suppressions.remove',
    method: 'DELETE',
    path,
    input: {
      query: Type.Object({
        channel: ChannelName,
        address: Address,
        scope: Type.Optional(Scope),
      }),
    },
    output: Type.Object({ deleted: Type.Literal(true) }),
    errors: [messageErrors.SUPPRESSION_NOT_FOUND],
    summary: 'Send an address messages again',
    description: 'Of one scope, or of all.',
    handler: async (_context, { query: { channel, address, scope } }) => {
      await suppressions.remove(channel, address, scope);
      return { deleted: true as const };
    },
  });
