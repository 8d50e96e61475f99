/** What operators hear of chat over the sockets of the admin surface: rooms, who is in them, and what is to be moderated. */
import Type from 'typebox';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { OperatorNamespace, OperatorTopic } from '../../../kernel/sockets/operator-notices.ts';

const Id = Type.String();
const optional = Type.Optional;
const base = { at: Type.String({ format: 'date-time' }), actor: Type.String() };

type Payload = Readonly<Record<string, unknown>>;

/** A topic that is made of events; `data` gets their payload. */
const fromEvents = (
  events: readonly string[],
  topic: Omit<OperatorTopic, 'from'>,
  data: (payload: Payload, event: PublishedEvent) => object,
): OperatorTopic => ({
  ...topic,
  from: {
    events,
    data: (event) => ({
      ...{ at: event.occurredAt, actor: event.actor },
      ...data(event.payload ?? {}, event),
    }),
  },
});

const roomTopics: readonly OperatorTopic[] = [
  fromEvents(
    ['chat:create:ChatRoom'],
    {
      name: 'room:created',
      summary: 'There is a new room',
      payload: Type.Object({ ...base, room: Id, name: Type.String() }),
    },
    ({ _id, name }) => ({ room: _id, name }),
  ),
  fromEvents(
    ['chat:deleteRoom:ChatRoom'],
    {
      name: 'room:deleted',
      summary: 'A room is gone',
      payload: Type.Object({ ...base, room: Id }),
    },
    ({ roomId }) => ({ room: roomId }),
  ),
  fromEvents(
    ['chat:addParticipant:ChatRoom', 'chat:leaveRoom:ChatRoom'],
    {
      name: 'members:changed',
      summary: 'Members of a room came or went: read them anew',
      payload: Type.Object({ ...base, room: Id }),
    },
    ({ _id, roomId }) => ({ room: roomId ?? _id }),
  ),
];

const messageTopics: readonly OperatorTopic[] = [
  fromEvents(
    ['chat:report:ChatMessage'],
    {
      name: 'message:reported',
      summary: 'A member reports a message (GET /chat/reports)',
      payload: Type.Object({ ...base, report: Id, message: Id, room: Id }),
    },
    ({ report, message, room }) => ({ report, message, room }),
  ),
  fromEvents(
    ['chat:resolve:report'],
    {
      name: 'report:resolved',
      summary: 'A report is dealt with',
      payload: Type.Object({ ...base, report: Id }),
    },
    ({ report }) => ({ report }),
  ),
  fromEvents(
    ['chat:delete:ChatMessage'],
    {
      name: 'message:deleted',
      summary: 'A message is gone',
      payload: Type.Object({ ...base, message: Id, room: optional(Id) }),
    },
    ({ room }, { ids = [] }) => ({ message: ids[0] ?? '', ...(room !== undefined && { room }) }),
  ),
  fromEvents(
    ['chat:create:ChatMessage'],
    {
      name: 'message:sent',
      summary: 'A message was written; what it says is read over HTTP',
      onRequest: true,
      payload: Type.Object({
        ...base,
        message: Id,
        room: Id,
        sender: Type.Union([Id, Type.Null()]),
        contentType: Type.String(),
        seq: Type.Integer(),
      }),
    },
    ({ _id, room, sender, contentType, seq }) => ({
      ...{ message: _id, room, contentType, seq },
      sender: sender ?? null,
    }),
  ),
];

export const chatNotices: OperatorNamespace = {
  name: '/chat',
  module: 'chat',
  summary: 'Rooms, their members, and what members report',
  topics: [...roomTopics, ...messageTopics],
};
