/** Invitations to rooms. The secret goes out by mail; only its hash is kept. */
import type { UserCaller } from '../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { randomToken, sha256 } from '../../../kernel/security/tokens.ts';
import { cutText } from '../../../kernel/text.ts';
import type { BuiltInTemplate } from '../../communications/index.ts';
import { chatErrors } from '../errors.ts';
import {
  dropInvitations,
  type InvitationRow,
  invitationsWhere,
  invitedAmong,
  mayStillInvite,
  openInvitation,
  putInvitations,
  takeInvitation,
} from '../queries/invitations.ts';
import { membersAmong, type UserToAdd, usersToAdd } from '../queries/members.ts';
import { lockRoom, type RoomRow } from '../queries/rooms.ts';
import { type RoomRole, roomRoles } from '../schemas.ts';
import { addingRole, type ChatParts, reaches } from './chat-parts.ts';
import { type RoomEntry, requireEnterable } from './room-entry.ts';

export type Answer = 'accept' | 'decline';

interface Page {
  readonly skip: number;
  readonly limit: number;
}
interface InvitationPage {
  readonly rows: readonly InvitationRow[];
  readonly count: number;
}

export interface Invitations {
  /** In the transaction that checked the users. Throws CHAT_MEMBER_EXISTS, CHAT_INVITATION_EXISTS. */
  invite(
    transaction: Transaction,
    caller: UserCaller,
    room: RoomRow,
    users: readonly string[],
  ): Promise<void>;
  received(caller: UserCaller, page: Page): Promise<InvitationPage>;
  sent(caller: UserCaller, page: Page): Promise<InvitationPage>;
  ofRoom(roomId: string, page: Page & { readonly order: string }): Promise<InvitationPage>;
  /** Throws CHAT_INVITATION_NOT_FOUND. Answers the room. */
  answer(caller: UserCaller, id: string, answer: Answer): Promise<string>;
  /** Throws CHAT_INVITATION_NOT_FOUND. */
  byToken(token: string): Promise<InvitationRow>;
  answerToken(caller: UserCaller, token: string, answer: Answer): Promise<string>;
  /** Throws CHAT_INVITATION_NOT_FOUND, INVITATION_MISMATCH. */
  cancel(caller: UserCaller, id: string): Promise<void>;
  /** Throws CHAT_INVITATION_NOT_FOUND when none of them is there. */
  drop(roomId: string, ids: readonly string[]): Promise<void>;
}

export const invitationTemplate: BuiltInTemplate = {
  name: 'ChatRoomInvitation',
  subject: '{{userName}} invites you to a conversation',
  body: `<p>{{userName}} invites you to the conversation {{roomName}}.</p>
<p><a href="{{acceptLink}}">Accept</a> · <a href="{{declineLink}}">Decline</a></p>
<p>If you do not expect it, you need do nothing.</p>`,
};

const tokenShape = /^[A-Za-z0-9_-]{43}$/;

/** Users choose the names of rooms: an invisible sign behind each separator keeps mail programs from making links of them. */
const unlinked = (name: string): string => name.replace(/[.:/](?=\S)/g, '$&\u2060');

export function createInvitations(parts: ChatParts, entry: RoomEntry): Invitations {
  const { database } = parts;

  const { byToken, settle } = createSettling(parts, entry);

  return {
    byToken,
    invite: createInvite(parts),
    received: ({ userId }, page) =>
      invitationsWhere(database, 'receiver', userId, { ...page, roles: invitingRoles(parts) }),
    sent: ({ userId }, page) => invitationsWhere(database, 'sender', userId, page),
    ofRoom: (roomId, page) => invitationsWhere(database, 'room', roomId, page),
    async answer(caller, id, answer) {
      const found = await openInvitation(database, { id });
      if (found?.receiver !== caller.userId) throw chatErrors.CHAT_INVITATION_NOT_FOUND();
      return settle(caller, found, answer);
    },
    async answerToken(caller, token, answer) {
      const found = await byToken(token);
      if (found.receiver !== caller.userId) throw chatErrors.INVITATION_MISMATCH();
      return settle(caller, found, answer);
    },
    async cancel(caller, id) {
      const found = await openInvitation(database, { id });
      // Whom it is neither from nor for learns nothing of it.
      if (!found || ![found.sender, found.receiver].includes(caller.userId))
        throw chatErrors.CHAT_INVITATION_NOT_FOUND();
      if (found.sender !== caller.userId) throw chatErrors.INVITATION_MISMATCH();
      if (!(await takeInvitation(database, id))) throw chatErrors.CHAT_INVITATION_NOT_FOUND();
    },
    async drop(roomId, ids) {
      if ((await dropInvitations(database, roomId, ids)) === 0)
        throw chatErrors.CHAT_INVITATION_NOT_FOUND();
    },
  };
}

