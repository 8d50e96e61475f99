/** One message to many: sending it, how far it is, stopping it. */
import Type, { type Static } from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import type { Channel } from '../queries.ts';
import { requireMailbox, requireNumber } from '../recipients.ts';
import type { Audiences, Broadcasts, BroadcastView } from '../services/broadcasts.ts';
import {
  adminFacts,
  ChannelName,
  Id,
  maxBodyValues,
  nullable,
  Paging,
  Timestamp,
  Topic,
} from './shapes.ts';
import { message, sending, sendingErrors } from './unified-message.ts';

export const broadcastOperations = (broadcasts: Broadcasts): readonly Operation[] => [
  sendOperation(broadcasts),
  listOperation(broadcasts),
  getOperation(broadcasts),
  stopOperation(broadcasts),
];

const { recipient: _one, ...said } = message;

/** Recipients that one request lists. */
const max = 100_000;

const To = Type.Object(
  {
    topic: Type.Optional(Topic),
    everybody: Type.Optional(Type.Literal(true, { description: 'All users who are not blocked' })),
    userIds: Type.Optional(
      Type.Array(Type.String({ format: 'uuid' }), { minItems: 1, maxItems: max }),
    ),
    addresses: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 254 }), {
        minItems: 1,
        maxItems: max,
        description: 'Addresses of a mail, or numbers of a text message',
      }),
    ),
  },
  { description: 'All who follow a topic, all users, or those who are listed' },
);

const Broadcast = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  status: Type.String({ description: 'running, done or stopped' }),
  channel: ChannelName,
  audience: Type.String({ description: 'topic, users or listed' }),
  topic: nullable(Type.String()),
  recipients: Type.Integer({ description: 'As many as there were when it was sent' }),
  queued: Type.Integer({ description: 'Messages that were written' }),
  skipped: Type.Integer({
    description:
      'Recipients without an address or a device, who refuse messages of this kind, or got too many',
  }),
  cancelled: Type.Integer({ description: 'Messages that were taken back when it was stopped' }),
  createdAt: Timestamp,
  finishedAt: nullable(Timestamp),
});

const onWire = ({
  id,
  createdAt,
  finishedAt,
  ...rest
}: BroadcastView): Static<typeof Broadcast> => ({
  _id: id,
  ...rest,
  createdAt: createdAt.toISOString(),
  finishedAt: finishedAt?.toISOString() ?? null,
});

/** To how many and what kind; whom exactly and what it says is not for the audit log. */
const auditChanges = ({ body }: { readonly body: unknown }): object => {
  const { channel, to, templateName, category } = body as Record<string, unknown>;
  const { topic, everybody, userIds, addresses } = to as Record<string, unknown>;
  const count = (list: unknown) => (Array.isArray(list) ? list.length : undefined);
  return {
    channel,
    topic,
    everybody,
    users: count(userIds),
    addresses: count(addresses),
    templateName,
    category,
  };
};

const sendOperation = (broadcasts: Broadcasts): Operation =>
  defineOperation({
    ...sending,
    auditChanges,
    id: 'communications.broadcasts.send',
    path: '/communications/broadcasts',
    bodyLimit: 16_000_000,
    bodyValues: 2 * max + maxBodyValues,
    account: { bytesIn: 16_000_000 },
    input: {
      body: Type.Object({
        channel: ChannelName,
        to: To,
        ...said,
        sendAt: Type.Optional(
          Type.String({ format: 'date-time', description: 'Not before; at most a year ahead' }),
        ),
      }),
    },
    output: Type.Object({
      broadcastId: Type.String({ format: 'uuid' }),
      recipients: Type.Integer(),
      skipped: Type.Integer({ description: 'Ids that are no users' }),
    }),
    errors: sendingErrors,
    summary: 'Send a message to many',
    description:
      'A job writes the messages, page by page; GET /communications/broadcasts/:id tells how far it is. Choices of users, quiet hours and suppressed addresses are respected as with single messages.',
    handler: async (_context, { body: { channel, to, sendAt, ...content } }) => {
      if (sendAt !== undefined && Date.parse(sendAt) > Date.now() + 366 * 24 * 3600_000)
        throw invalid('sendAt', 'maximum', 'must be within a year');
      const { id, recipients, skipped } = await broadcasts.start(audienceOf(channel, to), {
        channel,
        message: content,
        ...(sendAt === undefined ? {} : { sendAt }),
      });
      return { broadcastId: id, recipients, skipped };
    },
  });

/** Throws 400 unless exactly one audience is named, and for addresses that are none. */
function audienceOf(
  channel: Channel,
  { topic, everybody, userIds, addresses }: Static<typeof To>,
): Audiences {
  const listed = userIds !== undefined || addresses !== undefined;
  const named = [topic !== undefined, everybody === true, listed].filter(Boolean);
  if (named.length !== 1)
    throw invalid('to', 'required', 'give a topic, everybody, or userIds and addresses');
  if (topic !== undefined) return { topic };
  if (everybody) return { everybody };
  if (channel === 'push' && addresses)
    throw invalid('to.addresses', 'channel', 'a push message goes to users');
  const checked = (address: string, place: number): string =>
    channel === 'email'
      ? requireMailbox(address, `to.addresses.${place}`)
      : requireNumber(address, `to.addresses.${place}`);
  // One mailbox in small and in capital letters is one.
  const places = new Map((addresses ?? []).map(checked).map((one) => [one.toLowerCase(), one]));
  return {
    userIds: [...new Set(userIds?.map((id) => id.toLowerCase()))],
    addresses: [...places.values()],
  };
}

const listOperation = (broadcasts: Broadcasts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.broadcasts.list',
    method: 'GET',
    path: '/communications/broadcasts',
    input: { query: Type.Object(Paging) },
    output: Type.Object({ broadcasts: Type.Array(Broadcast), count: Type.Integer() }),
    summary: 'List broadcasts',
    description: 'Newest first.',
    handler: async (_context, { query }) => {
      const page = await broadcasts.list(query);
      return { broadcasts: page.broadcasts.map(onWire), count: page.count };
    },
  });

const getOperation = (broadcasts: Broadcasts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.broadcasts.get',
    method: 'GET',
    path: '/communications/broadcasts/:id',
    aliases: [{ method: 'GET', path: '/push/broadcasts/:id' }],
    input: { params: Id },
    output: Broadcast,
    errors: [messageErrors.BROADCAST_NOT_FOUND],
    summary: 'Read how far a broadcast is',
    handler: async (_context, { params }) => onWire(await broadcasts.get(params.id)),
  });

const stopOperation = (broadcasts: Broadcasts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.broadcasts.stop',
    method: 'POST',
    path: '/communications/broadcasts/:id/stop',
    aliases: [{ method: 'POST', path: '/push/broadcasts/:id/stop' }],
    input: { params: Id },
    output: Type.Object({ message: Type.String() }),
    errors: [messageErrors.BROADCAST_NOT_FOUND],
    summary: 'Stop a broadcast',
    description:
      'Whom it has not reached yet it does not reach: no more is written, and what waits to be sent is taken back.',
    handler: async (_context, { params }) => {
      await broadcasts.stop(params.id);
      return { message: 'Broadcast stopped' };
    },
  });
