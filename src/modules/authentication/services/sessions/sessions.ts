/**
 * The life of open sessions: listed, and ended by logout, block, change of password or deletion. What
 * ends here is refused for the very next request on every node, because the cached state is dropped
 * everywhere after the commit and before the call that ended it returns.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Cache } from '../../../../kernel/cache.ts';
import { anonymous, type Caller, type UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { Identity } from '../../../../kernel/identity.ts';
import type { CommunicationsService } from '../../../communications/index.ts';
import { authErrors } from '../../errors.ts';
import { type UserEvent, userEvent } from '../../events.ts';
import {
  type ListedSession,
  liveSessions,
  nameSession,
  revokeSession,
  revokeSessions,
  type SessionState,
  sessionState,
  sessionsOf,
} from './queries.ts';

/* The cached state of sessions: what every authenticated request asks, answered without a query. */

export interface SessionStates {
  /** The session's present state, without a promise when it is cached; `undefined` when there is no such session. */
  get(sessionId: string): SessionState | undefined | Promise<SessionState | undefined>;
  /** Straight from the database. */
  read(sessionId: string): Promise<SessionState | undefined>;
  /** Forgets these states, here and on every other node, when the transaction commits and before it returns. */
  dropAfter(transaction: Transaction, sessionIds: readonly string[]): void;
}

/** How long a state may be believed without asking when no message about it comes; ms. */
const ttlMs = 60_000;
const maxEntries = 50_000;

interface StatesParts extends Pick<Kernel, 'database' | 'caches'> {
  readonly identity: Pick<Identity, 'ends'>;
}

/** One per node: the name of a cache is its topic on the bus. What is open for a session ends with it, on every node. */
export function createSessionStates({ database, caches, identity }: StatesParts): SessionStates {
  const cache: Cache<SessionState> = caches.create({
    name: 'authentication.sessions',
    maxEntries,
    ttlMs,
    onInvalidated: (sessions) => identity.ends.tell({ sessions }),
  });
  return {
    get: (sessionId) =>
      cache.get(sessionId) ?? cache.load(sessionId, () => sessionState(database, sessionId)),
    read: (sessionId) => sessionState(database, sessionId),
    dropAfter(transaction, sessionIds) {
      if (sessionIds.length > 0)
        transaction.afterCommit(() => cache.invalidate(sessionIds), { alsoInDoubt: true });
    },
  };
}

export interface Sessions {
  list(caller: UserCaller): Promise<readonly (ListedSession & { readonly current: boolean })[]>;
  /** Names the device of one of the caller's own sessions; 404 when it is not theirs or has ended. */
  rename(
    caller: UserCaller,
    sessionId: string,
    name: string,
  ): Promise<ListedSession & { readonly current: boolean }>;
  logout(caller: UserCaller): Promise<void>;
  /** Ends a session that its browser has left, perhaps for another one of this or another user; nothing when it has ended. */
  leave(session: Pick<UserCaller, 'userId' | 'sessionId'>, nextUserId?: string): Promise<void>;
  /** Ends one of the caller's own sessions; 404 when it is not theirs or has ended. */
  end(caller: UserCaller, sessionId: string): Promise<void>;
  /** Ends one session of a user, for an operator; 404 when they have no such session or it has ended. */
  endOf(caller: Caller, userId: string, sessionId: string): Promise<void>;
  /** Ends the sessions of these users, but for `except`; in the ambient transaction when there is one. Answers how many. */
  endAll(caller: Caller, userIds: readonly string[], options: EndOptions): Promise<number>;
  /** Ends the caller's own session, for the transaction that opens another in its place. False when it has ended already. */
  replace(transaction: Transaction, caller: UserCaller): Promise<boolean>;
  /** For the transaction that deletes these users: their cached sessions go when it commits. */
  forget(transaction: Transaction, userIds: readonly string[]): Promise<void>;
}

