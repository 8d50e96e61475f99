/** Notifying users, and their devices as operators see them. */
import Type, { type Static } from 'typebox';
import { errors, invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import type { Devices } from '../services/devices.ts';
import type { Notifier } from '../services/notifier.ts';
import { adminFacts, DeviceDocument, deviceOnWire, Id, Paging, Platform, Topic } from './shapes.ts';

export const pushOperations = (notifier: Notifier, devices: Devices): readonly Operation[] => [
  sendOperation(notifier),
  sendManyOperation(notifier),
  topicOperation(notifier),
  listOperation(devices),
  ofUserOperation(devices),
  getOperation(devices),
  removeOperation(devices),
];

const userId = Type.String({ format: 'uuid', description: 'Id of the user' });

const message = {
  title: Type.Optional(Type.String({ maxLength: 500, description: 'Needed unless silent' })),
  body: Type.Optional(Type.String({ maxLength: 3000, description: 'What it says' })),
  data: Type.Optional(
    Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), {
      description: 'Texts for the app; numbers and booleans become texts',
    }),
  ),
  platform: Type.Optional(Platform),
  category: Type.Optional(
    Type.String({ minLength: 1, maxLength: 50, description: 'By which the inbox can be filtered' }),
  ),
  isSilent: Type.Optional(
    Type.Boolean({ description: 'Shows nothing and is not stored; the app gets `data`' }),
  ),
  doNotStore: Type.Optional(Type.Boolean({ description: 'No entry in the inbox' })),
  badge: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 99_999, description: 'Number at the icon of the app' }),
  ),
  sound: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'Sound of the device' }),
  ),
  image: Type.Optional(
    Type.String({ format: 'uri', maxLength: 1000, description: 'Address of a picture' }),
  ),
  collapseKey: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,24}$',
      description: 'A later message of the same key takes the place of an earlier one',
    }),
  ),
  ttl: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2_419_200,
      description: 'Seconds that providers keep it for a device that is away',
    }),
  ),
};

/** To whom and what kind; what a message says is not for the audit log. */
const withoutContent = ({ body }: { readonly body: unknown }): object => {
  const { userId: user, userIds, topic, category, isSilent } = body as Record<string, unknown>;
  return {
    userId: user,
    users: Array.isArray(userIds) ? userIds.length : undefined,
    topic,
    category,
    isSilent,
  };
};

const sending = {
  ...adminFacts,
  method: 'POST',
  openWorld: true,
  auditChanges: withoutContent,
} as const;
const sendingErrors = [messageErrors.CHANNEL_DISABLED, errors.RATE_LIMIT];

const sendOperation = (notifier: Notifier): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.push.send',
    path: '/push/send',
    aliases: [
      { method: 'POST', path: '/admin/pushNotifications/send' },
      { method: 'POST', path: '/pushNotifications/send' },
    ],
    input: { body: Type.Object({ userId, ...message }) },
    output: Type.Object({
      result: Type.String(),
      message: Type.String(),
      messageId: Type.String({ format: 'uuid' }),
      devices: Type.Integer({ description: 'Devices that it is sent to' }),
      delivered: Type.Integer({
        description:
          'Those of them whose provider took it while you waited. 0 in quiet hours, without a provider, and with an Idempotency-Key',
      }),
    }),
    errors: [
      ...sendingErrors,
      messageErrors.RECIPIENT_NOT_FOUND,
      messageErrors.PUSH_DEVICE_MISSING,
    ],
    summary: 'Notify a user',
    description:
      'Stored in the inbox, unless it is silent or `doNotStore` is set, and sent to the devices while you wait, at most ten seconds; `messageId` leads to its state.',
    handler: async (_context, { body: { userId: user, ...input } }) => ({
      result: 'Ok',
      message: 'Notification queued',
      ...(await notifier.send(user, input)),
    }),
  });

const Counted = Type.Object({
  result: Type.String(),
  message: Type.String(),
  messageId: Type.String({ format: 'uuid', description: 'Of the broadcast' }),
  recipients: Type.Integer(),
  requestedCount: Type.Integer(),
  successCount: Type.Integer({ description: 'Users for whom it is queued' }),
  failureCount: Type.Integer(),
  skippedCount: Type.Integer({ description: 'Ids that are no users' }),
});

const counted = (id: string, recipients: number, skipped: number): Static<typeof Counted> => ({
  result: 'Ok',
  message: 'Notification queued',
  messageId: id,
  recipients,
  requestedCount: recipients + skipped,
  successCount: recipients,
  failureCount: 0,
  skippedCount: skipped,
});

const Notifications = Type.Array(Type.Object({ sendTo: userId, ...message }), {
  minItems: 1,
  maxItems: 100,
  description: 'Each its own message',
});

