/** The cached state of sessions: what every authenticated request asks, answered without a query. */
import type { Cache, Caches } from '../../../kernel/cache/cache.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { type SessionState, sessionState } from '../session-queries.ts';

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

/** One per node: the name of a cache is its topic on the bus. */
export function createSessionStates(database: Database, caches: Caches): SessionStates {
  const cache: Cache<SessionState> = caches.create({ name: 'authentication.sessions', maxEntries, ttlMs });
  return {
    get: (sessionId) => cache.get(sessionId) ?? cache.load(sessionId, () => sessionState(database, sessionId)),
    read: (sessionId) => sessionState(database, sessionId),
    dropAfter(transaction, sessionIds) {
      if (sessionIds.length > 0) transaction.afterCommit(() => cache.invalidate(sessionIds));
    },
  };
}
