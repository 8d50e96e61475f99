/**
 * The members of this node. What they may do is decided when they join, and again whenever something happens that it may
 * hang on; presence is written under a lease of the node.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { Kernel } from '../../../host/kernel.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { routerErrors } from '../errors.ts';
import { createRechecks, hangsOn, type Rechecks } from '../rechecks.ts';
import {
  type ChannelDefinition,
  type ChannelRights,
  type FoundChannel,
  findChannel,
  hangsOnRecord,
  rightsIn,
} from './definitions.ts';
import { dropMembers, forgetUsers, putMembers, takeExpired } from './store.ts';

export interface Member {
  readonly id: string;
  readonly connection: SocketConnection;
  found: FoundChannel;
  rights: ChannelRights;
  /** JSON. */
  state: string;
  /** Hears the channel. */
  live: boolean;
  over: boolean;
  /** Messages since the window began; ms of `performance.now()`. */
  readonly window: { endsAt: number; used: number };
}

export interface PresenceNotice {
  readonly kind: 'joined' | 'updated' | 'left';
  readonly channel: string;
  readonly member: { readonly id: string; readonly userId: string; readonly state?: unknown };
}

export interface Members {
  find(channel: string): FoundChannel;
  of(connection: SocketConnection, channel: string): Member | undefined;
  /** Throws 403, 404, 409. Answers the member, who hears the channel from now on. */
  enter(
    connection: SocketConnection,
    found: FoundChannel,
    state: string | undefined,
  ): Promise<Member>;
  /** The member, if they may still be there at this moment. Throws 403 and ends them where they may not. */
  confirm(member: Member): Promise<Member>;
  leave(member: Member): Promise<void>;
  closed(connection: SocketConnection): void;
  /** Definitions are others now. */
  redefined(): void;
  count(): number;
  start(): () => void;
}

export interface MembersParts
  extends Pick<Kernel, 'database' | 'bus' | 'events' | 'records' | 'schemas' | 'permissions'> {
  readonly log: Logger;
  readonly definitions: () => readonly ChannelDefinition[];
  /** Channels of one socket. */
  readonly maxOfSocket: () => number;
  /** To all members on all nodes, but for the socket. */
  readonly tell: (notice: PresenceNotice, except?: string) => void;
}

/** Channels of all sockets of a user on one node. */
const MAX_OF_USER = 1_000;
/** Milliseconds between looks at rights that end by themselves. */
const SWEEP_MS = 10_000;
/** Rows of one statement. */
const ROWS = 1_000;

/** Which sockets of this node are where, within bounds. `follow`: begins to listen while there is any, and answers how to end that. */
function createPlaces(maxOfSocket: () => number, follow: () => () => void) {
  const bySocket = new Map<SocketConnection, Map<string, Member>>();
  const ofUsers = new Map<string, number>();
  let unfollow: (() => void) | undefined;
  const rest = (): void => {
    unfollow?.();
    unfollow = undefined;
  };
  return {
    rest,
    of: (connection: SocketConnection): readonly Member[] => [
      ...(bySocket.get(connection)?.values() ?? []),
    ],
    get: (connection: SocketConnection, channel: string): Member | undefined =>
      bySocket.get(connection)?.get(channel),
    all: (): readonly Member[] => [...bySocket.values()].flatMap((own) => [...own.values()]),
    create(connection: SocketConnection, found: FoundChannel): Member {
      if (!connection.isOpen()) throw routerErrors.CHANNEL_MEMBERSHIP_REQUIRED();
      const own = bySocket.get(connection) ?? new Map<string, Member>();
      const ofUser = ofUsers.get(connection.userId) ?? 0;
      if (own.size >= maxOfSocket() || ofUser >= MAX_OF_USER)
        throw routerErrors.CHANNEL_LIMIT_EXCEEDED();
      const member = newMember(connection, found);
      bySocket.set(connection, own.set(found.channel, member));
      unfollow ??= follow();
      ofUsers.set(connection.userId, ofUser + 1);
      return member;
    },
    /** False where it was removed before. */
    remove(member: Member): boolean {
      if (member.over) return false;
      member.over = true;
      const { connection, found } = member;
      const own = bySocket.get(connection);
      own?.delete(found.channel);
      if (own?.size === 0) bySocket.delete(connection);
      if (bySocket.size === 0) rest();
      const left = (ofUsers.get(connection.userId) ?? 1) - 1;
      if (left === 0) ofUsers.delete(connection.userId);
      else ofUsers.set(connection.userId, left);
      connection.leave(found.channel);
      return true;
    },
  };
}

