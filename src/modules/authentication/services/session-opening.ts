/** Opening a session for an account that has just proven who it is. */
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { randomToken, sha256 } from '../../../kernel/security/tokens.ts';
import type { AuthenticationConfig } from '../config.ts';
import { userEvent } from '../events.ts';
import type { Credentials } from '../queries.ts';
import { insertRefreshToken, insertSession, revokeByClient, type SessionRow } from '../session-queries.ts';
import { type Origin, storedUserAgent } from './origin.ts';
import type { SessionStates } from './session-states.ts';
import { callerOf, type PairFacts, type PairMaker, type TokenPair } from './token-pairs.ts';

/** Answers the first pair, or nothing when the account was blocked or its password changed since it was read. */
export type SessionOpener = (account: Credentials, origin: Origin) => Promise<TokenPair | undefined>;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly states: SessionStates;
  readonly makePair: PairMaker;
  readonly config: () => AuthenticationConfig;
}

/** The client of every request until clients are declared (spec: client validation off). */
const anonymousClient = 'anonymous-client';

export function createSessionOpener({ database, events, states, makePair, config }: Dependencies): SessionOpener {
  return async (account, origin) => {
    const opened = await database.transaction(async (transaction) => {
      const session = await insert(transaction, account, origin);
      if (!session) return undefined;
      const facts = await firstToken(transaction, session);
      states.dropAfter(transaction, await endReplaced(transaction, session));
      await events.emit(transaction, callerOf(session), userEvent('login', [session.userId], session.id));
      return { session, facts };
    });
    return opened && makePair(opened.session, opened.facts);
  };

  function insert(transaction: Transaction, account: Credentials, origin: Origin): Promise<SessionRow | undefined> {
    const { refreshTokens, accessTokens, sessions } = config();
    const complete = !account.hasTwoFA;
    const renewable = complete && refreshTokens.enabled;
    return insertSession(transaction, {
      id: newId(),
      userId: account.userId,
      verifiedHash: account.hashedPassword,
      clientId: anonymousClient,
      complete,
      lifetimeMs: sessions.absoluteLifetime,
      idleMs: renewable ? Math.max(refreshTokens.expiryPeriod, accessTokens.expiryPeriod) : accessTokens.expiryPeriod,
      address: origin.address,
      userAgent: storedUserAgent(origin.userAgent),
    });
  }

  async function firstToken(transaction: Transaction, session: SessionRow): Promise<PairFacts> {
    const { enabled, expiryPeriod } = config().refreshTokens;
    const tokenId = newId();
    if (!enabled || !session.complete) return { tokenId, refreshToken: undefined };
    const refreshToken = randomToken();
    const hash = sha256(refreshToken);
    await insertRefreshToken(transaction, { id: tokenId, hash, sessionId: session.id, generation: 0, lifetimeMs: expiryPeriod });
    return { tokenId, refreshToken };
  }

  /** A login ends other sessions where the configuration allows only one (spec/authentication.md 5.5). */
  async function endReplaced(transaction: Transaction, session: SessionRow): Promise<readonly string[]> {
    const { multipleUserSessions, multipleClientLogins } = config().clients;
    return [
      ...(multipleUserSessions ? [] : await revokeByClient(transaction, session, true)),
      ...(multipleClientLogins ? [] : await revokeByClient(transaction, session, false)),
    ];
  }
}