/** Finding an invitation by the secret of its link, and answering one. */
function createSettling(parts: ChatParts, { enter, entered }: RoomEntry) {
  const { database } = parts;
  /** By somebody who may still bring others in: who was removed from a room leaves no door to it behind. */
  const isGiven = (queryable: Queryable, { room, sender }: InvitationRow): Promise<boolean> =>
    mayStillInvite(queryable, { room, sender, roles: invitingRoles(parts) });
  const byToken = async (token: string): Promise<InvitationRow> => {
    const found = tokenShape.test(token)
      ? await openInvitation(database, { hash: sha256(token) })
      : undefined;
    if (!found || !(await isGiven(database, found))) throw chatErrors.CHAT_INVITATION_NOT_FOUND();
    return found;
  };
  const settle = async (
    caller: UserCaller,
    invitation: InvitationRow,
    answer: Answer,
  ): Promise<string> => {
    const { id, room } = invitation;
    const joined = await database.transaction(async (transaction) => {
      // The room before its invitations, like whoever deletes it: neither waits for the other in a circle.
      const isThere =
        answer === 'decline' || (await lockRoom(transaction, room, [caller.userId])) !== undefined;
      const isOpen = isThere && (answer === 'decline' || (await isGiven(transaction, invitation)));
      if (!isOpen || !(await takeInvitation(transaction, id)))
        throw chatErrors.CHAT_INVITATION_NOT_FOUND();
      if (answer === 'decline') return false;
      const present = await membersAmong(transaction, room, [caller.userId]);
      if (present.size > 0) return false;
      await requireEnterable(parts, transaction, room, caller.userId);
      const entry = { roomId: room, users: [caller.userId], action: 'join' } as const;
      await enter(transaction, caller, entry);
      return true;
    });
    if (joined) await entered(room, [caller.userId], caller.userId);
    return room;
  };
  return { byToken, settle };
}

const invitingRoles = (parts: ChatParts): readonly RoomRole[] =>
  roomRoles.filter((role) => reaches(role, addingRole(parts)));

function createInvite(parts: ChatParts): Invitations['invite'] {
  const { events, config } = parts;
  return async (transaction, caller, room, users) => {
    const [present, invited] = [
      await membersAmong(transaction, room.id, users),
      await invitedAmong(transaction, room.id, caller.userId, users),
    ];
    if (present.size > 0) throw chatErrors.CHAT_MEMBER_EXISTS();
    if (invited.length > 0) throw chatErrors.CHAT_INVITATION_EXISTS();
    const made = users.map((receiver) => ({ id: newId(), receiver, secret: randomToken() }));
    await putInvitations(
      transaction,
      { room: room.id, sender: caller.userId, ttlSeconds: config().invitations.ttlSeconds },
      made.map(({ secret, ...invitation }) => ({ ...invitation, token: sha256(secret) })),
    );
    await events.emit(transaction, caller, {
      topic: 'chat:invite:InvitationToken',
      ids: made.map(({ id }) => id),
      payload: { room: room.id, sender: caller.userId, receivers: users },
    });
    await tell(parts, transaction, { caller, room, made });
  };
}

interface Made {
  readonly receiver: string;
  readonly secret: string;
}

interface Told {
  readonly caller: UserCaller;
  readonly room: RoomRow;
  readonly made: readonly Made[];
}

/** Mails and pushes, as the configuration wants it; sockets hear of it after the commit. */
async function tell(
  parts: ChatParts,
  transaction: Transaction,
  { caller, room, made }: Told,
): Promise<void> {
  const { config, communications, publicUrl, hub, database } = parts;
  const { send_email, send_notification } = config().explicit_room_joins;
  const ids = [caller.userId, ...made.map(({ receiver }) => receiver)];
  const people = new Map(
    (await usersToAdd(transaction, ids, null)).map((one) => [one.id, one] as const),
  );
  const userName = nameOf(people.get(caller.userId));
  const linkTo = (answer: Answer, secret: string): string =>
    `${publicUrl()}/hook/chat/invitations/${answer}/${secret}`;
  for (const { receiver, secret } of made) {
    const email = people.get(receiver)?.email;
    if (send_email && email)
      await communications.messages.sendEmail(transaction, {
        module: 'chat',
        to: email,
        userId: receiver,
        template: invitationTemplate.name,
        variables: {
          acceptLink: linkTo('accept', secret),
          declineLink: linkTo('decline', secret),
          userName: unlinked(userName),
          roomName: unlinked(room.name),
        },
      });
    if (send_notification)
      await communications.messages.sendPush(transaction, {
        module: 'chat',
        userId: receiver,
        note: {
          title: 'Invitation',
          body: cutText(`${userName} invites you to ${room.name}`, 1_000),
          data: { room: room.id },
          silent: false,
        },
        platform: undefined,
      });
  }
  database.afterCommit(() =>
    hub.toUsers(
      made.map(({ receiver }) => receiver),
      'room-invitation',
      { room: room.id, roomName: room.name, sender: caller.userId },
    ),
  );
}

const nameOf = (person: UserToAdd | undefined): string =>
  person?.username ?? person?.email ?? 'Somebody';
