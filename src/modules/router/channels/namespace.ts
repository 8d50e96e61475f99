/** The namespace `/channels/`: what members send and are sent, and how it gets to the other nodes. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type { LimitBucket } from '../../../kernel/limits/limits.ts';
import {
  defineSocketEvent,
  type SentEvent,
  type SocketConnection,
  type SocketEvent,
  type SocketNamespace,
} from '../../../kernel/sockets/socket-namespace.ts';
import { routerErrors } from '../errors.ts';
import { type Broadcast, namespaceName, userRoom } from './broadcast.ts';
import { Channel } from './definitions.ts';
import type { Member, Members } from './members.ts';
import { keepMessage, lastMessages, membersOf } from './store.ts';

interface Parts extends Pick<Kernel, 'database' | 'limits'> {
  readonly members: Members;
  readonly broadcast: Broadcast;
}

export const PAYLOAD_BYTES = 4_096;
const MESSAGES_PER_SECOND = 30;
/** Bytes of what a member says of themselves. */
const STATE_BYTES = 1_024;
/** Levels of a payload. */
const DEPTH = 32;
/** Each of these reads or writes the database. */
const askBudget: LimitBucket = { name: 'realtime.channels', requests: 600, seconds: 60 };

const Count = Type.Integer({ minimum: 1, maximum: 200 });

export function channelNamespace(parts: Parts): SocketNamespace {
  return {
    name: namespaceName,
    summary: 'Channels for apps: broadcast to the others, who is there, and the last messages',
    errorEvent: 'channel_error',
    events: [...memberEvents(parts), sendEvent(parts), ...askEvents(parts)],
    sends,
    admit: async (connection) => ({
      connected: () => connection.join(userRoom(connection.userId)),
      closed: () => parts.members.closed(connection),
    }),
  };
}

/** What one socket asks for is done one after the other: joining and leaving do not overtake each other. */
const turns = new WeakMap<SocketConnection, Promise<unknown>>();
function inTurn<T>(connection: SocketConnection, work: () => Promise<T>): Promise<T> {
  const result = (turns.get(connection) ?? Promise.resolve()).then(work);
  turns.set(
    connection,
    result.catch(() => undefined),
  );
  return result;
}

function memberEvents({ database, limits, members }: Parts): readonly SocketEvent[] {
  return [
    defineSocketEvent({
      name: 'join',
      summary: 'Hear a channel; once more with another state to change what others see of you.',
      input: Type.Object({
        channel: Channel,
        state: Type.Optional(Type.Unknown()),
        history: Type.Optional(Count),
      }),
      handler: (connection, { channel, state, history }) =>
        inTurn(connection, async () => {
          await requireBudget(limits, connection);
          const text = state === undefined ? undefined : textOf('state', state, STATE_BYTES);
          const member = await members.enter(connection, members.find(channel), text);
          const { found } = member;
          return {
            ...{ channel: found.channel, member: member.id, send: member.rights.send },
            ...(found.definition.presence && (await listed(database, found.channel))),
            ...(history !== undefined && { history: await told(database, member, history) }),
          };
        }),
    }),
    defineSocketEvent({
      name: 'leave',
      summary: 'Hear a channel no more.',
      input: Type.Object({ channel: Channel }),
      handler: (connection, { channel }) =>
        inTurn(connection, async () => {
          const member = members.of(connection, members.find(channel).channel);
          if (member) await members.leave(member);
          return {};
        }),
    }),
  ];
}

const sendEvent = ({ database, members, broadcast }: Parts): SocketEvent =>
  defineSocketEvent({
    name: 'send',
    summary: 'To the other members, on all nodes. Acknowledged when it is on its way.',
    input: Type.Object({
      channel: Channel,
      event: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
      data: Type.Optional(Type.Unknown()),
    }),
    async handler(connection, { channel, event = 'message', data = null }) {
      await connection.caller();
      const member = requireMember(members, connection, channel);
      const { definition } = member.found;
      if (!member.rights.send) throw routerErrors.CHANNEL_SEND_FORBIDDEN();
      count(member.window, definition.messagesPerSecond ?? MESSAGES_PER_SECOND);
      const text = textOf('data', data, definition.payloadBytes ?? PAYLOAD_BYTES);
      const { userId } = connection;
      const pass = (kept: { readonly seq?: number; readonly sentAt: Date }): void =>
        broadcast({
          channel: member.found.channel,
          event: 'message',
          except: connection.id,
          data: {
            ...{ ...kept, sentAt: kept.sentAt.toISOString(), channel: member.found.channel },
            ...{ member: member.id, userId, event, data: JSON.parse(text) as unknown },
          },
          size: text.length,
        });
      const { history = 0 } = definition;
      if (history === 0) {
        pass({ sentAt: new Date() });
        return {};
      }
      return inTurn(connection, async () => {
        if (member.over) throw routerErrors.CHANNEL_MEMBERSHIP_REQUIRED();
        const message = { member: member.id, userId, event, data: text };
        const kept = await keepMessage(database, member.found.channel, history, message);
        pass(kept);
        return { seq: kept.seq };
      });
    },
  });