export interface EndOptions {
  readonly reason: 'passwordChanged' | 'emailChanged' | 'factorsChanged' | 'blocked' | 'revoked';
  /** The session that goes on. */
  readonly except?: string;
}

/** Devices that get push messages: they end with the session that registered them. */
export type SessionDevices = CommunicationsService['devices'];
type EndedSessions = Parameters<SessionDevices['endSessions']>[1];

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly states: SessionStates;
  readonly devices: SessionDevices;
}

interface Ending {
  readonly event: UserEvent;
  readonly userIds: readonly string[];
  /** Sessions that may have ended before: a node that was killed right after that has told nobody. */
  readonly perhaps?: readonly string[];
  /** Whose devices end: of these sessions, or of all that the users ever had but one. Absent: they stay. */
  readonly devicesOf?: Pick<EndedSessions, 'only' | 'except'>;
}

/** Ends what `revoke` ends, with one event, in one transaction. Answers how many. */
type End = (
  caller: Caller,
  ending: Ending,
  revoke: (t: Transaction) => Promise<readonly string[]>,
) => Promise<number>;

const createEnd =
  ({ database, events, states, devices }: Dependencies): End =>
  (caller, { event, userIds, perhaps = [], devicesOf }, revoke) =>
    database.transaction(async (transaction) => {
      const ended = await revoke(transaction);
      if (ended.length > 0)
        await events.emit(
          transaction,
          caller,
          userEvent(event, userIds, ended.length === 1 ? ended[0] : undefined),
        );
      if (devicesOf) await devices.endSessions(transaction, { userIds, ...devicesOf });
      states.dropAfter(transaction, [...new Set([...ended, ...perhaps])]);
      return ended.length;
    });

export function createSessions(dependencies: Dependencies): Sessions {
  const { database, states } = dependencies;
  const ending = createEnd(dependencies);
  const endOf: Sessions['endOf'] = async (caller, userId, sessionId) => {
    const devicesOf = { only: [sessionId] };
    const ended = await ending(
      caller,
      { event: 'revokeSessions', userIds: [userId], devicesOf },
      (t) => revokeSession(t, userId, sessionId, 'revoked'),
    );
    if (ended === 0) throw authErrors.SESSION_NOT_FOUND();
  };

  return {
    list: async (caller) =>
      (await liveSessions(database, caller.userId)).map((session) => ({
        ...session,
        current: session._id === caller.sessionId,
      })),
    async rename({ userId, sessionId: own }, sessionId, name) {
      const session = await nameSession(database, { userId, sessionId, name });
      if (!session) throw authErrors.SESSION_NOT_FOUND();
      return { ...session, current: session._id === own };
    },
    async logout(caller) {
      const { userId, sessionId } = caller;
      const own = [sessionId];
      await ending(
        caller,
        { event: 'logout', userIds: [userId], perhaps: own, devicesOf: { only: own } },
        (t) => revokeSession(t, userId, sessionId, 'logout'),
      );
    },
    async leave({ userId, sessionId }, nextUserId) {
      const devicesOf = nextUserId === userId ? undefined : { only: [sessionId] };
      await ending(
        anonymous,
        { event: 'revokeSessions', userIds: [userId], ...(devicesOf && { devicesOf }) },
        (t) => revokeSession(t, userId, sessionId, 'replaced'),
      );
    },
    end: (caller, sessionId) => endOf(caller, caller.userId, sessionId),
    endOf,
    endAll: (caller, userIds, options) =>
      ending(
        caller,
        { event: 'revokeSessions', userIds, devicesOf: { except: options.except } },
        (t) => revokeSessions(t, userIds, options.reason, options.except ?? null),
      ),
    async replace(transaction, { userId, sessionId }) {
      const ended = await revokeSession(transaction, userId, sessionId, 'replaced');
      states.dropAfter(transaction, ended);
      return ended.length > 0;
    },
    forget: async (transaction, userIds) =>
      states.dropAfter(transaction, await sessionsOf(transaction, userIds)),
  };
}
