/** The inbox, as the user whose it is sees it. */
import Type, { type Static } from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import { platformOf } from '../services/devices.ts';
import type { Inbox, Marked } from '../services/inbox.ts';
import { Id, nullable, Paging, Platform, Timestamp, userFacts, userOf } from './shapes.ts';

export const inboxOperations = (inbox: Inbox): readonly Operation[] => [
  listOperation(inbox),
  countOperation(inbox),
  markOperation(inbox),
  removeOperation(inbox),
];

const Notification = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  user: Type.String({ format: 'uuid' }),
  title: Type.String(),
  body: nullable(Type.String()),
  data: nullable(Type.Record(Type.String(), Type.Unknown())),
  platform: nullable(Type.String()),
  category: nullable(Type.String()),
  read: Type.Boolean(),
  readAt: nullable(Timestamp),
  createdAt: Timestamp,
});

const listOperation = (inbox: Inbox): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.inbox.list',
    method: 'GET',
    path: '/notifications',
    aliases: [{ method: 'GET', path: '/pushNotifications/notifications' }],
    input: {
      query: Type.Object({
        ...Paging,
        read: Type.Optional(
          Type.Boolean({ description: 'Only those that were read, or were not' }),
        ),
        platform: Type.Optional(Platform),
        category: Type.Optional(Type.String({ minLength: 1, maxLength: 50 })),
        after: Type.Optional(
          Type.String({
            format: 'uuid',
            description: 'Id of the last entry of the page before: costs the same however far',
          }),
        ),
      }),
    },
    output: Type.Object({
      notifications: Type.Array(Notification),
      count: Type.Integer({ description: 'All that the filter finds' }),
      unreadCount: Type.Integer({ description: 'Whatever `read` says' }),
    }),
    summary: 'List your notifications',
    description: 'Newest first.',
    handler: async (context, { query: { platform, ...filter } }) => {
      const { entries, total, unread } = await inbox.page(userOf(context).userId, {
        ...filter,
        ...(platform === undefined ? {} : { platform: platformOf(platform) }),
      });
      const counts = new Map([
        [true, total - unread],
        [false, unread],
      ]);
      const count = filter.read === undefined ? total : (counts.get(filter.read) ?? 0);
      return Reply.json(
        `{"notifications":[${entries.join(',')}],"count":${count},"unreadCount":${unread}}`,
      );
    },
  });

const countOperation = (inbox: Inbox): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.inbox.count',
    method: 'GET',
    path: '/notifications/unread-count',
    input: {},
    output: Type.Object({ unreadCount: Type.Integer() }),
    summary: 'Count your unread notifications',
    handler: async (context) => ({
      unreadCount: (await inbox.counts(userOf(context).userId)).unread,
    }),
  });

const MarkBody = Type.Object({
  id: Type.Optional(Type.String({ format: 'uuid' })),
  ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }), { minItems: 1, maxItems: 1000 })),
  before: Type.Optional(
    Type.String({ format: 'date-time', description: 'All that are older; goes before `id`' }),
  ),
  all: Type.Optional(Type.Literal(true)),
  read: Type.Optional(
    Type.Boolean({ description: 'true unless set; false: they count as unread again' }),
  ),
});

const markOperation = (inbox: Inbox): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.inbox.mark',
    method: 'PATCH',
    path: '/notifications',
    aliases: [{ method: 'PATCH', path: '/pushNotifications/notifications' }],
    input: { body: MarkBody },
    output: Type.Object({ result: Type.String(), updated: Type.Integer() }),
    errors: [messageErrors.NOTIFICATION_NOT_FOUND],
    summary: 'Mark notifications as read',
    description: 'One, some, those before a time, or all.',
    handler: async (context, { body }) => ({
      result: 'OK',
      updated: await inbox.mark(userOf(context).userId, markedOf(body), body.read ?? true),
    }),
  });

function markedOf({ id, ids, before, all }: Static<typeof MarkBody>): Marked {
  if (before !== undefined) return { before: new Date(before) };
  if (all) return { all };
  const listed = [...(ids ?? []), ...(id === undefined ? [] : [id])];
  if (listed.length === 0) throw invalid('id', 'required', 'give id, ids, before or all');
  return { ids: listed.map((one) => one.toLowerCase()) };
}

const removeOperation = (inbox: Inbox): Operation =>
  defineOperation({
    ...userFacts,
    id: 'communications.inbox.remove',
    method: 'DELETE',
    path: '/notifications/:id',
    input: { params: Id },
    output: Type.Object({ deleted: Type.Literal(true) }),
    errors: [messageErrors.NOTIFICATION_NOT_FOUND],
    summary: 'Delete a notification',
    handler: async (context, { params }) => {
      await inbox.remove(userOf(context).userId, params.id.toLowerCase());
      return { deleted: true as const };
    },
  });