export function createMembers(parts: MembersParts): Members {
  const places = createPlaces(parts.maxOfSocket, () =>
    parts.events.subscribe('*', (event) => concern(parts, event, places.all, rechecks)),
  );
  const { all } = places;
  const presence = createPresence(parts, all);
  const leave = async (member: Member): Promise<void> => {
    if (places.remove(member)) await presence.left([member]);
  };
  const end = async (member: Member): Promise<void> => {
    if (!member.over) member.connection.emit('ended', { channel: member.found.channel });
    await leave(member);
  };
  const rechecks = createRechecks(lookAt(parts, end));
  parts.schemas.onChange((names) =>
    rechecks.touch(all().filter(({ found }) => names.includes(found.definition.schema ?? ''))),
  );

  return {
    find: (channel) => findChannel(parts, parts.definitions(), channel),
    of: places.get,
    leave,
    count: () => all().length,
    redefined: () => rechecks.touch(all()),
    closed: (connection) => void presence.left(places.of(connection).filter(places.remove)),
    async enter(connection, found, state) {
      const member = places.get(connection, found.channel) ?? places.create(connection, found);
      try {
        member.rights = await rightsIn(parts, await connection.caller(), found);
        if (member.over || !member.rights.join) throw routerErrors.CHANNEL_FORBIDDEN();
      } catch (error) {
        await leave(member);
        throw error;
      }
      const isNew = !member.live;
      member.live = true;
      member.found = found;
      member.state = state ?? member.state;
      connection.join(found.channel);
      if (isNew || state !== undefined) await presence.put(member, isNew ? 'joined' : 'updated');
      return member;
    },
    async confirm(member) {
      const { connection, found } = member;
      member.rights = await rightsIn(parts, await connection.caller(), found);
      if (member.rights.join) return member;
      await end(member);
      throw routerErrors.CHANNEL_FORBIDDEN();
    },
    start: () => startMembers(parts, { rechecks, presence, ...places }),
  };
}

interface Started extends Pick<ReturnType<typeof createPlaces>, 'all' | 'rest'> {
  readonly rechecks: Rechecks<Member>;
  readonly presence: ReturnType<typeof createPresence>;
}

/** What goes on by itself. Answers how to stop. */
function startMembers(
  { events, database }: MembersParts,
  { rechecks, presence, all, rest }: Started,
): () => void {
  // Nothing of a user who is deleted stays, whoever is in channels of this node.
  const unfollow = events.subscribe('database:delete:User', ({ ids = [] }) =>
    forgetUsers(database, ids),
  );
  const sweep = setInterval(
    () => rechecks.touch(all().filter(({ found }) => hangsOnRecord(found))),
    SWEEP_MS,
  );
  sweep.unref();
  const stopPresence = presence.start();
  return () => {
    unfollow();
    rest();
    clearInterval(sweep);
    stopPresence();
  };
}

const newMember = (connection: SocketConnection, found: FoundChannel): Member => ({
  id: randomUUID(),
  connection,
  found,
  rights: { join: false, send: false },
  state: 'null',
  live: false,
  over: false,
  window: { endsAt: 0, used: 0 },
});

