/** Invitations, for who sent and who got them. They exist while joins are explicit. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { chatErrors } from '../errors.ts';
import type { InvitationRow } from '../queries/invitations.ts';
import { userOf } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import type { Answer } from '../services/invitations.ts';
import { populated } from '../services/populate.ts';
import { IdParams, InvitationDocument, Paging, Uuid, userFacts } from './shapes.ts';

const Page = Type.Object({ invitations: Type.Array(InvitationDocument), count: Type.Integer() });
const AnswerWord = Type.Union([Type.Literal('accept'), Type.Literal('decline')]);
const answerErrors = [
  chatErrors.CHAT_USER_UNKNOWN,
  chatErrors.CHAT_USER_NOT_ALLOWED,
  chatErrors.ROOM_LIMIT_EXCEEDED,
  chatErrors.CHAT_INVITATION_NOT_FOUND,
  chatErrors.CHAT_ROOM_NOT_FOUND,
  chatErrors.CHAT_ROOM_FULL,
];

export const invitationOperations = (services: ChatServices): readonly Operation[] => [
  listOperation(services, 'received'),
  listOperation(services, 'sent'),
  answerByGet(services),
  answerOperation(services, 'accept'),
  answerOperation(services, 'decline'),
  cancelOperation(services),
  hookOperation(services),
];

const said: Readonly<Record<Answer, string>> = {
  accept: 'Invitation accepted',
  decline: 'Invitation declined',
};

export const invitationDocument = (row: InvitationRow) => ({
  _id: row.id,
  room: row.room,
  roomName: row.roomName,
  sender: row.sender,
  receiver: row.receiver,
  expiresAt: row.expiresAt.toISOString(),
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
});

const listOperation = (
  { invitations, parts }: ChatServices,
  which: 'received' | 'sent',
): Operation =>
  defineOperation({
    ...userFacts,
    id: `chat.invitations.${which}`,
    method: 'GET',
    path: `/chat/invitations/${which}`,
    heavy: true,
    input: { query: Type.Object(Paging) },
    output: Page,
    summary: which === 'received' ? 'List invitations to you' : 'List your invitations to others',
    description: 'With what is public of the other side.',
    async handler(context, { query }) {
      const { rows, count } = await invitations[which](userOf(context), query);
      const other = which === 'received' ? 'sender' : 'receiver';
      const documents = rows.map(invitationDocument);
      const filled = await populated(parts, context.caller as Caller, documents, [other]);
      return { invitations: [...filled], count };
    },
  });

const answerByGet = ({ invitations }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.invitations.answer',
    method: 'GET',
    path: '/chat/invitations/:answer/:id',
    changes: true,
    legacy: true,
    mcp: false,
    graphql: false,
    input: { params: Type.Object({ answer: AnswerWord, id: Uuid }) },
    output: TextResult,
    errors: answerErrors,
    summary: 'Answer an invitation',
    description: 'For old clients: no cookie counts here. POST does the same.',
    async handler(context, { params: { answer, id } }) {
      await invitations.answer(userOf(context), id, answer);
      return said[answer];
    },
  });

const answerOperation = ({ invitations }: ChatServices, answer: Answer): Operation =>
  defineOperation({
    ...userFacts,
    id: `chat.invitations.${answer}`,
    method: 'POST',
    path: `/chat/invitations/:id/${answer}`,
    input: { params: IdParams },
    output: TextResult,
    errors: answerErrors,
    summary: answer === 'accept' ? 'Accept an invitation' : 'Decline an invitation',
    async handler(context, { params }) {
      await invitations.answer(userOf(context), params.id, answer);
      return said[answer];
    },
  });

const cancelOperation = ({ invitations }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.invitations.cancel',
    method: 'DELETE',
    path: '/chat/invitations/cancel/:id',
    input: { params: IdParams },
    output: TextResult,
    errors: [chatErrors.CHAT_INVITATION_NOT_FOUND, chatErrors.INVITATION_MISMATCH],
    summary: 'Take an invitation back',
    async handler(context, { params }) {
      await invitations.cancel(userOf(context), params.id);
      return 'Invitation canceled successfully';
    },
  });

const hookOperation = ({ invitations, parts }: ChatServices): Operation =>
  defineOperation({
    id: 'chat.hook.invitation',
    surface: 'client',
    access: 'optionalUser',
    limit: { requests: 50, seconds: 3_600 },
    method: 'GET',
    path: '/hook/chat/invitations/:answer/:invitationToken',
    changes: true,
    mcp: false,
    graphql: false,
    input: {
      params: Type.Object({
        answer: AnswerWord,
        invitationToken: Type.String({ minLength: 1, maxLength: 200 }),
      }),
    },
    output: TextResult,
    errors: [...answerErrors, chatErrors.INVITATION_MISMATCH, chatErrors.LOGIN_PAGE_MISSING],
    summary: 'Answer an invitation by the link in the mail',
    description:
      'Without a bearer token nothing changes: it leads to `redirect.login_uri`, whose page calls the link again with one. Answers 302 to `accept_uri` or `decline_uri` where they are set.',
    async handler({ caller }, { params: { answer, invitationToken } }) {
      const { login_uri, accept_uri, decline_uri } = parts.config().explicit_room_joins.redirect;
      await invitations.byToken(invitationToken);
      if (caller.kind !== 'user') {
        if (login_uri === '') throw chatErrors.LOGIN_PAGE_MISSING();
        const page = new URL(login_uri);
        const hook = `${parts.publicUrl()}/hook/chat/invitations/${answer}/${invitationToken}`;
        page.searchParams.set('redirectUri', hook);
        return Reply.redirect(page.href);
      }
      const room = await invitations.answerToken(caller, invitationToken, answer);
      const target = answer === 'accept' ? accept_uri : decline_uri;
      return target === '' ? said[answer] : Reply.redirect(target.replaceAll('{roomId}', room));
    },
  });
