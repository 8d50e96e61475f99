/**
 * Renewal with rotation (docs/decisions/004-auth-tokens.md). A refresh token works once. Its successor is
 * derived from it with a key of the platform, so that the same token presented twice at almost the
 * same time (two tabs, a lost answer) gets the same pair again without the successor being stored in
 * clear. Any later second use means that two parties hold the token: the whole session ends.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { newId } from '../../../../kernel/ids.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { isOwnApp, type Origin, storedUserAgent } from '../origin.ts';
import type { SecurityLog } from '../security-log.ts';
import {
  insertRefreshToken,
  lockPresentedToken,
  type PresentedToken,
  revokeSession,
  successor,
  useRefreshToken,
} from './queries.ts';
import { callerOf, type PairMaker, type TokenPair } from './session-opening.ts';
import type { SessionDevices, SessionStates } from './sessions.ts';

export interface Renewal {
  /** A new pair for a refresh token. 401 when it is unknown, expired, used or its session ended; 403 when the user is blocked. */
  renew(refreshToken: string, origin: Origin): Promise<TokenPair>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'secrets' | 'metrics'> {
  readonly states: SessionStates;
  readonly devices: SessionDevices;
  readonly makePair: PairMaker;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
  readonly log: Logger;
}

/** How long after its first use a token still gets the same successor; ms. */
const graceMs = 10_000;
const tokenShape = /^[A-Za-z0-9_-]{43}$/;

type Outcome = { readonly pair: TokenPair } | 'unknown' | 'blocked' | 'reused';

export function createRenewal(dependencies: Dependencies): Renewal {
  const { database, secrets, metrics } = dependencies;
  const reuses = metrics.counter(
    'refresh_token_reuse_total',
    'Sessions that ended because a used refresh token was presented again',
  );

  const successorOf = (refreshToken: string): string =>
    Buffer.from(secrets.digest(refreshToken, 'authentication:refresh-successor'), 'hex').toString(
      'base64url',
    );

  return {
    async renew(refreshToken, origin) {
      if (!tokenShape.test(refreshToken)) throw authErrors.REFRESH_TOKEN_INVALID();
      const outcome = await database.transaction((transaction) =>
        decide(transaction, refreshToken, origin),
      );
      if (typeof outcome === 'object') return outcome.pair;
      if (outcome === 'blocked') throw authErrors.USER_BLOCKED();
      if (outcome === 'reused') reuses.inc();
      throw authErrors.REFRESH_TOKEN_INVALID();
    },
  };

  async function decide(
    transaction: Transaction,
    refreshToken: string,
    origin: Origin,
  ): Promise<Outcome> {
    const presented = await lockPresentedToken(transaction, sha256(refreshToken), graceMs);
    if (!presented || !isOwnApp(origin, presented)) return 'unknown';
    if (!presented.active) return 'blocked';
    if (presented.over) return 'unknown';
    if (presented.used)
      return replay(dependencies, transaction, presented, {
        next: successorOf(refreshToken),
        origin,
      });
    if (presented.expired) return 'unknown';
    return rotate(dependencies, transaction, presented, {
      next: successorOf(refreshToken),
      origin,
    });
  }
}

async function rotate(
  { config, events, makePair }: Dependencies,
  transaction: Transaction,
  presented: PresentedToken,
  { next, origin }: { next: string; origin: Origin },
): Promise<Outcome> {
  const { refreshTokens, accessTokens } = config();
  const id = newId();
  await useRefreshToken(transaction, {
    tokenId: presented.tokenId,
    sessionId: presented.id,
    idleMs: Math.max(refreshTokens.expiryPeriod, accessTokens.expiryPeriod),
    address: origin.address,
    userAgent: storedUserAgent(origin.userAgent),
  });
  await insertRefreshToken(transaction, {
    id,
    hash: sha256(next),
    sessionId: presented.id,
    generation: presented.generation + 1,
    lifetimeMs: refreshTokens.expiryPeriod,
  });
  await events.emit(
    transaction,
    callerOf(presented),
    userEvent('renew', [presented.userId], presented.id),
  );
  return { pair: makePair(presented, { tokenId: id, refreshToken: next }) };
}

/** A used token again: the same pair within the grace time while that pair was not renewed itself, else the end of the session. */
async function replay(
  { makePair, events, securityLog, states, devices, log }: Dependencies,
  transaction: Transaction,
  presented: PresentedToken,
  { next, origin }: { next: string; origin: Origin },
): Promise<Outcome> {
  const following = presented.inGrace ? await successor(transaction, sha256(next)) : undefined;
  if (following && !following.used) {
    return {
      pair: makePair(
        { ...presented, issuedAt: following.issuedAt },
        { tokenId: following.tokenId, refreshToken: next },
      ),
    };
  }
  const ended = await revokeSession(transaction, presented.userId, presented.id, 'reuse');
  await devices.endSessions(transaction, { userIds: [presented.userId], only: [presented.id] });
  await events.emit(
    transaction,
    callerOf(presented),
    userEvent('reuse', [presented.userId], presented.id),
  );
  await securityLog.note({
    action: 'reuse',
    userId: presented.userId,
    origin,
    outcome: 'refused',
  });
  states.dropAfter(transaction, ended);
  log.warn(
    { userId: presented.userId, sessionId: presented.id },
    'A used refresh token was presented again: the session was ended',
  );
  return 'reused';
}
