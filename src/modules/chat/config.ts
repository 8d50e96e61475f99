/** Configuration of chat (specification chat.md section 4). */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const whole = (value: number, [minimum, maximum]: readonly [number, number], description: string) =>
  Type.Integer({ ...harmless, default: value, minimum, maximum, description });
const page = (description: string) => Type.String({ default: '', maxLength: 500, description });

const day = 86_400;

export const chatConfig = defineConfig({
  schema: Type.Object({
    allowMessageEdit: flag(true, 'Whether authors may change what they wrote.'),
    allowMessageDelete: flag(true, 'Whether authors, and admins of a room, may delete messages.'),
    deleteEmptyRooms: flag(
      false,
      'Whether a room goes when one member is left. It always goes when none is.',
    ),
    auditMode: flag(
      false,
      'Whether what is deleted is kept, hidden from users, for operators to read.',
    ),
    explicit_room_joins: Type.Object({
      enabled: flag(false, 'Whether users are invited to rooms, instead of put into them.'),
      send_email: flag(false, 'Whether invitations are mailed.'),
      send_notification: flag(false, 'Whether invitations are pushed to devices.'),
      redirect: Type.Object({
        login_uri: page(
          'Page where somebody who follows a mailed invitation signs in; the invitation is appended as `redirectUri`.',
        ),
        accept_uri: page('Page after an accepted invitation; `{roomId}` is replaced.'),
        decline_uri: page('Page after a declined invitation; `{roomId}` is replaced.'),
      }),
    }),
    limits: Type.Object({
      messageLength: whole(8_000, [1, 100_000], 'Characters of one message.'),
      filesPerMessage: whole(10, [0, 100], 'Files of one message.'),
      participantsPerRoom: whole(1_000, [2, 100_000], 'Members of one room.'),
      roomsPerUser: whole(5_000, [1, 100_000], 'Rooms that one user is in.'),
    }),
    rateLimit: Type.Object({
      messagesPer10s: whole(30, [1, 100_000], 'Messages that one user sends in ten seconds.'),
      typingPer10s: whole(10, [1, 100_000], 'Typing signs that one user sends in ten seconds.'),
    }),
    invitations: Type.Object({
      ttlSeconds: whole(7 * day, [60, 365 * day], 'Seconds for which an invitation can be taken.'),
    }),
    permissions: Type.Object({
      addUsers: Type.Union(
        [Type.Literal('anyMember'), Type.Literal('admins'), Type.Literal('creator')],
        { default: 'anyMember', description: 'Who brings others into a room.' },
      ),
      systemMessages: Type.Literal('serverOnly', {
        default: 'serverOnly',
        description: 'Who sends messages of the type `system`: operators and the platform.',
      }),
    }),
    edits: Type.Object({
      windowSeconds: whole(
        0,
        [0, 36_500 * day],
        'Seconds after which authors no longer change what they sent. 0: always.',
      ),
      keepHistory: flag(false, 'Whether what a message said before it was changed is kept.'),
    }),
    history: Type.Union([Type.Literal('shared'), Type.Literal('joined')], {
      default: 'shared',
      description: 'Whether members read what was written before they joined.',
    }),
    offlinePush: Type.Object({
      enabled: flag(false, 'Whether members without an open socket get a push about messages.'),
    }),
    retention: Type.Object({
      days: whole(0, [0, 36_500], 'Days after which messages are deleted for good. 0: never.'),
    }),
    nonceWindowSeconds: whole(
      300,
      [1, day],
      'Seconds for which the same nonce means the same message.',
    ),
  }),
  check: ({ explicit_room_joins: { redirect } }) =>
    Object.entries(redirect).flatMap(([key, value]) =>
      value === '' || /^[a-z][a-z0-9+.-]*:\/\/[^\s]+$/i.test(value)
        ? []
        : [
            {
              path: `explicit_room_joins.redirect.${key}`,
              rule: 'url',
              message: 'write a whole address',
            },
          ],
    ),
});

export type ChatConfig = Static<typeof chatConfig.schema>;
