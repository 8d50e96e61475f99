/**
 * What the server itself says over sockets: to a channel, with the rights that the caller would have as a member, or to
 * all sockets of one user. Code of operators speaks through this.
 */

import type { Kernel } from '../../../host/kernel.ts';
import { requireAuthority } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import { routerErrors } from '../errors.ts';
import { type Broadcast, userRoom } from './broadcast.ts';
import {
  type ChannelDefinition,
  channelName,
  type FoundChannel,
  findChannel,
  rightsIn,
} from './definitions.ts';
import { PAYLOAD_BYTES, textOf } from './namespace.ts';
import { keepMessage } from './store.ts';

/** Where a message has the id of its member: it came from the server, and no socket sent it. */
export const SERVER_MEMBER = '00000000-0000-0000-0000-000000000000';

/** Something to say. */
export interface Saying {
  readonly event: string;
  readonly data: unknown;
}

export interface Realtime {
  /**
   * To the members of a channel, on all nodes. Throws 404 for a channel that there is not, 401 and 403 without the right
   * to send there, 400 and 413 for what cannot be sent.
   */
  publish(caller: Caller, channel: string, saying: Saying): Promise<{ readonly seq?: number }>;
  /** To all sockets of a user in `/channels/`, on all nodes. Users reach their own alone: 403. */
  toUser(caller: Caller, userId: string, saying: Saying): void;
}

interface Parts extends Pick<Kernel, 'database' | 'records' | 'schemas' | 'permissions'> {
  readonly broadcast: Broadcast;
  readonly definitions: () => readonly ChannelDefinition[];
}

const LONGEST_EVENT = 64;
const mine = { kind: 'module', module: 'router' } as const;

export function createRealtime(parts: Parts): Realtime {
  const { database, broadcast } = parts;
  return {
    async publish(caller, channel, { event, data }) {
      if (!channelName.test(channel)) throw invalid('channel', 'format', 'is no name of a channel');
      requireEvent(event);
      const found = findChannel(parts, parts.definitions(), channel);
      await requireSend(parts, caller, found);
      const { history = 0, payloadBytes = PAYLOAD_BYTES } = found.definition;
      const text = textOf('data', data ?? null, payloadBytes);
      const userId = caller.kind === 'user' ? caller.userId : SERVER_MEMBER;
      const message = { member: SERVER_MEMBER, userId, event };
      const kept =
        history === 0
          ? undefined
          : await keepMessage(database, found.channel, history, { ...message, data: text });
      const sentAt = (kept?.sentAt ?? new Date()).toISOString();
      const facts = { channel: found.channel, sentAt, ...(kept && { seq: kept.seq }) };
      const body = { ...facts, ...message, data: JSON.parse(text) as unknown };
      broadcast({ channel: found.channel, event: 'message', data: body, size: text.length });
      return kept ? { seq: kept.seq } : {};
    },
    toUser(caller, userId, { event, data }) {
      if (!isId(userId)) throw invalid('userId', 'format', 'is the id of a user');
      requireEvent(event);
      if (caller.kind === 'anonymous')
        throw errors.UNAUTHORIZED({ message: 'Nobody is signed in' });
      if (caller.kind === 'user' && caller.userId !== userId.toLowerCase())
        throw errors.FORBIDDEN({ message: 'Users reach their own sockets alone' });
      requireOperator(caller);
      const text = textOf('data', data ?? null, PAYLOAD_BYTES);
      const body = { event, data: JSON.parse(text) as unknown, sentAt: new Date().toISOString() };
      broadcast({ channel: userRoom(userId), event: 'notice', data: body, size: text.length });
    },
  };
}

function requireEvent(event: unknown): void {
  if (typeof event === 'string' && event !== '' && event.length <= LONGEST_EVENT) return;
  throw invalid('event', 'type', `is a name of 1 to ${LONGEST_EVENT} characters`);
}

function requireOperator(caller: Caller): void {
  if (caller.kind !== 'user' && caller.kind !== 'anonymous') requireAuthority(caller, mine);
}

/** Throws 401, 403, and 503 while permissions cannot be asked. */
async function requireSend(parts: Parts, caller: Caller, found: FoundChannel): Promise<void> {
  if (caller.kind === 'anonymous') throw errors.UNAUTHORIZED({ message: 'Nobody is signed in' });
  requireOperator(caller);
  if (caller.kind !== 'user') return;
  if (!caller.complete) throw errors.UNAUTHORIZED({ message: 'The second factor is missing' });
  const { send } = await rightsIn(parts, caller, found);
  if (!send) throw routerErrors.CHANNEL_SEND_FORBIDDEN();
}
