/** Opening a session for an account that has just proven who it is. */
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { randomToken, sha256 } from '../../../kernel/security/tokens.ts';
import type { AuthenticationConfig } from '../config.ts';
import { userEvent } from '../events.ts';
import { type Credentials, lockUsers } from '../queries.ts';
import { insertRefreshToken, insertSession, revokeByClient, type SessionRow } from '../session-queries.ts';
import type { OwedStep } from './factors/owed.ts';
import { clientOf, type Origin, storedUserAgent } from './origin.ts';
import type { SessionStates } from './session-states.ts';
import type { CustomClaims, TokenHooks } from './token-hooks.ts';
import { callerOf, type PairFacts, type PairMaker, type TokenPair } from './token-pairs.ts';

/**
 * Answers the first pair, or nothing when the account was blocked or its credentials changed since it was read. `strategy`
 * names how the person signed in. Throws what hooks throw.
 */
export type SessionOpener = (
  account: Credentials,
  origin: Origin,
  strategy: string,
  owed: OwedStep | undefined,
) => Promise<TokenPair | undefined>;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly states: SessionStates;
  readonly makePair: PairMaker;
  readonly hooks: TokenHooks;
  readonly config: () => AuthenticationConfig;
}

export function createSessionOpener({ database, events, states, makePair, hooks, config }: Dependencies): SessionOpener {
  return async (account, origin, strategy, owed) => {
    const opened = await database.transaction(async (transaction) => {
      const claims = await hooks.claimsFor(transaction, account, origin);
      // Of several logins at the same time each must see the sessions of the others.
      if (owed === undefined && endsOthers(config())) await lockUsers(transaction, [account.userId]);
      const session = await insert(transaction, account, origin, { claims, complete: owed === undefined });
      if (!session) return undefined;
      const facts = await firstToken(transaction, session);
      // Whoever knows the password alone ends nobody's session.
      if (session.complete) states.dropAfter(transaction, await endReplaced(transaction, session));
      const what = session.complete ? 'login' : 'firstFactor';
      await events.emit(transaction, callerOf(session), userEvent(what, [session.userId], session.id, { strategy }));
      return { session, facts };
    });
    return opened && makePair(opened.session, opened.facts);
  };

  function insert(
    transaction: Transaction,
    account: Credentials,
    origin: Origin,
    { claims, complete }: { readonly claims: CustomClaims | null; readonly complete: boolean },
  ): Promise<SessionRow | undefined> {
    const { refreshTokens, accessTokens, sessions } = config();
    const renewable = complete && refreshTokens.enabled;
    return insertSession(transaction, {
      id: newId(),
      account,
      clientId: clientOf(origin),
      complete,
      lifetimeMs: sessions.absoluteLifetime,
      idleMs: renewable ? Math.max(refreshTokens.expiryPeriod, accessTokens.expiryPeriod) : accessTokens.expiryPeriod,
      address: origin.address,
      userAgent: storedUserAgent(origin.userAgent),
      claims,
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

/** Whether a login may end other sessions of the user. */
const endsOthers = ({ clients }: AuthenticationConfig): boolean => !(clients.multipleUserSessions && clients.multipleClientLogins);