/** What of everything that happens may change what members may do. */
function concern(
  parts: MembersParts,
  event: PublishedEvent,
  all: () => readonly Member[],
  rechecks: Rechecks<Member>,
): void {
  const { topic, schema, operation, ids = [], payload } = event;
  const { touch } = rechecks;
  if (topic.startsWith('authorization:')) {
    const [, userId] = /^User:([^#*]+)$/.exec(String(payload?.subject ?? '')) ?? [];
    touch(
      all().filter(
        ({ found, connection }) =>
          hangsOnRecord(found) && (userId === undefined || userId === connection.userId),
      ),
    );
  }
  if (schema === undefined || operation === undefined) return;
  touch(all().filter(({ found }) => found.definition.schema === schema && ids.includes(found.id)));
  concernLeaning(parts, event, all, rechecks).catch((error: unknown) =>
    // The next look at all rights, some seconds later, sees it.
    parts.log.warn({ err: error }, 'On what the rights in channels hang could not be asked'),
  );
}

/** Members by records whose rights hang on the one that has changed. */
async function concernLeaning(
  { permissions }: MembersParts,
  event: PublishedEvent,
  all: () => readonly Member[],
  { touch }: Rechecks<Member>,
): Promise<void> {
  const byRecord = all().filter(({ found }) => hangsOnRecord(found));
  for (const [type = '', members] of Map.groupBy(byRecord, ({ found }) => found.definition.schema))
    if (await hangsOn(permissions, type, event)) touch(members);
}

/** Asks for the rights of a member again, and ends them where they may not be there any more. */
const lookAt =
  (parts: MembersParts, end: (member: Member) => Promise<void>) =>
  async (member: Member): Promise<boolean> => {
    if (member.over) return true;
    try {
      const found = findChannel(parts, parts.definitions(), member.found.channel);
      await parts.bus.freshness.catchUp();
      // Ids of it may be ids of something else now, and written otherwise: it is another channel.
      const isSame = found.channel === member.found.channel;
      const rights = isSame
        ? await rightsIn(parts, await member.connection.caller(), found)
        : undefined;
      if (rights) Object.assign(member, { rights, found });
      if (!rights?.join) await end(member);
      return true;
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) {
        parts.log.warn({ err: error }, 'The rights of a member of a channel could not be asked');
        return false;
      }
      await end(member);
      return true;
    }
  };

const rowOf = ({ id, found, connection, state }: Member) => ({
  id,
  channel: found.channel,
  userId: connection.userId,
  state,
});

/** Who of this node is in channels with presence, for the other nodes and for those who join later. */
function createPresence({ database, bus, log, tell }: MembersParts, all: () => readonly Member[]) {
  const outside = AsyncLocalStorage.snapshot();
  const isSeen = ({ live, found }: Member): boolean => live && found.definition.presence === true;
  const notify = (kind: PresenceNotice['kind'], { id, found, connection, state }: Member): void =>
    tell(
      {
        kind,
        channel: found.channel,
        member: {
          id,
          userId: connection.userId,
          ...(kind !== 'left' && { state: JSON.parse(state) as unknown }),
        },
      },
      connection.id,
    );
  const failed = (error: unknown): void =>
    log.warn({ err: error }, 'Who is in channels could not be written');
  const renew = async (): Promise<void> => {
    const seen = all().filter(isSeen);
    for (let at = 0; at < seen.length; at += ROWS) {
      const page = seen.slice(at, at + ROWS).filter(({ over }) => !over);
      const fresh = new Set(await putMembers(database, bus.nodeId, page.map(rowOf)));
      const gone = page.filter(({ over }) => over).map(({ id }) => id);
      if (gone.length > 0) await dropMembers(database, gone);
      for (const member of page) if (fresh.has(member.id) && !member.over) notify('joined', member);
    }
    for (const { id, channel, userId } of await takeExpired(database))
      tell({ kind: 'left', channel, member: { id, userId } });
  };
  return {
    async put(member: Member, kind: 'joined' | 'updated'): Promise<void> {
      if (!isSeen(member)) return;
      await putMembers(database, bus.nodeId, [rowOf(member)]);
      if (member.over) await dropMembers(database, [member.id]);
      else notify(kind, member);
    },
    async left(members: readonly Member[]): Promise<void> {
      const seen = members.filter(isSeen);
      if (seen.length === 0) return;
      const ids = seen.map(({ id }) => id);
      try {
        await outside(() => dropMembers(database, ids));
        // Told then: whoever lists the members meanwhile hears it. Rows that stay are told of when their lease ends.
        for (const member of seen) notify('left', member);
      } catch (error) {
        failed(error);
      }
    },
    start(): () => void {
      const timer = setInterval(() => void outside(renew).catch(failed), SWEEP_MS);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}