const sendManyOperation = (notifier: Notifier): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.push.sendMany',
    path: '/push/sendMany',
    aliases: [
      { method: 'POST', path: '/admin/pushNotifications/sendMany' },
      { method: 'POST', path: '/push/sendToManyDevices' },
      { method: 'POST', path: '/pushNotifications/sendMany' },
      { method: 'POST', path: '/pushNotifications/sendToManyDevices' },
    ],
    input: {
      body: Type.Object({
        userIds: Type.Optional(
          Type.Array(userId, { minItems: 1, maxItems: 10_000, description: 'Ids of users' }),
        ),
        notifications: Type.Optional(Notifications),
        ...message,
      }),
    },
    output: Counted,
    errors: sendingErrors,
    summary: 'Notify several users',
    description:
      'With `userIds`, the same message to all of them; with `notifications`, to each its own. A job does the work.',
    handler: async (_context, { body: { userIds, notifications, ...input } }) => {
      if (userIds) {
        const ids = userIds.map((id) => id.toLowerCase());
        const { id, recipients, skipped } = await notifier.broadcast({ userIds: ids }, input);
        return counted(id, recipients, skipped);
      }
      if (!notifications) throw invalid('userIds', 'required', 'give userIds, or notifications');
      return each(notifier, notifications);
    },
  });

/** One broadcast each: contents differ. */
async function each(
  notifier: Notifier,
  notifications: Static<typeof Notifications>,
): Promise<Static<typeof Counted>> {
  const totals = { recipients: 0, skipped: 0, id: '' };
  for (const { sendTo, ...input } of notifications) {
    const { id, recipients, skipped } = await notifier.broadcast(
      { userIds: [sendTo.toLowerCase()] },
      input,
    );
    totals.id ||= id;
    totals.recipients += recipients;
    totals.skipped += skipped;
  }
  return counted(totals.id, totals.recipients, totals.skipped);
}

const topicOperation = (notifier: Notifier): Operation =>
  defineOperation({
    ...sending,
    id: 'communications.push.sendToTopic',
    path: '/push/sendToTopic',
    aliases: [{ method: 'POST', path: '/admin/pushNotifications/sendToTopic' }],
    input: { body: Type.Object({ topic: Topic, ...message }) },
    output: Counted,
    errors: sendingErrors,
    summary: 'Notify all who follow a topic',
    description: 'A job does the work; GET /communications/broadcasts/:id tells how far it is.',
    handler: async (_context, { body: { topic, ...input } }) => {
      const { id, recipients } = await notifier.broadcast({ topic }, input);
      return counted(id, recipients, 0);
    },
  });

const Populate = Type.Optional(
  Type.Array(Type.String({ maxLength: 100 }), {
    maxItems: 10,
    description: 'Taken from old clients; tokens refer to nothing that could be filled in',
  }),
);

const listOperation = (devices: Devices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.devices.list',
    method: 'GET',
    path: '/push/tokens',
    aliases: [{ method: 'GET', path: '/pushNotifications/token' }],
    input: {
      query: Type.Object({
        ...Paging,
        search: Type.Optional(
          Type.String({ format: 'uuid', description: 'Id of a device or of a user' }),
        ),
        platform: Type.Optional(Platform),
        populate: Populate,
      }),
    },
    output: Type.Object({ tokens: Type.Array(DeviceDocument), count: Type.Integer() }),
    summary: 'List devices',
    description: 'Newest first.',
    handler: async (_context, { query: { populate: _populate, ...filter } }) => {
      const { rows, count } = await devices.list(filter);
      return { tokens: rows.map(deviceOnWire), count };
    },
  });

const ofUserOperation = (devices: Devices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.devices.ofUser',
    method: 'GET',
    path: '/push/tokens/user/:userId',
    aliases: [{ method: 'GET', path: '/pushNotifications/token/user/:userId' }],
    input: { params: Type.Object({ userId }) },
    output: Type.Object({ tokenDocuments: Type.Array(DeviceDocument) }),
    summary: 'List the devices of a user',
    handler: async (_context, { params }) => ({
      tokenDocuments: (await devices.ofUser(params.userId)).map(deviceOnWire),
    }),
  });

const getOperation = (devices: Devices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.devices.get',
    method: 'GET',
    path: '/push/tokens/:id',
    aliases: [{ method: 'GET', path: '/pushNotifications/token/:id' }],
    input: { params: Id, query: Type.Object({ populate: Populate }) },
    output: Type.Object({ tokenDocuments: DeviceDocument }),
    errors: [messageErrors.DEVICE_NOT_FOUND],
    summary: 'Read a device',
    handler: async (_context, { params }) => ({
      tokenDocuments: deviceOnWire(await devices.get(params.id)),
    }),
  });

const removeOperation = (devices: Devices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.devices.remove',
    method: 'DELETE',
    path: '/push/tokens/:id',
    input: { params: Id },
    output: Type.Object({ deleted: Type.Literal(true) }),
    errors: [messageErrors.DEVICE_NOT_FOUND],
    summary: 'Forget a device',
    handler: async (_context, { params }) => {
      await devices.remove(params.id);
      return { deleted: true as const };
    },
  });
