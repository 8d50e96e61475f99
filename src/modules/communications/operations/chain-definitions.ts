/** Chains that operators keep under a name, for `POST /send/fallback` to send by. */
import Type, { type Static } from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { ChainDefinitionRow } from '../chain-queries.ts';
import { messageErrors } from '../errors.ts';
import type { ChainDefinitions } from '../services/chain-definitions.ts';
import { adminFacts, ChannelName, nullable, Paging, Timestamp } from './shapes.ts';

export const chainDefinitionOperations = (definitions: ChainDefinitions): readonly Operation[] => [
  listOperation(definitions),
  getOperation(definitions),
  saveOperation(definitions),
  removeOperation(definitions),
];

const week = 604_800_000;

export const FallbackStep = Type.Object({
  channel: ChannelName,
  timeout: Type.Optional(
    Type.Integer({
      minimum: 100,
      maximum: week,
      description: 'Milliseconds before the next one; orchestration.fallbackTimeout unless set',
    }),
  ),
  until: Type.Optional(
    Type.Enum(['accepted', 'delivered', 'read'], {
      description:
        'What must have happened by then: a provider took it (unless set), it was delivered, or it was opened',
    }),
  ),
});

const allowDuplicate = Type.Boolean({
  description: 'Go on also where nobody knows whether a provider took it; it may arrive twice',
});
export const AllowDuplicate = Type.Optional(allowDuplicate);

const steps = Type.Array(FallbackStep, {
  minItems: 1,
  maxItems: 10,
  description: 'Channels in their order, each with how long it has',
});
export const ChainName = Type.String({
  pattern: '^[A-Za-z][A-Za-z0-9_.-]{0,99}$',
  description: 'Name of the chain',
});
const templateName = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'What is said unless the request says it',
});
const description = Type.String({ maxLength: 1000, description: 'For people' });

/** A chain as it is written. */
const ChainBody = Type.Object({
  steps,
  allowDuplicate: AllowDuplicate,
  templateName: Type.Optional(templateName),
  description: Type.Optional(description),
});
export type ChainBody = Static<typeof ChainBody>;

/** The same with its name, as state as code has it. */
export const ChainDocument = Type.Object({ name: ChainName, ...ChainBody.properties });

const Chain = Type.Object({
  name: Type.String(),
  steps,
  allowDuplicate,
  templateName: nullable(Type.String()),
  description: nullable(Type.String({ description: 'For people' })),
  createdAt: Timestamp,
  updatedAt: Timestamp,
});

const onWire = ({ createdAt, updatedAt, steps: stored, ...chain }: ChainDefinitionRow) => ({
  ...chain,
  steps: stored.map((step) => ({ ...step })),
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

const path = '/communications/chain-definitions';
const Named = Type.Object({ name: ChainName });

const listOperation = (definitions: ChainDefinitions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.chainDefinitions.list',
    method: 'GET',
    path,
    input: {
      query: Type.Object({
        ...Paging,
        search: Type.Optional(
          Type.String({ minLength: 1, maxLength: 100, description: 'A part of the name' }),
        ),
      }),
    },
    output: Type.Object({ chains: Type.Array(Chain), count: Type.Integer() }),
    summary: 'List the chains that are kept under a name',
    handler: async (_context, { query }) => {
      const { rows, count } = await definitions.list(query);
      return { chains: rows.map(onWire), count };
    },
  });

const getOperation = (definitions: ChainDefinitions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.chainDefinitions.get',
    method: 'GET',
    path: `${path}/:name`,
    input: { params: Named },
    output: Chain,
    errors: [messageErrors.CHAIN_DEFINITION_NOT_FOUND],
    summary: 'Read a chain that is kept under a name',
    handler: async (_context, { params }) => onWire(await definitions.get(params.name)),
  });

const saveOperation = (definitions: ChainDefinitions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.chainDefinitions.save',
    method: 'PUT',
    path: `${path}/:name`,
    input: { params: Named, body: ChainBody },
    output: Chain,
    summary: 'Keep a chain under a name',
    description:
      'Takes the place of an earlier one. Holds for the next message: those that are under way go on as they began.',
    handler: async (_context, { params, body }) =>
      onWire(await definitions.save(params.name, body)),
  });

const removeOperation = (definitions: ChainDefinitions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.chainDefinitions.remove',
    method: 'DELETE',
    path: `${path}/:name`,
    input: { params: Named },
    output: Type.Object({ deleted: Type.Literal(true) }),
    errors: [messageErrors.CHAIN_DEFINITION_NOT_FOUND],
    summary: 'Delete a chain that is kept under a name',
    description: 'Messages that are under way go on as they began.',
    handler: async (_context, { params }) => {
      await definitions.remove(params.name);
      return { deleted: true as const };
    },
  });