function askEvents({ database, limits, members }: Parts): readonly SocketEvent[] {
  const asked = async (connection: SocketConnection, channel: string): Promise<Member> => {
    await connection.caller();
    await requireBudget(limits, connection);
    // What was said is for who may be there now, and not until what took that away was heard of.
    return members.confirm(requireMember(members, connection, channel));
  };
  return [
    defineSocketEvent({
      name: 'members',
      summary: 'Who is there, on all nodes: the first 1,000 and their number.',
      input: Type.Object({ channel: Channel }),
      async handler(connection, { channel }) {
        const { found } = await asked(connection, channel);
        if (!found.definition.presence) throw routerErrors.CHANNEL_PRESENCE_DISABLED();
        return listed(database, found.channel);
      },
    }),
    defineSocketEvent({
      name: 'history',
      summary: 'The last messages, oldest first, as far as the channel keeps them.',
      input: Type.Object({ channel: Channel, limit: Type.Optional(Count) }),
      async handler(connection, { channel, limit = 200 }) {
        return { history: await told(database, await asked(connection, channel), limit) };
      },
    }),
  ];
}

async function requireBudget(limits: Parts['limits'], { userId }: SocketConnection): Promise<void> {
  const { allowed, resetMs } = await limits.consume(askBudget, userId);
  if (!allowed) throw errors.RATE_LIMIT({ retryAfter: Math.max(1, Math.ceil(resetMs / 1000)) });
}

function requireMember(members: Members, connection: SocketConnection, channel: string): Member {
  const member = members.of(connection, members.find(channel).channel);
  if (!member?.live) throw routerErrors.CHANNEL_MEMBERSHIP_REQUIRED();
  return member;
}

/** Messages of one second, counted where the socket is. */
function count(window: Member['window'], max: number): void {
  const now = performance.now();
  if (window.endsAt <= now) Object.assign(window, { endsAt: now + 1_000, used: 0 });
  window.used += 1;
  if (window.used > max) throw errors.RATE_LIMIT({ retryAfter: 1 });
}

/** As JSON, which is what the other nodes and the database get. Throws 400 and 413. */
export function textOf(place: string, value: unknown, max: number): string {
  if (isDeeper(value, DEPTH)) throw invalid(place, 'depth', `has more than ${DEPTH} levels`);
  const text = JSON.stringify(value);
  if (Buffer.byteLength(text) > max)
    throw routerErrors.CHANNEL_PAYLOAD_TOO_LARGE({
      message: `${place}: has more than ${max} bytes`,
    });
  return text;
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 ||
    (!ArrayBuffer.isView(value) && Object.values(value).some((one) => isDeeper(one, levels - 1))));

async function listed(database: Kernel['database'], channel: string) {
  const { count: members, rows } = await membersOf(database, channel);
  return {
    members: rows.map(({ id, userId, state }) => ({
      ...{ id, userId },
      state: JSON.parse(state) as unknown,
    })),
    count: members,
  };
}

async function told(database: Kernel['database'], { found }: Member, limit: number) {
  const { history = 0 } = found.definition;
  if (history === 0) return [];
  const rows = await lastMessages(database, found.channel, Math.min(limit, history));
  return rows.map(({ sentAt, data, ...message }) => ({
    ...{ ...message, channel: found.channel, sentAt: sentAt.toISOString() },
    data: JSON.parse(data) as unknown,
  }));
}

const Text = Type.String();
const sends: readonly SentEvent[] = [
  {
    name: 'message',
    summary: 'What another member sent. `seq` where the channel keeps its last messages.',
    payload: Type.Object({
      channel: Text,
      member: Text,
      userId: Text,
      event: Text,
      data: Type.Unknown(),
      seq: Type.Optional(Type.Integer()),
      sentAt: Type.String({ format: 'date-time' }),
    }),
  },
  {
    name: 'notice',
    summary: 'What the server says to you, in whichever channels you are.',
    payload: Type.Object({
      event: Text,
      data: Type.Unknown(),
      sentAt: Type.String({ format: 'date-time' }),
    }),
  },
  {
    name: 'presence',
    summary: 'A member came, changed their state, or went.',
    payload: Type.Object({
      kind: Type.Enum(['joined', 'updated', 'left']),
      channel: Text,
      member: Type.Object({ id: Text, userId: Text, state: Type.Optional(Type.Unknown()) }),
    }),
  },
  {
    name: 'ended',
    summary: 'You are in a channel no more: you may not be there now, or it is not defined now.',
    payload: Type.Object({ channel: Text }),
  },
  {
    name: 'channel_error',
    summary: 'Something was refused, or the session ends.',
    payload: Type.Object({ status: Type.Integer(), code: Text, message: Text }),
  },
];
